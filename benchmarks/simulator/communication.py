"""Collectives and point-to-point messages as torch and Kineto record them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .events import NEXT, PREVIOUS, WORKER, Column, Mask
from .groups import Groups
from .machine import Machine

_BYTES = {"BFloat16": 2, "Float": 4}
_OF_RANK = '"Rank": @RANK@, "Global rank start": 0, "Global rank stride": 1, "Input type": ["c10::BFloat16"]'
_GRID = (
    '"queued": 0, "registers per thread": 96, "shared memory": 82240, "blocks per SM": 0.181818, '
    '"warps per SM": 3.090909, "grid": [24, 1, 1], "block": [544, 1, 1], "est. achieved occupancy %%": 0'
)
_TITLES = {  # Collective name: (annotation, kernel)
    "allreduce": ("all_reduce", "AllReduce_Sum_bf16_RING_LL"),
    "_allgather_base": ("_all_gather_base", "AllGather_RING_LL"),
    "_reduce_scatter_base": ("_reduce_scatter_base", "ReduceScatter_Sum_bf16_RING_LL"),
    "send": ("send", "SendRecv"),
    "recv": ("recv", "SendRecv"),
    "coalesced": ("coalesced", "SendRecv"),
}


@dataclass(frozen=True)
class Call:
    """A collective as the host launched it: `fields` is JSON with slots, `link` ties the kernel to its launch."""

    kind: str
    stream: int
    fields: str
    slots: tuple[Column, ...]
    link: str
    start: Column


def collective(
    machine: Machine, purpose: str, groups: Groups, kind: str, elements: int, stream: int, dtype: str = "BFloat16"
) -> None:
    """A collective in each of the groups.

    Args:
        machine: the ranks.
        purpose: of the groups, as in `groups_of`.
        groups: the groups that meet.
        kind: its Collective name.
        elements: elements of the unsharded buffer.
        stream: on which it runs.
        dtype: of the elements.
    """
    groups.seq[machine.active] += 1
    if not machine.job.gpu:
        return _gloo(machine, groups, kind, elements, stream)
    shard = -(-elements // groups.size)
    sizes = {"_allgather_base": (shard, elements), "_reduce_scatter_base": (elements, shard)}
    fields, slots = _fields(machine, purpose, groups, kind, sizes.get(kind, (elements, elements)), dtype)
    call = _called(machine, kind, stream, fields, slots)
    _ran(machine, call, machine.together(groups, call.start, kind, elements * _BYTES[dtype]))


@dataclass(frozen=True)
class Ends:
    """Two neighbouring stages of a pipeline: the ranks of both, and the pairs that they make."""

    pipe: Groups
    pairs: Groups
    low: Mask
    high: Mask

    def of(self, forward: bool) -> tuple[Mask, Mask]:
        """The senders and the receivers."""
        return (self.low, self.high) if forward else (self.high, self.low)

    def ranks(self, ranks: Mask) -> Column:
        """The rank of the mask in each rank's pair."""
        return np.array([m[ranks[m]][0] if ranks[m].any() else 0 for m in self.pairs.members])[self.pairs.of]


def message(machine: Machine, ends: Ends, forward: bool, elements: int) -> None:
    """A message from each sender to the receiver of its pair: a kernel on both, which ends on both together."""
    sender, receiver = ends.of(forward)
    streams = (NEXT, PREVIOUS) if forward else (PREVIOUS, NEXT)
    calls, start = [], np.zeros(machine.job.ranks, np.int64)
    for ranks, kind, stream in zip((sender, receiver), ("send", "recv"), streams, strict=True):
        with machine.only(ranks):
            fields, slots = _of_message(machine, ends, forward, kind, elements)
            calls.append(_called(machine, kind, stream, fields, slots))
            start = np.where(ranks, calls[-1].start, start)
    with machine.only(sender | receiver):
        end = machine.together(ends.pairs, start, "send", elements * _BYTES["BFloat16"])
    for ranks, call in zip((sender, receiver), calls, strict=True):
        with machine.only(ranks):
            _ran(machine, call, end)
    with machine.only(receiver):
        machine.wait(streams[1])


