"""The class of a breakdown: what bounds the step, how sure that is, and which class is close.

`attribution/leading` decides which class leads. Unobserved time is moved to every class that it may belong to; if the
class depends on it, the verdict stays open. Every sentence that quotes a threshold reads it here, including those of
the documentation.
"""

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from diagnose.attribution.causes import (
    CAUSES,
    CORE_WAIT,
    EXPOSED,
    EXPOSED_TRANSFER,
    GRAPH_CAPTURE,
    OPERATOR_GAP,
    OTHER_GPU,
)
from diagnose.attribution.leading import (
    NAMES_THE_CLASS,
    NEAR,
    WORKS,
    Leaders,
    class_shares,
    leader,
    outcomes,
    settled,
    unknown_kind_share,
    unobserved_share,
)
from diagnose.diagnosis import Confidence, LedgerEntry, Verdict, VerdictClass
from diagnose.facts import spoken

MUCH_UNOBSERVED = 0.10  # of the step: above it a verdict is less sure, and says so
TOO_MANY_LOST = 0.20  # of the kernel launches: nothing is decided
MANY_LOST = 0.02  # of the kernel launches: no verdict is sure
ODD_FACTOR = 2.0  # times the median step: a longer one is another kind of step
ODD_SHARE = 1 / 3  # of the steps at most: more of them are what the job does
FEW_ODD = 2  # steps, too few to show how often they occur
MOSTLY_ONE = 0.90  # of the class data: copies to the device, or operators that prepare input
MOSTLY_SIZED = 0.80  # of the kernel time, judged by the roofline

__all__ = [
    "MANY_LOST",
    "MOSTLY_SIZED",
    "MUCH_UNOBSERVED",
    "NAMES_THE_CLASS",
    "NEAR",
    "TOO_MANY_LOST",
    "Grounds",
    "is_close",
    "verdict_of",
]

_NAMES: dict[str, VerdictClass] = {
    "data": "data-bound",
    "host": "host-bound",
    "communication": "communication-bound",
    "compute": "compute-bound",
    "memory": "memory-bound",
}
_LESS_SURE: Mapping[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}
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


class Grounds(msgspec.Struct, frozen=True):
    """The limits on the confidence of a verdict.

    `is_empty`: neither operators nor kernels were recorded. `waiting_apart`: exposed communication holds the transfer
    alone. `unknown_device`: events of the trace on a device that diagnose does not know, "" if there are none.
    `distortion`: the profiled over the unprofiled step time, if so large that the steps say little about the job; else
    None. `too_busy`: how busy, if the machine is too busy with other processes to judge the job, else "". `cores_held`:
    what holds the cores, "" if unknown. `gaps_recur`: whether long gaps inside an operator come in most of its calls.
    """

    of: str
    steps: int
    has_gpu: bool
    capture_failed: bool = False
    is_empty: bool = False
    lost_share: float = 0.0
    sized_share: float = 0.0
    alone_of_many: bool = False
    late_rank_missing: bool = False
    waiting_apart: bool = False
    unknown_device: str = ""
    distortion: float | None = None
    too_busy: str = ""
    cores_held: str = ""
    gaps_recur: bool = False


def verdict_of(breakdown: tuple[LedgerEntry, ...], grounds: Grounds) -> Verdict:
    """The verdict on a breakdown whose entries add up to the step."""
    causes = _by_cause(breakdown)
    shares, possible = class_shares(causes), outcomes(causes)
    leaders = settled(possible)
    refused = _refused(breakdown, grounds) or _unsettled(causes, possible if leaders is None else (), grounds)
    if refused or leaders is None:
        return Verdict(class_="undecided", confidence="low", because=refused)
    leading, runner_up = leaders
    unobserved, (odd, that_they_decide) = unobserved_share(causes), _odd_steps(breakdown, leading)
    sure, without_core = _confidence(leading, shares[leading], bool(runner_up), grounds), causes.get(CORE_WAIT, 0.0)
    told = {"host": _WITH_WAITING} if _starves(leading, without_core) else {}
    told |= {"communication": _communication(breakdown, grounds), "data": _data(causes, shares["data"])}
    less_sure = unobserved > MUCH_UNOBSERVED or 0 < odd <= FEW_ODD or without_core > NEAR
    says = _SAYS | ({} if grounds.has_gpu else _ON_HOST) | told
    return Verdict(
        class_=_NAMES[leading],
        between=(_NAMES[leading], _NAMES[runner_up]) if runner_up else (),
        confidence=_LESS_SURE[sure] if less_sure else sure,
        because=_crowded(leading, without_core, grounds, _because(leaders, shares, grounds, says))
        + _beside(unobserved, leaders, leader(shares), grounds)
        + that_they_decide,
    )


