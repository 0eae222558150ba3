"""What would not help, and what could not be judged."""

from diagnose.diagnosis import NotAdvised, NotJudged
from diagnose.facts import HOST_STEP, STEP, Facts, Unknown, analysis_option, another_run, spoken
from diagnose.judge.case import Case, Judged
from diagnose.patch.worlds import world_of
from diagnose.ranks.stragglers.straggler_report import missing_suspect
from diagnose.rule import Judgement, Rule, names_in

DISTORTED = 3.0  # profiled over unprofiled steps from which on a share of the step says nothing of what is small
_SHORTER = another_run("capture steps in which the GPU works for longer: the profiler's cost is one for each operator")


def not_advised(judged: Judged, facts: Facts) -> tuple[NotAdvised, ...]:
    """Changes that would not help, in the words of what runs the training loop.

    Never one that a finding proposes, nor one that shares of a distorted step speak against.
    """
    patches = [rule.patch_for(facts) for rule, judgement in judged if judgement.fired]
    proposed = {key for patch in patches if patch for key in patch.set}
    sure = ((rule, judgement) for rule, judgement in judged if not _is_distorted(rule, judgement, facts))
    found = (rule.not_advised(facts, judgement) for rule, judgement in sure)
    world = world_of(facts)
    return tuple(
        NotAdvised(what=", ".join(map(world.named, n.what.split(", "))), because=n.because)
        for n in found
        if n is not None and n.what not in proposed
    )


def _is_distorted(rule: Rule, judgement: Judgement, facts: Facts) -> bool:
    """Whether the rule advises against its change by a share of steps that the profiler made much longer."""
    overhead = facts.get("profiler_overhead_factor")
    if overhead is None or isinstance(overhead.value, Unknown) or float(overhead.value) < DISTORTED:
        return False
    if rule.not_advised(facts, judgement) is None:
        return False
    return any(name in facts and facts[name].of in (STEP, HOST_STEP) for name in _grounds(rule, judgement, facts))


def _grounds(rule: Rule, judgement: Judgement, facts: Facts) -> frozenset[str]:
    """The facts by which the rule advises against its change."""
    if judgement.answer == "not_advised":
        blocked = next((each for each in rule.not_when if each.holds and each.holds.evaluate(facts)), None)
        return frozenset() if blocked is None or blocked.holds is None else blocked.holds.names
    if judgement.fired:
        return names_in(rule.patch.withheld(facts)) if rule.patch else frozenset()
    return rule.facts | names_in(rule.negative.because) if rule.negative else frozenset()


def not_judged(judged: Judged, case: Case) -> tuple[NotJudged, ...]:
    """Rules whose facts are unknown, after what the ranks as a whole leave open."""
    entries = [
        NotJudged.lacking(rule.id, judgement.because, *judgement.captures)
        for rule, judgement in judged
        if judgement.answer == "unknown"
    ]
    distorted = [rule for rule, judgement in judged if _is_distorted(rule, judgement, case.facts)]
    if distorted:
        overhead = spoken(case.facts["profiler_overhead_factor"].value, "factor")  # type: ignore[arg-type]
        why = f"profiled steps take {overhead} the time of unprofiled ones: a small share of them may be a large one"
        entries += [NotJudged.lacking(rule.id, why, _SHORTER) for rule in distorted]
    if case.left_out:
        listed = ", ".join(str(rank) for rank in case.left_out)
        why = f"rank {listed} recorded no GPU activity and is left out: the other ranks did"
        entries.insert(0, NotJudged.lacking("ranks", why, another_run("capture those ranks again")))
    if suspect := missing_suspect(case.job):
        entries.insert(0, NotJudged.lacking("straggler", suspect, analysis_option("the traces of all ranks")))
    exposed = case.facts["exposed_communication_share"].value
    if not case.job.view.matched and not isinstance(exposed, Unknown) and float(exposed) > 0:
        unmatched = case.job.view.why_unmatched
        entries.insert(0, NotJudged.lacking("transfer_or_wait", unmatched.because, unmatched.capture))
    return tuple(entries)
