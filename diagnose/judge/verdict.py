"""The class of a breakdown: what bounds the step, how sure that is, and which class is close.

`attribution/leading` decides which class leads. Unobserved time is moved to every class that it may belong to; if the
class depends on it, the verdict stays open. Every sentence that quotes a threshold reads it here or in
`doubts`, including those of the documentation.
"""

from collections.abc import Mapping, Sequence

from diagnose.attribution.causes import CAUSES, CORE_WAIT, EXPOSED, EXPOSED_TRANSFER, OTHER_GPU
from diagnose.attribution.leading import NAMES_THE_CLASS, NEAR, WORKS, class_shares, leader, outcomes, settled
from diagnose.diagnosis import Doubt, DoubtKind, LedgerEntry, Verdict, VerdictClass
from diagnose.diagnosis.terms import VERDICTS
from diagnose.judge.doubts import (
    MANY_LOST,
    MOSTLY_SIZED,
    MUCH_UNOBSERVED,
    TOO_MANY_LOST,
    Grounds,
    doubts_of_class,
    doubts_of_rules,
    least_confidence,
    not_recorded,
    unnamed,
    waits_for_core,
    worst_first,
)

MOSTLY_ONE = 0.90  # of the class data: copies to the device, or operators that prepare input

__all__ = [
    "MANY_LOST",
    "MOSTLY_SIZED",
    "MUCH_UNOBSERVED",
    "NAMES_THE_CLASS",
    "NEAR",
    "TOO_MANY_LOST",
    "Grounds",
    "class_to_cure",
    "is_close",
    "verdict_of",
]

_WITHHELD: Mapping[DoubtKind, str] = {
    "ranks-apart": "the ranks are not one job",
    "crowded-host": "the machine was too busy to judge this job",
    "unlike-controls": "the job's speed changed during the capture",
    "growing-steps": "the steps became longer after it was captured",
}
_COPIES = ("copy-HtoD", "host-to-device")
_INPUT_OPERATORS = "operator-input"
_ON_HOST = {  # without a GPU
    "host": "is host code around the operators",
    "compute": "runs compute-bound operators",
    "memory": "runs memory-bound operators",
}
_WITH_WAITING = "is the host's, with that waiting"
_SAYS = {
    "data": "waits for data",
    "host": "waits for the host",
    "communication": "is exposed communication",
    "compute": "runs compute-bound kernels",
    "memory": "runs memory-bound kernels",
}


def verdict_of(breakdown: tuple[LedgerEntry, ...], grounds: Grounds) -> Verdict:
    """The verdict on a breakdown whose entries add up to the step."""
    causes = _by_cause(breakdown)
    shares, possible = class_shares(causes), outcomes(causes)
    leaders = settled(possible)
    at_fault = not_recorded(breakdown, grounds)
    if at_fault is not None:
        return _withheld([at_fault])
    doubts = [*doubts_of_rules(breakdown, leaders, grounds), *unnamed(causes, possible, leaders, grounds)]
    if leaders is None or any(doubt.withholds for doubt in doubts):
        return _withheld(doubts)
    leading, runner_up = leaders
    doubts += doubts_of_class(causes, shares, leaders, grounds)
    told = {"host": _WITH_WAITING} if _starves(leading, causes.get(CORE_WAIT, 0.0)) else {}
    told |= {"communication": _communication(breakdown, grounds), "data": _data(causes, shares["data"])}
    says = _SAYS | ({} if grounds.has_gpu else _ON_HOST) | told
    return Verdict(
        class_=VERDICTS[leading],
        between=(VERDICTS[leading], VERDICTS[runner_up]) if runner_up else (),
        confidence=least_confidence(doubts),
        because=_crowded(leading, causes.get(CORE_WAIT, 0.0), grounds, _because(leaders, shares, grounds, says)),
        doubts=worst_first(doubts),
    )


