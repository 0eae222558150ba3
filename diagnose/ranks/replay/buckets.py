"""Gradient buckets in the joint replay: which collectives they are, and larger and smaller ones."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Ints, Mask, Texts
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.joint import Joint
from diagnose.ranks.replay.rank_work import RankWork
from diagnose.ranks.replay.rounds import Case

BUCKET_BYTES = 1 << 20  # a smaller all-reduce carries a metric, a norm or DDP's first bucket
SOME_WAITED_FOR = 0.5  # tensor parallelism waits for each of its all-reduces, DDP for the last
MESSAGE_NS: dict[Case, float] = {"worst": 10_000.0, "best": 40_000.0}  # that one message less saves


def described(rank: RankDigest, work: RankWork) -> tuple[Texts, Ints]:
    """Kind and bytes of each event of a rank."""
    kinds = np.array([kind.split(" ")[0] for kind in rank.calls.kinds] or [""], np.str_)
    return kinds[rank.calls.kind[work.row]], rank.calls.bytes[work.row]


def buckets_of(ranks: Sequence[RankDigest], joint: Joint) -> Mask:
    """Mask over the collectives: all-reduces of 1 MiB or more in groups that mostly travel behind the work."""
    buckets = np.zeros(len(joint.transfer), bool)
    for rank, work, of in zip(ranks, joint.work, joint.collective, strict=True):
        kinds, sizes = described(rank, work)
        large, waited_for = (kinds == "allreduce") & (sizes >= BUCKET_BYTES), np.zeros(len(of), bool)
        waited_for[work.block_on] = True
        for chain in work.chains:
            large_here = chain[large[chain]]
            if len(large_here) > joint.steps and waited_for[large_here].mean() <= SOME_WAITED_FOR:
                buckets[of[large_here]] = True
    return buckets


def larger(joint: Joint, buckets: Mask, case: Case) -> Joint:
    """Every second bucket of a step carries the one before it too."""
    transfer, merged = joint.transfer.copy(), {}
    for p, (work, of) in enumerate(zip(joint.work, joint.collective, strict=True)):
        carrier = np.arange(len(of))
        first, second = _pairs(work, buckets[of])
        carrier[first] = second
        both = joint.transfer[of[first]] + joint.transfer[of[second]]
        transfer[of[second]] = both - np.minimum(MESSAGE_NS[case], joint.transfer[of[first]])
        transfer[of[first]] = 0.0
        on = carrier[work.block_on]
        merged[p] = replace(work, block_on=on, block_before=np.maximum(work.block_before, on + 1))
    return joint.with_work(merged).with_transfer(transfer)


def _pairs(work: RankWork, is_bucket: Mask) -> tuple[Ints, Ints]:
    """The first and the second events of neighbouring buckets of one step and group."""
    pairs = [pair for chain in work.chains for pair in _neighbours(chain[is_bucket[chain]], work.step)]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _neighbours(events: Ints, step: Ints) -> Iterator[tuple[int, int]]:
    for number in np.unique(step[events]):
        of_step = events[step[events] == number].tolist()
        yield from zip(of_step[::2], of_step[1::2], strict=False)


def smaller(joint: Joint, buckets: Mask, case: Case) -> Joint:
    """Every bucket travels in two halves, the first when half of the work since the one before is done."""
    added = MESSAGE_NS["best" if case == "worst" else "worst"]
    half, halved = np.where(buckets, (joint.transfer + added) / 2, joint.transfer), {}
    for p, (work, of) in enumerate(zip(joint.work, joint.collective, strict=True)):
        is_bucket = buckets[of] & (work.previous >= 0)
        middle = (work.ready + work.ready[:, work.previous]) / 2
        ready = np.where(is_bucket, np.maximum(work.ready, middle + half[of]), work.ready)
        halved[p] = replace(work, ready=ready, gap=np.where(is_bucket, work.gap + half[of], work.gap))
    return joint.with_work(halved).with_transfer(half)