def is_close(breakdown: tuple[LedgerEntry, ...], between: tuple[VerdictClass, ...]) -> bool:
    """Whether the breakdown itself is close to both classes; otherwise unobserved time decides between them."""
    return {_NAMES[class_] for class_ in leader(class_shares(_by_cause(breakdown))) if class_} == set(between)


def _by_cause(breakdown: tuple[LedgerEntry, ...]) -> dict[str, float]:
    return {entry.cause: entry.share for entry in breakdown}


def _odd_steps(breakdown: tuple[LedgerEntry, ...], leading: str) -> tuple[int, str]:
    """The number of much longer steps that decide the class, and a clause about them; 0 and "" if they do not.

    One or two checkpoints or evaluations in a window do not show how often they occur in the run.
    """
    by_step = {entry.cause: entry.by_step_ns for entry in breakdown if entry.by_step_ns}
    each = [sum(parts) for parts in zip(*by_step.values(), strict=True)]
    most = ODD_FACTOR * median(each) if each else 0.0
    usual = [step for step, ns in enumerate(each) if ns <= most]
    odd = len(each) - len(usual)
    if not 0 < odd <= ODD_SHARE * len(each):
        return 0, ""
    usual_ns = max(sum(each[step] for step in usual), 1)
    others = {cause: sum(ns[step] for step in usual) / usual_ns for cause, ns in by_step.items()}
    without = leader(class_shares(others))[0]
    if without in ("", leading):
        return 0, ""
    decide = "step decides" if odd == 1 else "steps decide"
    return odd, f"; {odd} long {decide} it: the {len(usual)} others are {_NAMES[without]}"


def _refused(breakdown: tuple[LedgerEntry, ...], grounds: Grounds) -> str:
    """The reason why the capture allows no verdict, "" if it can be trusted."""
    if grounds.unknown_device:
        whose = "are of an unknown device, neither CUDA's nor ROCm's"
        return f"{grounds.unknown_device} {whose}: what bounds it is not known"
    if grounds.capture_failed:
        return "the job ran on a GPU but no GPU activity was recorded, so nothing is known of the device"
    if grounds.is_empty:
        return "nothing was recorded: the capture holds no operator and no kernel"
    if grounds.lost_share > TOO_MANY_LOST:
        return f"{100 * grounds.lost_share:.0f} % of the kernel launches have no GPU activity in the trace"
    if grounds.too_busy:
        return f"the machine was too busy to judge this job: {grounds.too_busy}"
    return "" if any(e.ns for e in breakdown) else "no counted step has a duration"


def _unsettled(causes: Mapping[str, float], possible: Sequence[Leaders], grounds: Grounds) -> str:
    """The reason why the class is open: what comes once, or the `possible` leaders; "" if it is not open."""
    if not grounds.gaps_recur and _makes_the_host_lead(causes, OPERATOR_GAP):
        return (
            f"for {100 * causes[OPERATOR_GAP]:.1f} % of {grounds.of} the host calls nothing inside one operator, as "
            "where it compiles, loads or searches once, so the step may not be one that repeats"
        )
    if _makes_the_host_lead(causes, GRAPH_CAPTURE):
        return (
            f"{100 * causes[GRAPH_CAPTURE]:.1f} % of {grounds.of} is graph capture: what is launched there is recorded "
            "for a graph and does not run, so the step is not one that repeats"
        )
    if not possible:
        return ""
    *others, last = dict.fromkeys(_NAMES[leading] for leading, _ in possible)
    if (unknown := _of_unknown_kind(causes)) and {*others, last} == {"compute-bound", "memory-bound"}:
        what = "kernels" if grounds.has_gpu else "operators"
        return f"{what} of unknown kind take {unknown} of {grounds.of}: it may be {others[0]} or {last}"
    much, may_be = f"{100 * unobserved_share(causes):.0f} % of {grounds.of}", f"it may be {', '.join(others)} or {last}"
    if grounds.distortion is not None:
        return f"{_distorted(grounds.distortion)} what {much} without it is: {may_be}"
    return f"for {much} the trace does not show why the device waits: {may_be}"


