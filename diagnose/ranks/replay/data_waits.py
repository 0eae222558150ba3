"""The joint replay without what the ranks wait for data themselves: what they wait for each other follows."""

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Floats
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.joint import Joint
from diagnose.ranks.replay.rank_work import RankWork

DATA_WAIT = "data-wait"
TELLING = 0.05  # of the step: above it a rank waits for data


def data_wait_ns(rank: RankDigest) -> int:
    """Nanoseconds that the rank waits for data in the counted steps."""
    return rank.ns().get(DATA_WAIT, 0)


def waits_for_data(rank: RankDigest) -> bool:
    """Whether the rank itself waits for data, not only for ranks that do."""
    return data_wait_ns(rank) >= TELLING * max(rank.total_ns, 1)


def loads_late(ranks: Sequence[RankDigest], late: Collection[int]) -> bool:
    """Whether faster loading on all ranks is what ends their waits for data and for each other's data.

    It is if most ranks wait for data, or if half of them do and none is named as late: what a few wait for is why these
    are late.
    """
    waiting = sum(waits_for_data(rank) for rank in ranks)
    return 2 * waiting > len(ranks) or (2 * waiting == len(ranks) and not late)


def without_data_waits(joint: Joint, ranks: Sequence[RankDigest]) -> Joint:
    """No rank waits for data."""
    return joint.with_work({p: _without(work, ranks[p]) for p, work in enumerate(joint.work)})


def _without(work: RankWork, rank: RankDigest) -> RankWork:
    if DATA_WAIT not in rank.causes or not len(work.row):
        return work
    until, whole = _waited(work, rank)
    order = np.argsort(work.at, kind="stable")
    own = np.concatenate(([0.0], work.at[order], [work.own_ns]))
    waited = np.maximum.accumulate(np.concatenate(([0.0], until[order], [whole])))

    def left(at: Floats) -> Floats:
        return np.asarray(at - np.interp(at, own, waited))

    return replace(
        work,
        at=left(work.at),
        ready=left(work.ready),
        block_at=left(work.block_at),
        own_ns=max(work.own_ns - whole, 0.0),
    )


def _waited(work: RankWork, rank: RankDigest) -> tuple[Floats, float]:
    """The rank's wait for data until it reached each collective, and in all replayed steps."""
    at, numbers = rank.causes.index(DATA_WAIT), np.array(rank.numbers, np.int64)
    replayed = np.isin(numbers, np.arange(work.step.min(), work.step.max() + 1))
    left_out = np.concatenate(([0], np.cumsum(np.where(replayed, 0, rank.cause_ns[:, at]))))
    before = left_out[np.searchsorted(numbers, work.step, side="left")]
    until = rank.spent[work.row, 0, at] - before
    return until.astype(np.float64), float(rank.cause_ns[replayed, at].sum())
