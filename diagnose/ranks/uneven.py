"""How unequal the work of a job's ranks is from step to step, by the sizes of their operators' tensors."""

from collections.abc import Sequence

import numpy as np

from diagnose.arrays import Ints
from diagnose.ranks.digest import RankDigest


def uneven_work_share(ranks: Sequence[RankDigest]) -> float | None:
    """Share of a step that the mean rank waits for the one with most work, where time grows with FLOPs.

    If a rank's FLOPs are not known, the elements of the tensors count. None if they are not recorded, or the ranks
    count no step together.
    """
    shared = sorted(set.intersection(*(set(rank.numbers) for rank in ranks)))
    for column in ("flops", "elements"):
        work = np.stack([_by_step(rank, column, shared) for rank in ranks])
        if work.size and work.min() > 0:
            return float((1 - work.mean(axis=0) / work.max(axis=0)).mean())
    return None


def _by_step(rank: RankDigest, column: str, numbers: Sequence[int]) -> Ints:
    values: Ints = getattr(rank.families, column)
    return values[np.isin(rank.numbers, numbers)].sum(axis=1)