def batch(machine: Machine, ends: Ends, directions: Sequence[bool], elements: int) -> None:
    """Messages between neighbours as one kernel on each side, forward where a direction is True; both sides wait."""
    both = ends.low | ends.high
    for is_low, ranks in ((True, ends.low), (False, ends.high)):
        with machine.only(ranks):
            for forward in directions:
                kind = "send" if forward == is_low else "recv"
                fields, slots = _of_message(machine, ends, forward, kind, elements)
                with machine.range("record_param_comms", "cpu_op", f"{fields}, {_OF_RANK}", slots):
                    machine.host(12)
    with machine.only(both):
        with machine.range("nccl:coalesced"):
            machine.host(8)
            start, link = machine.started(NEXT), machine.link
        end = machine.together(ends.pairs, start, "send", len(directions) * elements * _BYTES["BFloat16"])
        _ran(machine, Call("coalesced", NEXT, "", (), link, start), end)
        machine.wait(NEXT)


def _of_message(
    machine: Machine, ends: Ends, forward: bool, kind: str, elements: int
) -> tuple[str, tuple[Column, ...]]:
    ends.pipe.seq[machine.active] += 1
    fields, slots = _fields(machine, "pipe", ends.pipe, kind, (elements, elements))
    between = (ends.ranks(ranks) for ranks in ends.of(forward))
    return fields + ', "Src Rank": %d, "Dst Rank": %d', (*slots, *between)


def _fields(
    machine: Machine, purpose: str, groups: Groups, kind: str, sizes: tuple[int, int], dtype: str = "BFloat16"
) -> tuple[str, tuple[Column, ...]]:
    text = (
        f'"Collective name": "{kind}", "In msg nelems": {sizes[0]}, "Out msg nelems": {sizes[1]}, '
        f'"Group size": {groups.size}, "dtype": "{dtype}", "In split size": "[]", "Out split size": "[]", '
        f'"Process Group Name": "%d", "Process Group Description": "{groups.description}", '
        f'"Process Group Ranks": "@{purpose.upper()}@"'
    )
    if not machine.job.seq:
        return text, (groups.name,)
    return text + ', "Seq": %d', (groups.name, groups.seq.copy())


def _called(machine: Machine, kind: str, stream: int, fields: str, slots: tuple[Column, ...]) -> Call:
    """The host's part: record_param_comms, the annotation of NCCL, and the launch."""
    with machine.range("record_param_comms", "cpu_op", f"{fields}, {_OF_RANK}", slots):
        machine.host(25)
        with machine.range(f"nccl:{_TITLES[kind][0]}"):
            machine.host(8)
            start = machine.started(stream)
            return Call(kind, stream, fields, slots, machine.link, start)


def _ran(machine: Machine, call: Call, end: Column) -> None:
    title, kernel = _TITLES[call.kind]
    machine.occupy(call.stream, end)
    if '"dtype": "Float"' in call.fields:
        kernel = kernel.replace("bf16", "f32")
    name = f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage<4096ul>)"
    args = ", ".join(text for text in (call.link, _GRID, call.fields) if text)
    machine.record("kernel", name, call.stream, call.start, end, args, call.slots)
    number = call.link.split(",")[0]
    machine.record("gpu_user_annotation", f"nccl:{title}", call.stream, call.start - 1, end + 1, number)


def _gloo(machine: Machine, groups: Groups, kind: str, elements: int, stream: int) -> None:
    """Gloo's worker threads hold the range from a rank's arrival to the end of the collective."""
    shape = f'"Input Dims": [[{elements}]], "Input type": ["c10::BFloat16"]'
    with machine.range(f"c10d::{kind}_", "cpu_op", shape.replace("[[", "[[[").replace("]]", "]]]")):
        machine.host(40)
    start = machine.started(stream)
    end = machine.together(groups, start, kind, elements * _BYTES["BFloat16"])
    machine.occupy(stream, end)
    machine.record("user_annotation", f"gloo:{_TITLES[kind][0]}", WORKER, start, end, shape)
