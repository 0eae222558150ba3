"""The doubts about a verdict: what withholds it or makes it less sure, with the numbers, worst first.

Rules about the capture have doubts of their own ([[doubt]] of a rule file). The rest comes from the breakdown: time
without a known cause, classes that are close, and the way in which the parts of the leading class were found.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, get_args

import msgspec
from msgspec.structs import replace

from diagnose.attribution.causes import (
    CAUSES,
    CORE_WAIT,
    DISTORTED,
    GRAPH_CAPTURE,
    OPERATOR_GAP,
    UNKNOWN_KINDS,
    UNOBSERVED,
)
from diagnose.attribution.leading import (
    NAMES_THE_CLASS,
    NEAR,
    WORKS,
    Leaders,
    class_shares,
    leader,
    unknown_kind_share,
    unobserved_share,
)
from diagnose.diagnosis import Confidence, Doubt, DoubtKind, LedgerEntry
from diagnose.diagnosis.terms import VERDICTS
from diagnose.facts import spoken

if TYPE_CHECKING:  # a report reads the verdict's thresholds, and needs no rule
    from diagnose.rule.rule import Doubting

MUCH_UNOBSERVED = 0.10  # of the step: above it a verdict is less sure
TOO_MANY_LOST = 0.20  # of the kernel launches: nothing is decided
MANY_LOST = 0.02  # of the kernel launches: no verdict is sure
ODD_FACTOR = 2.0  # times the median step: a longer one is another kind of step
ODD_SHARE = 1 / 3  # of the steps at most: more of them are what the job does
MOSTLY_SIZED = 0.80  # of the kernel time, judged by the roofline

_KINDS: tuple[DoubtKind, ...] = get_args(DoubtKind)
_CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")
_UNNAMED = (*UNOBSERVED, *UNKNOWN_KINDS)


class Grounds(msgspec.Struct, frozen=True):
    """The limits on the confidence of a verdict.

    `is_empty`: neither operators nor kernels were recorded. `waiting_apart`: exposed communication holds the transfer
    alone. `unknown_device`: events of the trace on a device that diagnose does not know, "" if there are none.
    `distortion`: the profiled over the unprofiled step time, if so large that the steps say little about the job; else
    None. `profiler_factor`: the same whatever its size, 1 if unknown. `cores_held`: what holds the cores, "" if
    unknown. `gaps_recur`: whether long gaps inside an operator come in most of its calls. `doubts`: those that the
    rules about the capture have.
    """

    of: str
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
    profiler_factor: float = 1.0
    cores_held: str = ""
    gaps_recur: bool = False
    doubts: tuple["Doubting", ...] = ()


def worst_first(doubts: Iterable[Doubt]) -> tuple[Doubt, ...]:
    """The worst doubt of each kind: those that withhold the verdict first, then in the order of the kinds."""
    by_weight = sorted(doubts, key=lambda doubt: (not doubt.withholds, _KINDS.index(doubt.kind), _weight(doubt)))
    worst: dict[DoubtKind, Doubt] = {}
    for doubt in by_weight:
        worst.setdefault(doubt.kind, doubt)
    return tuple(worst.values())


def _weight(doubt: Doubt) -> int:
    return _CONFIDENCES.index(doubt.leaves)


def least_confidence(doubts: Sequence[Doubt]) -> Confidence:
    """The confidence that the doubts leave: high if there are none."""
    return min((doubt.leaves for doubt in doubts), key=_CONFIDENCES.index, default="high")


def doubts_of_rules(breakdown: tuple[LedgerEntry, ...], leaders: Leaders | None, grounds: Grounds) -> list[Doubt]:
    """The doubts of the rules, each withholding the verdict if it leaves the leading class unclaimed.

    The breakdown of steps that the profiler distorts is of steps without it, so that it claims no class too much. In
    others the host's class is claimed if it leads even when all that the profiler adds to a step is taken from it.
    """
    leading = leaders[0] if leaders and grounds.distortion is None else ""
    if leading == "host" and _host_leads_without_profiler(breakdown, grounds.profiler_factor):
        leading = ""
    found = [
        _unclaimed(each.doubt, leading) if each.unclaimed == leading != "" else each.doubt for each in grounds.doubts
    ]
    if not (decide := _odd_steps(breakdown, leaders)):
        return found
    uneven = next((doubt for doubt in found if doubt.kind == "uneven-steps"), None)
    if uneven is None:
        return [*found, Doubt(kind="uneven-steps", says=decide, rule="uneven-steps")]
    return [replace(doubt, says=f"{doubt.says}; {decide}") if doubt is uneven else doubt for doubt in found]


def _host_leads_without_profiler(breakdown: tuple[LedgerEntry, ...], factor: float) -> bool:
    """Whether the host leads in steps without the profiler, of which one with it takes `factor` times the time."""
    shares = class_shares({entry.cause: entry.share for entry in breakdown})
    host = max(shares["host"] - (1 - 1 / factor), 0.0) if factor > 1 else 0.0
    return leader({name: share * factor for name, share in shares.items()} | {"host": host * factor})[0] == "host"


def _unclaimed(doubt: Doubt, leading: str) -> Doubt:
    return replace(doubt, withholds=True, says=f"{doubt.says}, which may be why it looks {VERDICTS[leading]}")


def _odd_steps(breakdown: tuple[LedgerEntry, ...], leaders: Leaders | None) -> str:
    """A clause on the much longer steps that decide the class; "" if they do not.

    Checkpoints or evaluations in a window do not show how often they occur in the run.
    """
    by_step = {entry.cause: entry.by_step_ns for entry in breakdown if entry.by_step_ns}
    each = [sum(parts) for parts in zip(*by_step.values(), strict=True)]
    most = ODD_FACTOR * median(each) if each else 0.0
    usual = [step for step, ns in enumerate(each) if ns <= most]
    odd = len(each) - len(usual)
    if leaders is None or not 0 < odd <= ODD_SHARE * len(each):
        return ""
    usual_ns = max(sum(each[step] for step in usual), 1)
    others = {cause: sum(ns[step] for step in usual) / usual_ns for cause, ns in by_step.items()}
    without = leader(class_shares(others))[0]
    if without in ("", leaders[0]):
        return ""
    decide = "step decides" if odd == 1 else "steps decide"
    return f"{odd} long {decide} the class: the {len(usual)} others are {VERDICTS[without]}"


def not_recorded(breakdown: tuple[LedgerEntry, ...], grounds: Grounds) -> Doubt | None:
    """The fault of the capture that allows no verdict; None if it can be trusted."""

    def doubt(says: str, rule: str) -> Doubt:
        return Doubt(kind="not-recorded", says=says, withholds=True, rule=rule)

    if grounds.unknown_device:
        whose = "are of an unknown device, neither CUDA's nor ROCm's"
        return doubt(f"{grounds.unknown_device} {whose}: what bounds it is not known", "unknown-device")
    if grounds.capture_failed:
        return doubt(
            "the job ran on a GPU but no GPU activity was recorded, so nothing is known of the device",
            "gpu-not-recorded",
        )
    if grounds.is_empty:
        return doubt("nothing was recorded: the capture holds no operator and no kernel", "empty-capture")
    if grounds.lost_share > TOO_MANY_LOST:
        return doubt(_lost(grounds), "lost-gpu-events")
    return None if any(e.ns for e in breakdown) else doubt("no counted step has a duration", "")


def _lost(grounds: Grounds) -> str:
    return f"{100 * grounds.lost_share:.0f} % of the kernel launches have no GPU activity in the trace"


def unnamed(
    causes: Mapping[str, float], possible: Sequence[Leaders], leaders: Leaders | None, grounds: Grounds
) -> list[Doubt]:
    """Doubts about time that has no class, or comes only once: whether it decides the class, leads, or is much."""
    if not grounds.gaps_recur and _makes_the_host_lead(causes, OPERATOR_GAP):
        says = (
            f"for {100 * causes[OPERATOR_GAP]:.1f} % of {grounds.of} the host calls nothing inside one operator, as "
            "where it compiles, loads or searches once, so the step may not be one that repeats"
        )
        return [Doubt(kind="start-in-window", says=says, withholds=True, rule="long-gap-in-operator")]
    if _makes_the_host_lead(causes, GRAPH_CAPTURE):
        says = (
            f"{100 * causes[GRAPH_CAPTURE]:.1f} % of {grounds.of} is graph capture: what is launched there is recorded "
            "for a graph and does not run, so the step is not one that repeats"
        )
        return [Doubt(kind="start-in-window", says=says, withholds=True)]
    if leaders is None:
        return [_open(causes, possible, grounds)]
    largest = max(causes, key=lambda cause: causes[cause])
    if largest in _UNNAMED and largest != DISTORTED:
        says = f"{100 * causes[largest]:.0f} % of {grounds.of} is {CAUSES[largest].spoken}, more than any known cause"
        rule = "unexplained-time" if largest in UNOBSERVED else _unclassified(grounds)
        return [Doubt(kind="unnamed", says=says, withholds=True, rule=rule)]
    return _beside(unobserved_share(causes), leaders, leader(class_shares(causes)), grounds)


def _unclassified(grounds: Grounds) -> str:
    """The rule about kernels of unknown kind; no rule is about such operators."""
    return "unclassified-kernels" if grounds.has_gpu else ""


def _open(causes: Mapping[str, float], possible: Sequence[Leaders], grounds: Grounds) -> Doubt:
    """The doubt that leaves the class open between the `possible` leaders."""
    *others, last = dict.fromkeys(VERDICTS[leading] for leading, _ in possible)
    if (unknown := _of_unknown_kind(causes)) and {*others, last} == {"compute-bound", "memory-bound"}:
        what = "kernels" if grounds.has_gpu else "operators"
        says = f"{what} of unknown kind take {unknown} of {grounds.of}: it may be {others[0]} or {last}"
        return Doubt(kind="unnamed", says=says, withholds=True, rule=_unclassified(grounds))
    much, may_be = f"{100 * unobserved_share(causes):.0f} % of {grounds.of}", f"it may be {', '.join(others)} or {last}"
    if grounds.distortion is not None:
        says = f"{_distorted(grounds.distortion)} what {much} without it is: {may_be}"
        return Doubt(kind="profiler", says=says, withholds=True, rule="profiler-distortion")
    says = f"for {much} the trace does not show why the device waits: {may_be}"
    return Doubt(kind="unnamed", says=says, withholds=True, rule="unexplained-time")


def _makes_the_host_lead(causes: Mapping[str, float], cause: str) -> bool:
    shares, ns = class_shares(causes), causes.get(cause, 0.0)
    return ns > 0 and leader(shares)[0] == "host" != leader(shares | {"host": shares["host"] - ns})[0]


def _of_unknown_kind(causes: Mapping[str, float]) -> str:
    """The share of the step in kernels of unknown kind, if large enough to matter; else ""."""
    unknown = unknown_kind_share(causes)
    return f"{100 * unknown:.0f} %" if unknown > NEAR else ""


def _beside(unobserved: float, leaders: Leaders, as_it_stands: Leaders, grounds: Grounds) -> list[Doubt]:
    """The doubt because of much unobserved time, or of little that decides between two classes."""
    if unobserved <= MUCH_UNOBSERVED and leaders == as_it_stands:
        return []
    matters = "could not change the class" if leaders == as_it_stands else "decides between the two"
    if grounds.distortion is not None:
        says = f"{_distorted(grounds.distortion)} what {100 * unobserved:.0f} % is, which {matters}"
        return [Doubt(kind="profiler", says=says, leaves="medium", rule="profiler-distortion")]
    says = f"for {100 * unobserved:.0f} % the trace does not show why the device waits, which {matters}"
    return [Doubt(kind="unnamed", says=says, leaves="medium", rule="unexplained-time")]


def _distorted(distortion: float) -> str:
    return f"the profiler makes steps {spoken(distortion, 'factor')} as long and does not show"


def doubts_of_class(
    causes: Mapping[str, float], shares: Mapping[str, float], leaders: Leaders, grounds: Grounds
) -> list[Doubt]:
    """Doubts about the class that leads: what else it may be, and how its parts were found."""
    (leading, runner_up), found = leaders, []
    if leading == "communication" and (grounds.alone_of_many or grounds.late_rank_missing):
        alone = "one rank of several cannot tell transfer from waiting for a late rank"
        missing = "a rank whose trace is missing may be what the others wait for"
        found.append(Doubt(kind="one-rank", says=alone if grounds.alone_of_many else missing))
    if (waited := causes.get(CORE_WAIT, 0.0)) > NEAR:
        held = f" ({grounds.cores_held})" if grounds.cores_held else ""
        found.append(Doubt(kind="crowded-host", says=f"{waits_for_core(waited, grounds)}{held}", leaves="medium"))
    if runner_up and leaders == leader(shares):
        sure = shares[leading] > NAMES_THE_CLASS + NEAR
        found.append(Doubt(kind="close-classes", says=_margin(leaders, shares), leaves="medium" if sure else "low"))
    if grounds.lost_share > MANY_LOST:
        found.append(Doubt(kind="lost-launches", says=_lost(grounds), leaves="medium", rule="lost-gpu-events"))
    if not grounds.has_gpu:
        found.append(Doubt(kind="classed-by-kind", says="without GPU activity operators are classed by kind"))
    elif leading in WORKS and grounds.sized_share < MOSTLY_SIZED:
        known = f"{100 * grounds.sized_share:.0f} %"
        says = f"operator sizes are known of {known} of the kernel time, and the rest is classed by kind"
        if known == "0 %":
            says = "operator sizes were not recorded, so kernels are classed by kind"
        found.append(Doubt(kind="classed-by-kind", says=says, leaves="medium"))
    return found


def _margin(leaders: Leaders, shares: Mapping[str, float]) -> str:
    """How close the two classes are, in points of the step."""
    one, other = leaders
    if {one, other} <= {*WORKS} or {one, other}.isdisjoint(WORKS):
        return f"{one} and {other} lie {100 * abs(shares[one] - shares[other]):.1f} points apart"
    waiting = other if one in WORKS else one
    over = 100 * (shares[waiting] - NAMES_THE_CLASS)
    return f"the {waiting} time is {abs(over):.1f} points {'above' if over >= 0 else 'below'} the limit"


def waits_for_core(waited: float, grounds: Grounds) -> str:
    """A clause on the waiting for cores."""
    return f"the training thread waits {100 * waited:.1f} % of {grounds.of} for a CPU core"