def class_to_cure(breakdown: tuple[LedgerEntry, ...], verdict: Verdict) -> VerdictClass:
    """The class whose cures come first: the verdict's, or the one that the profiler's cost keeps from being claimed.

    Gains are predicted for the step without the profiler, so that cost does not speak against them.
    """
    if not verdict.withheld or verdict.doubts[0].kind != "profiler":
        return verdict.class_
    return VERDICTS[leader(class_shares(_by_cause(breakdown)))[0]]


def _withheld(doubts: Sequence[Doubt]) -> Verdict:
    """No verdict, because of the worst doubt that withholds it."""
    ordered = worst_first(doubts)
    worst = ordered[0]
    head = _WITHHELD.get(worst.kind, "")
    return Verdict(
        class_="undecided",
        confidence="low",
        because=f"{head}: {worst.says}" if head else worst.says,
        doubts=ordered,
        withheld=head or worst.says,
    )


def is_close(breakdown: tuple[LedgerEntry, ...], between: tuple[VerdictClass, ...]) -> bool:
    """Whether the breakdown itself is close to both classes; otherwise unobserved time decides between them."""
    return {VERDICTS[class_] for class_ in leader(class_shares(_by_cause(breakdown))) if class_} == set(between)


def _by_cause(breakdown: tuple[LedgerEntry, ...]) -> dict[str, float]:
    return {entry.cause: entry.share for entry in breakdown}


def _communication(breakdown: tuple[LedgerEntry, ...], grounds: Grounds) -> str:
    """A clause on the causes in the class: all of exposed communication, or its transfer and what else belongs to
    it.
    """
    held = {entry.cause for entry in breakdown if entry.ns and entry.class_ == "communication"}
    if not grounds.waiting_apart and OTHER_GPU not in held:
        return _SAYS["communication"]
    exposed = EXPOSED_TRANSFER if grounds.waiting_apart else CAUSES[EXPOSED].spoken
    names = [exposed if cause == EXPOSED else CAUSES[cause].spoken for cause in CAUSES if cause in held]
    return f"is {' and '.join(names)}" if names else _SAYS["communication"]


def _data(causes: Mapping[str, float], share: float) -> str:
    """A clause on the data class; mostly copies are named as such, since they may be of offloaded weights.

    So are operators that split text, read or decode: nothing waits for a loader there.
    """
    if causes.get(_INPUT_OPERATORS, 0.0) > MOSTLY_ONE * share:
        return "splits text, reads or decodes input in operators"
    copied = sum(causes.get(cause, 0.0) for cause in _COPIES)
    return "waits for copies to the device" if copied > MOSTLY_ONE * share else _SAYS["data"]


def _crowded(leading: str, waited: float, grounds: Grounds, because: str) -> str:
    """The reason, behind the waiting for cores if that is what leads."""
    if not _starves(leading, waited):
        return because
    held = f": {grounds.cores_held}" if grounds.cores_held else ""
    return f"{waits_for_core(waited, grounds)}{held}; {because}"


def _starves(leading: str, waited: float) -> bool:
    """Whether the waiting for cores is what the verdict is about."""
    return leading == "host" and waited >= NAMES_THE_CLASS


def _because(leaders: tuple[str, str], shares: Mapping[str, float], grounds: Grounds, says: Mapping[str, str]) -> str:
    leader, runner_up = leaders
    text = f"{100 * shares[leader]:.1f} % of {grounds.of} {says[leader]}"
    if runner_up:
        text += f", {100 * shares[runner_up]:.1f} % {says[runner_up]}"
    if not grounds.has_gpu:
        if leader not in WORKS and not runner_up and shares[leader] < max(shares[class_] for class_ in WORKS):
            text += f", which names the class from {100 * NAMES_THE_CLASS:.3g} % on"
    elif leader in WORKS and grounds.sized_share >= MOSTLY_SIZED:
        text += "; kernels are classed by the roofline"
    return text
