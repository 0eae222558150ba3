"""What would not help, and what could not be judged."""

from collections.abc import Sequence

from diagnose.diagnosis import Finding, NotAdvised, NotJudged
from diagnose.facts import Facts, Unknown
from diagnose.judge.case import Case, Judged
from diagnose.ranks.stragglers.straggler_report import missing_suspect


def not_advised(judged: Judged, facts: Facts, findings: Sequence[Finding]) -> tuple[NotAdvised, ...]:
    """Changes that would not help; never one that a finding proposes."""
    proposed = {key for f in findings if f.patch for key in f.patch.set}
    found = (rule.not_advised(facts, judgement) for rule, judgement in judged)
    return tuple(n for n in found if n is not None and n.what not in proposed)


def not_judged(judged: Judged, case: Case) -> tuple[NotJudged, ...]:
    """Rules whose facts are unknown, after what the ranks as a whole leave open."""
    found = [
        NotJudged(rule=rule.id, because=judgement.because, capture_next=judgement.capture_next)
        for rule, judgement in judged
        if judgement.answer == "unknown"
    ]
    if case.left_out:
        listed = ", ".join(str(rank) for rank in case.left_out)
        why = f"rank {listed} recorded no GPU activity and is left out: the other ranks did"
        found.insert(0, NotJudged(rule="ranks", because=why, capture_next="capture those ranks again"))
    if suspect := missing_suspect(case.job):
        found.insert(0, NotJudged(rule="straggler", because=suspect, capture_next="pass the traces of all ranks"))
    exposed = case.facts["exposed_communication_share"].value
    if not case.job.view.matched and not isinstance(exposed, Unknown) and float(exposed) > 0:
        unmatched = case.job.view.why_unmatched
        entry = NotJudged(rule="transfer_or_wait", because=unmatched.because, capture_next=unmatched.capture_next)
        found.insert(0, entry)
    return tuple(found)
