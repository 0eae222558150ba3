"""Gradient buckets in the joint replay: which collectives they are, and larger and smaller ones."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from diagnose.arrays import Ints, Mask, Texts
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.joint import Case, Joint
from diagnose.ranks.replay.rank_work import Part

BUCKET_BYTES = 1 << 20  # a smaller all-reduce carries a metric, a norm or DDP's first bucket
SOME_WAITED_FOR = 0.5  # tensor parallelism waits for each of its all-reduces, DDP for the last
LATENCY_NS: dict[Case, float] = {"worst": 10_000.0, "best": 40_000.0}  # that one message less saves


def described(rank: RankDigest, part: Part) -> tuple[Texts, Ints]:
    """Kind and bytes of each event of a rank."""
    kinds = np.array([kind.split(" ")[0] for kind in rank.calls.kinds] or [""], np.str_)
    return kinds[rank.calls.kind[part.row]], rank.calls.bytes[part.row]


def buckets_of(ranks: Sequence[RankDigest], joint: Joint) -> Mask:
    """Mask over the collectives: all-reduces of 1 MiB or more in groups that mostly travel behind the work."""
    found = np.zeros(len(joint.transfer), bool)
    for rank, part, of in zip(ranks, joint.parts, joint.collective, strict=True):
        kinds, sizes = described(rank, part)
        large, waited_for = (kinds == "allreduce") & (sizes >= BUCKET_BYTES), np.zeros(len(of), bool)
        waited_for[part.block_on] = True
        for chain in part.chains:
            own = chain[large[chain]]
            if len(own) > joint.steps and waited_for[own].mean() <= SOME_WAITED_FOR:
                found[of[own]] = True
    return found


def larger(joint: Joint, buckets: Mask, case: Case) -> Joint:
    """Every second bucket of a step carries the one before it too."""
    transfer, parts = joint.transfer.copy(), {}
    for p, (part, of) in enumerate(zip(joint.parts, joint.collective, strict=True)):
        carrier = np.arange(len(of))
        first, second = _pairs(part, buckets[of])
        carrier[first] = second
        both = joint.transfer[of[first]] + joint.transfer[of[second]]
        transfer[of[second]] = both - np.minimum(LATENCY_NS[case], joint.transfer[of[first]])
        transfer[of[first]] = 0.0
        on = carrier[part.block_on]
        parts[p] = replace(part, block_on=on, block_before=np.maximum(part.block_before, on + 1))
    return joint.with_parts(parts).with_transfer(transfer)


def _pairs(part: Part, is_bucket: Mask) -> tuple[Ints, Ints]:
    """The first and the second events of neighbouring buckets of one step and group."""
    pairs = [pair for chain in part.chains for pair in _neighbours(chain[is_bucket[chain]], part.step)]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _neighbours(events: Ints, step: Ints) -> Iterator[tuple[int, int]]:
    for number in np.unique(step[events]):
        own = events[step[events] == number].tolist()
        yield from zip(own[::2], own[1::2], strict=False)


def smaller(joint: Joint, buckets: Mask, case: Case) -> Joint:
    """Every bucket travels in two halves, the first when half of the work since the one before is done."""
    added = LATENCY_NS["best" if case == "worst" else "worst"]
    half, parts = np.where(buckets, (joint.transfer + added) / 2, joint.transfer), {}
    for p, (part, of) in enumerate(zip(joint.parts, joint.collective, strict=True)):
        own = buckets[of] & (part.previous >= 0)
        middle = (part.ready + part.ready[:, part.previous]) / 2
        ready = np.where(own, np.maximum(part.ready, middle + half[of]), part.ready)
        parts[p] = replace(part, ready=ready, gap=np.where(own, part.gap + half[of], part.gap))
    return joint.with_parts(parts).with_transfer(half)
