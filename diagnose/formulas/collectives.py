"""Collective communication: bytes on the wire, bandwidth, and the split of waiting and transfer."""

import numpy as np

from diagnose.arrays import Array

_SHARDED = ("reducescatter", "allgather", "alltoall")


def bus_factor(kind: str, ranks: int) -> float:
    """Bytes that cross the slowest link for each byte of the message (nccl-tests doc/PERFORMANCE.md).

    2(n-1)/n for allreduce, (n-1)/n if each rank holds or wants a shard, else 1.

    Args:
        kind: allreduce, reducescatter, allgather, alltoall, broadcast, reduce, sendrecv.
        ranks: ranks of the group.
    """
    if kind == "allreduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in _SHARDED else 1.0


def wire_bytes(kind: str, message_bytes: float, ranks: int) -> float:
    """Bytes that a rank sends; the message of a sharded collective is the full buffer."""
    return bus_factor(kind, ranks) * message_bytes


def latency_and_wire_s(latency_s: float, wire_bytes: float, bytes_per_s: float) -> float:
    """Seconds of a message: latency + bytes / bandwidth of one direction (Hockney's α-β model)."""
    return latency_s + wire_bytes / bytes_per_s


def transfer_s(kind: str, message_bytes: float, ranks: int, bytes_per_s: float, latency_s: float = 0.0) -> float:
    """Seconds of a collective without any waiting."""
    return latency_and_wire_s(latency_s, wire_bytes(kind, message_bytes, ranks), bytes_per_s)


def algorithm_bytes_per_s(message_bytes: float, seconds: float) -> float:
    """`algbw` of nccl-tests: message over time."""
    return message_bytes / seconds


def bus_bytes_per_s(kind: str, message_bytes: float, seconds: float, ranks: int) -> float:
    """`busbw` of nccl-tests: comparable with the link's bandwidth whatever the number of ranks."""
    return algorithm_bytes_per_s(message_bytes, seconds) * bus_factor(kind, ranks)


def nic_rate(bus_rate: float, nodes: int, ranks: int) -> float:
    """A rank's rate on the network at a bus bandwidth measured over several nodes: busbw·(k-1)/(n-1)."""
    return bus_rate * (nodes - 1) / (ranks - 1)


def transfer_by_duration(durations: Array) -> Array:
    """Transfer time per instance, by durations of shape (..., ranks): the last rank does not wait.

    Needs no common clock.

    The estimate of TraceLens; it equals `transfer_by_start` if the ranks end together.
    """
    return durations.min(axis=-1)


def waiting_by_duration(durations: Array) -> Array:
    """Time that each rank of an instance waits for the last one, shape (..., ranks)."""
    return durations - transfer_by_duration(durations)[..., None]


def transfer_by_start(starts: Array, ends: Array) -> Array:
    """Time of each rank after the last one arrived, on a common clock, shape (..., ranks) (Lin et al., OSDI 2025)."""
    return ends - starts.max(axis=-1, keepdims=True)


def waiting_by_start(starts: Array) -> Array:
    """Time of each rank until the last one arrived, on a common clock, shape (..., ranks)."""
    return np.asarray(starts.max(axis=-1, keepdims=True) - starts)
