"""The memory of a device over the window of a capture."""

import msgspec

from diagnose.diagnosis.terms import Nanoseconds


class MemoryOverTime(msgspec.Struct, frozen=True, kw_only=True):
    """What torch's profiler noted at each allocation, as neighbouring pieces of equal time.

    The arrays are parallel, one entry for each of at most 512 pieces. Memory given back and taken within one piece
    shows in its extremes.

    Attributes:
        rank: the rank that reached the highest peak.
        device: its device; null of the host, where only what was allocated since the profiler began counts.
        piece_ns: the length of a piece.
        least_bytes: the least that tensors held.
        most_bytes: the most that they held.
        reserved_bytes: the most that the caching allocator held; null if the trace does not state it throughout.
        peak_bytes: the largest of `most_bytes`.
        peak_ns: when the first piece begins that reached it, from the beginning of the first piece.
        steps: the counted steps.
        step_ns: when each of them begins, from the beginning of the first piece; below 0 of one that began before it.
    """

    rank: int
    device: int | None
    piece_ns: Nanoseconds
    least_bytes: tuple[int, ...]
    most_bytes: tuple[int, ...]
    reserved_bytes: tuple[int, ...] | None
    peak_bytes: int
    peak_ns: Nanoseconds
    steps: tuple[int, ...]
    step_ns: tuple[int, ...]
