"""Who made the others wait, and what it did meanwhile that they did not.

What a late rank did since its step began is compared with what the other ranks did until they reached the same
collective, each on its own clock. The excess is what made it late; being late earlier in the step carries over.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diagnose import intervals as iv
from diagnose.attribution import EXPOSED, Attribution
from diagnose.diagnosis import LatenessCause
from diagnose.ranks.match import Match
from diagnose.timeline import Timeline

MIN_SHARE = 0.05
MIN_SHARE_ON_HOST = 0.10  # the host's scheduler alone moves ranks apart by several per cent
PERSISTENT = 2 / 3
FEW_STEPS = 3
_CAUSES: dict[str, LatenessCause] = {"gc": "gc", "logging": "checkpoint"}
_CLASSES: dict[str, LatenessCause] = {"data": "data", "host": "host", "untraced": "host"}
_MORE_KERNELS = 1.02


@dataclass(frozen=True)
class Blame:
    """One rank's lateness: nanoseconds of waiting it caused on others, and the excess of its time by cause."""

    rank: int
    caused_ns: int
    share: float
    excess: Mapping[str, int]
    cause: LatenessCause
    stands_out: bool


@dataclass(frozen=True)
class Lateness:
    """For one collective: which rank (by position) came last, and its excess over the other ranks by cause."""

    late: int
    excess: Mapping[str, int]


def lateness_of(attributions: Sequence[Attribution], found: Match) -> list[Lateness]:
    """Who came last to each collective, and what it did since its step began that the others did not."""
    spent = [_spent(a, found.start[:, r]) for r, a in enumerate(attributions)]
    late = found.duration.argmin(axis=1)
    return [Lateness(int(q), _excess([s[i] for s in spent], int(q))) for i, q in enumerate(late)]


def _spent(attribution: Attribution, until: NDArray[np.int64]) -> list[dict[str, int]]:
    """Nanoseconds by cause from the beginning of the step that each time lies in; communication is left out."""
    windows = attribution.windows
    step = np.clip(np.searchsorted(windows[:, 0], until, side="right") - 1, 0, len(windows) - 1)
    own = np.array([c != "communication" for c in attribution.classes], bool)
    sums = [(c, attribution.pieces(c)) for c, keep in zip(attribution.causes, own, strict=True) if keep]
    columns = [(c, iv.coverage(pieces, windows[step, 0], until)) for c, pieces in sums]
    return [{c: int(ns[i]) for c, ns in columns if ns[i]} for i in range(len(until))]


def waiting_caused(
    attributions: Sequence[Attribution], found: Match, lateness: Sequence[Lateness]
) -> NDArray[np.int64]:
    """Exposed nanoseconds that the others wait for each rank in each step, shape (ranks, steps)."""
    late = np.array([entry.late for entry in lateness])
    caused = np.zeros((len(attributions), max(len(a.windows) for a in attributions)), np.int64)
    for r, attribution in enumerate(attributions):
        exposed, windows = attribution.pieces(EXPOSED), attribution.windows
        for q in set(late.tolist()) - {r}:
            pieces = iv.intersect(exposed, waits(found, r, late == q))
            caused[q, : len(windows)] += iv.coverage(pieces, windows[:, 0], windows[:, 1])
    return caused


def waits(found: Match, rank: int, instances: NDArray[np.bool_]) -> iv.Intervals:
    """The instants at which a rank waits inside the given collectives: from its start until the last has come."""
    begin = found.start[instances, rank]
    return iv.intervals(begin, begin + found.waiting[instances, rank])


def _excess(spent: Sequence[Mapping[str, int]], late: int) -> dict[str, int]:
    others = [s for r, s in enumerate(spent) if r != late]
    typical = {cause: float(np.median([o.get(cause, 0) for o in others])) for cause in spent[late]}
    return {cause: round(ns - typical[cause]) for cause, ns in spent[late].items() if ns > typical[cause]}


def class_of(attribution: Attribution, cause: str) -> str:
    """The class of a cause; untraced host time is the host's, as in the verdict."""
    return "host" if cause == "untraced" else attribution.class_of(cause)


def main_class(attribution: Attribution, excess: Mapping[str, int]) -> str:
    """The class with the largest excess, communication when there is none."""
    sums: dict[str, int] = {}
    for cause, ns in excess.items():
        sums[class_of(attribution, cause)] = sums.get(class_of(attribution, cause), 0) + ns
    return max(sums, key=lambda c: sums[c]) if sums else "communication"