def _makes_the_host_lead(causes: Mapping[str, float], cause: str) -> bool:
    shares, ns = class_shares(causes), causes.get(cause, 0.0)
    return ns > 0 and leader(shares)[0] == "host" != leader(shares | {"host": shares["host"] - ns})[0]


def _of_unknown_kind(causes: Mapping[str, float]) -> str:
    """The share of the step in kernels of unknown kind, if large enough to matter; else ""."""
    unknown = unknown_kind_share(causes)
    return f"{100 * unknown:.0f} %" if unknown > NEAR else ""


def _beside(unobserved: float, leaders: Leaders, as_it_stands: Leaders, grounds: Grounds) -> str:
    """A clause on the effect of much unobserved time on the verdict; "" if there is little."""
    if unobserved <= MUCH_UNOBSERVED and leaders == as_it_stands:
        return ""
    matters = "could not change the class" if leaders == as_it_stands else "decides between the two"
    if grounds.distortion is not None:
        return f"; {_distorted(grounds.distortion)} what {100 * unobserved:.0f} % is, which {matters}"
    return f"; for {100 * unobserved:.0f} % the trace does not show why the device waits, which {matters}"


def _distorted(distortion: float) -> str:
    return f"the profiler makes steps {spoken(distortion, 'factor')} as long and does not show"


def _confidence(leader: str, share: float, near: bool, grounds: Grounds) -> Confidence:
    unmatched = grounds.alone_of_many or grounds.late_rank_missing
    if not grounds.has_gpu or (leader == "communication" and unmatched):
        return "low"
    if near or grounds.steps < 2 or grounds.lost_share > MANY_LOST:
        return "medium" if not near or share > NAMES_THE_CLASS + NEAR else "low"
    return "medium" if leader in ("compute", "memory") and grounds.sized_share < MOSTLY_SIZED else "high"


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
    """The reason with the waiting for cores: before it if that waiting leads, behind it if it is much."""
    if waited <= NEAR:
        return because
    demand = f": {grounds.cores_held}" if grounds.cores_held else ""
    if _starves(leading, waited):
        return f"{_waits_for_core(waited, grounds)}{demand}; {because}"
    return f"{because}; {_waits_for_core(waited, grounds)}, so the rest is less sure{demand}"


def _starves(leading: str, waited: float) -> bool:
    """Whether the waiting for cores is what the verdict is about."""
    return leading == "host" and waited >= NAMES_THE_CLASS


def _waits_for_core(waited: float, grounds: Grounds) -> str:
    return f"the training thread waits {100 * waited:.1f} % of {grounds.of} for a CPU core"


def _because(leaders: tuple[str, str], shares: Mapping[str, float], grounds: Grounds, says: Mapping[str, str]) -> str:
    leader, runner_up = leaders
    text = f"{100 * shares[leader]:.1f} % of {grounds.of} {says[leader]}"
    if runner_up:
        text += f", {100 * shares[runner_up]:.1f} % {says[runner_up]}"
    if not grounds.has_gpu:
        if leader not in WORKS and not runner_up and shares[leader] < max(shares[class_] for class_ in WORKS):
            text += f", which names the class from {100 * NAMES_THE_CLASS:.3g} % on"
        text += "; without GPU activity operators are classed by kind"
    elif leader == "communication" and grounds.alone_of_many:
        text += "; one rank of several cannot tell transfer from waiting for a late rank"
    elif leader == "communication" and grounds.late_rank_missing:
        text += "; a rank whose trace is missing may be what they wait for"
    elif leader in ("compute", "memory"):
        some = f", {100 * grounds.sized_share:.0f} % of their time by the roofline" if grounds.sized_share else ""
        how = "the roofline" if grounds.sized_share >= MOSTLY_SIZED else f"kind{some}"
        text += f"; kernels are classed by {how}"
    return text
