"""Who made the others wait, and what it did meanwhile that they did not.

What a late rank did since its step began is compared with what the other ranks did until they reached the same
collective, each on its own clock. The excess is what made it late; being late earlier in the step carries over.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diagnose.postmortem import LatenessCause
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.waits import Lateness, class_of, main_class

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


def blame_of(ranks: Sequence[RankDigest], lateness: Sequence[Lateness], caused: NDArray[np.int64]) -> list[Blame]:
    """What each rank made the others wait for, worst first.

    A rank stands out when the others wait for it at least 5 % of their steps (10 % without a GPU), it causes far more
    of the waiting than its even share, it does so in two thirds of the steps (in all of them when there are three or
    fewer), and its lead over the next rank is no chance: one-sided t-test over the steps, 1 % (5 % up to three steps).

    Args:
        ranks: of the job.
        lateness: one for each collective of any group.
        caused: what `waiting_caused` returns.
    """
    dominant = _dominant(len(ranks))
    total = sum(rank.total_ns for rank in ranks)
    blames = []
    for r, rank in enumerate(ranks):
        own = int(caused[r].sum())
        share = own / max(total - rank.total_ns, 1)
        enough = MIN_SHARE if rank.has_gpu else MIN_SHARE_ON_HOST
        stands_out = share >= enough and own >= dominant * caused.sum() and _persistent(caused, r, dominant)
        stands_out = stands_out and _significant(caused, r)
        excess = _summed(entry.excess for entry in lateness if entry.late == r) if own else {}
        blames.append(Blame(rank.rank, own, share, excess, _cause(ranks, r, excess), stands_out))
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


def _cause(ranks: Sequence[RankDigest], rank: int, excess: Mapping[str, int]) -> LatenessCause:
    if not excess:
        return "unknown"
    classes = dict(zip(ranks[rank].causes, ranks[rank].classes, strict=True))
    class_ = main_class(excess, classes)
    if class_ in ("compute", "memory"):
        return _slower_or_more(ranks, rank)
    causes = [c for c in excess if class_of(c, classes) == class_]
    return _CAUSES.get(max(causes, key=lambda c: excess[c]), _CLASSES.get(class_, "unknown"))


def _slower_or_more(ranks: Sequence[RankDigest], rank: int) -> LatenessCause:
    """More kernels than the other ranks run is more work; as many that take longer are slower ones."""
    counts = [int(r.families.count.sum()) for r in ranks]
    others = float(np.median([c for i, c in enumerate(counts) if i != rank]))
    return "more_work" if counts[rank] > _MORE_KERNELS * others else "slower_kernels"


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
