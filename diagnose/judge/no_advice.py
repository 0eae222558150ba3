"""Changes that would not help, and rules that could not be judged."""

from diagnose.diagnosis import NotAdvised, NotJudged
from diagnose.facts import Facts, Unknown, another_run
from diagnose.judge.case import Case, Judged
from diagnose.patch.job_framework import framework_of


def not_advised(judged: Judged, facts: Facts) -> tuple[NotAdvised, ...]:
    """Changes that would not help, named as the training framework names them, except those that a finding proposes.

    Changes that a fault asks for and the job refuses come first; several rules may ask for one change.
    """
    patches = [rule.patch_for(facts) for rule, judgement in judged if judgement.fired]
    proposed = {key for patch in patches if patch for key in patch.set}
    found = [(rule, rule.not_advised(facts, judgement)) for rule, judgement in judged]
    refused = [n for rule, n in found if n is not None and n.because == rule.refusing.because]
    others = [n for rule, n in found if n is not None and n.because != rule.refusing.because and n.what not in proposed]
    job_framework = framework_of(facts)
    return tuple(
        dict.fromkeys(
            NotAdvised(what=", ".join(map(job_framework.named, n.what.split(", "))), because=n.because)
            for n in (*refused, *others)
        )
    )


def not_judged(judged: Judged, case: Case) -> tuple[NotJudged, ...]:
    """Rules whose facts are unknown, after what the ranks as a whole leave open."""
    entries = [
        NotJudged.lacking(rule.id, judgement.because, *judgement.captures)
        for rule, judgement in judged
        if judgement.answer == "unknown"
    ]
    if case.left_out:
        listed = ", ".join(str(rank) for rank in case.left_out)
        why = f"rank {listed} recorded no GPU activity and is left out: the other ranks did"
        entries.insert(0, NotJudged.lacking("ranks", why, another_run("capture those ranks again")))
    exposed = case.facts["exposed_communication_share"].value
    undivided = case.job.view.undivided
    if undivided and not isinstance(exposed, Unknown) and float(exposed) > 0:
        entries.insert(0, NotJudged.lacking("transfer_or_wait", undivided.because, undivided.capture))
    return tuple(entries)