def blame_of(
    timelines: Sequence[Timeline],
    attributions: Sequence[Attribution],
    lateness: Sequence[Lateness],
    caused: NDArray[np.int64],
) -> list[Blame]:
    """What each rank made the others wait for, worst first.

    A rank stands out when the others wait for it at least 5 % of their steps (10 % without a GPU), it causes far more
    of the waiting than its even share, it does so in two thirds of the steps (in all of them when there are three or
    fewer), and its lead over the next rank is no chance: one-sided t-test over the steps, 1 % (5 % up to three steps).

    Args:
        timelines: one for each rank.
        attributions: one for each rank, before waiting is divided from transfer.
        lateness: one for each collective.
        caused: what `waiting_caused` returns.
    """
    dominant = _dominant(len(timelines))
    blames = []
    for r, timeline in enumerate(timelines):
        own = int(caused[r].sum())
        share = own / max(sum(a.total_ns for i, a in enumerate(attributions) if i != r), 1)
        enough = MIN_SHARE if timeline.has_gpu else MIN_SHARE_ON_HOST
        stands_out = share >= enough and own >= dominant * caused.sum() and _persistent(caused, r, dominant)
        stands_out = stands_out and _significant(caused, r)
        excess = _summed(entry.excess for entry in lateness if entry.late == r) if own else {}
        blames.append(
            Blame(timeline.rank, own, share, excess, _cause(attributions[r], excess, timelines, r), stands_out)
        )
    return sorted(blames, key=lambda b: -b.caused_ns)


def _dominant(ranks: int) -> float:
    """Share of the waiting that is half way between an even share and all of it."""
    return (1 + 1 / ranks) / 2


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for part in parts:
        for cause, ns in part.items():
            sums[cause] = sums.get(cause, 0) + ns
    return sums


def _cause(
    attribution: Attribution, excess: Mapping[str, int], timelines: Sequence[Timeline], rank: int
) -> LatenessCause:
    if not excess:
        return "unknown"
    class_ = main_class(attribution, excess)
    if class_ in ("compute", "memory"):
        return _slower_or_more(timelines, rank)
    causes = [c for c in excess if class_of(attribution, c) == class_]
    return _CAUSES.get(max(causes, key=lambda c: excess[c]), _CLASSES.get(class_, "unknown"))


def _slower_or_more(timelines: Sequence[Timeline], rank: int) -> LatenessCause:
    """More kernels than the other ranks run is more work; as many that take longer are slower ones."""
    counts = [_work(t) for t in timelines]
    others = float(np.median([c for i, c in enumerate(counts) if i != rank]))
    return "more_work" if counts[rank] > _MORE_KERNELS * others else "slower_kernels"


def _work(timeline: Timeline) -> int:
    gpu = timeline.gpu
    if timeline.has_gpu:
        return int((~gpu.is_communication & ~gpu.is_copy).sum())
    return int(timeline.trace.rows_of("cpu_op").sum())


def _persistent(caused: NDArray[np.int64], rank: int, dominant: float) -> bool:
    """Whether the rank causes most of the waiting in enough of all steps; a step in which nobody waits has no cause."""
    totals = caused.sum(axis=0)
    leads = (totals > 0) & (caused[rank] >= dominant * totals)
    return bool(leads.all()) if len(leads) <= FEW_STEPS else bool(leads.mean() >= PERSISTENT)


_T_CRITICAL = (6.31, 2.92, 4.54, 3.75, 3.36, 3.14, 3.00, 2.90, 2.82, 2.76, 2.72, 2.68, 2.65, 2.62, 2.60)
_T_MANY = 2.6


def _significant(caused: NDArray[np.int64], rank: int) -> bool:
    """Whether the rank's lead over the next worst one, step by step, is too steady for chance; one step cannot tell."""
    others = np.delete(caused, rank, axis=0).max(axis=0)
    lead = (caused[rank] - others).astype(np.float64)
    freedom = len(lead) - 1
    if freedom < 1:
        return True
    error = float(lead.std(ddof=1)) / np.sqrt(len(lead))
    critical = _T_CRITICAL[freedom - 1] if freedom <= len(_T_CRITICAL) else _T_MANY
    return bool(lead.mean() > critical * error)
