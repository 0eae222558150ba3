"""Digests of ranks without traces: collectives whose true times are known, on clocks that differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Ints
from diagnose.ranks import RankDigest
from diagnose.ranks.collectives.calls import RankCalls
from diagnose.ranks.collectives.process_groups import ProcessGroup
from diagnose.ranks.digest import DigestSource, Families

US, MS = 1_000, 1_000_000
BASE_NS = 1_758_000_000_000_000_000


@dataclass(frozen=True)
class Shared:
    """One process group's collectives: when each member arrives, and when each leaves, in true nanoseconds.

    `start` and `end` have shape (instances, members); `step` is the step of each instance.
    """

    name: str
    ranks: tuple[int, ...]
    start: Ints
    end: Ints
    step: Ints
    kind: str = "allreduce"


def together(
    name: str, ranks: Sequence[int], arrive: Ints, transfer_ns: int, step: Ints, kind: str = "allreduce"
) -> Shared:
    """Collectives that all members leave `transfer_ns` after the last one arrived."""
    end = np.broadcast_to(arrive.max(axis=1, keepdims=True) + transfer_ns, arrive.shape)
    return Shared(name, tuple(ranks), arrive, end, step, kind)


def digests(
    groups: Sequence[Shared], *, clock: Callable[[int, Ints], Ints] = lambda rank, times: times, steps: int = 3
) -> list[RankDigest]:
    """The ranks of the groups; `clock` tells the time that a rank's clock shows at true times."""
    return [_digest(rank, groups, clock, steps) for rank in sorted({r for g in groups for r in g.ranks})]


def _digest(rank: int, groups: Sequence[Shared], clock: Callable[[int, Ints], Ints], steps: int) -> RankDigest:
    own = [g for g in groups if rank in g.ranks]
    at = [g.ranks.index(rank) for g in own]
    start = clock(rank, np.concatenate([g.start[:, i] for g, i in zip(own, at, strict=True)]))
    end = clock(rank, np.concatenate([g.end[:, i] for g, i in zip(own, at, strict=True)]))
    group = np.repeat(np.arange(len(own)), [len(g.start) for g in own])
    kinds = tuple(dict.fromkeys(g.kind for g in own))
    seq = np.concatenate([np.arange(len(g.start)) for g in own])
    step = np.concatenate([g.step for g in own])
    order = np.argsort(start, kind="stable")
    n, absent = len(order), np.full(len(order), -1, np.int64)
    calls = RankCalls(
        row=np.arange(n),
        group=group[order],
        kind=np.array([kinds.index(g.kind) for g in own])[group][order],
        step=step[order],
        seq=seq[order],
        bytes=absent,
        size=np.array([len(g.ranks) for g in own])[group][order],
        start=start[order],
        end=end[order],
        groups=tuple(ProcessGroup(g.name, g.ranks) for g in own),
        kinds=kinds,
    )
    first, last = int(start.min()), int(end.max()) + 1
    bounds = np.linspace(first, last, steps + 1).astype(np.int64)
    return RankDigest(
        rank=rank,
        source=DigestSource(f"rank{rank}.json", n, 0),
        host="",
        device="GPU",
        world_size=None,
        base_ns=BASE_NS,
        has_gpu=True,
        capture_failed=False,
        step_source="ProfilerStep",
        numbers=tuple(range(steps)),
        windows=np.stack((bounds[:-1], bounds[1:]), axis=1),
        host_ns=last - first,
        device_ns=last - first,
        causes=("gemm", "exposed-communication"),
        cause_ns=np.zeros((steps, 2), np.int64),
        exposed=np.array([[first, last]]),
        calls=calls,
        spent=np.stack((np.stack((start, end), axis=1)[order] - first, np.zeros((n, 2), np.int64)), axis=2),
        families=Families(("gemm",), *np.ones((4, steps, 1), np.int64)),
    )
