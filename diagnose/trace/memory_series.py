"""The memory of each device over a trace, from the totals that torch's profiler notes at each allocation.

A few buckets of equal time stand for any number of allocations. They come out the same however the file is divided
into chunks and shares: a bucket is a power of two wide and begins at a multiple of that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import ABSENT, Ints
from diagnose.formulas.kineto import NO_TIME

HOST = -1
"""The host in the place of a device's number."""
MOST_BUCKETS = 512
MOST_MEMORY_BYTES = 1 << 50  # of one copy, or of a device's memory
_HOST_TYPE, _DEVICE_TYPE = 0, 1  # torch's c10::DeviceType of a CPU, and of CUDA, which ROCm's go by as well
_MOST_DEVICES = 64  # that one process can use
_WIDEST = 62


@dataclass(frozen=True, eq=False)
class MemorySeries:
    """Memory that the allocator of one device held, in buckets in order of time; none of a time without an allocation.

    A bucket is 2**`shift` ns wide. The arrays are parallel: `at` is the time of the last allocation of each, `last` the
    bytes allocated after it, `least` and `most` the extremes of these bytes, and `reserved` the most that was held of
    the device, ABSENT if that is not stated.
    """

    shift: int
    at: Ints
    last: Ints
    least: Ints
    most: Ints
    reserved: Ints

    @property
    def columns(self) -> tuple[Ints, ...]:
        """The arrays, in the order of the fields."""
        return self.at, self.last, self.least, self.most, self.reserved

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemorySeries):
            return NotImplemented
        return self.shift == other.shift and all(map(np.array_equal, self.columns, other.columns))

    __hash__ = None  # type: ignore[assignment]

    def then(self, later: "MemorySeries") -> "MemorySeries":
        """This one and what stands behind it in the file."""
        joined = [np.concatenate(pair) for pair in zip(self.columns, later.columns, strict=True)]
        return _bucketed(max(self.shift, later.shift), *joined)


def memory_series(
    ts: Ints, allocated: Ints, reserved: Ints, device: Ints, device_type: Ints
) -> dict[int, MemorySeries]:
    """The series of each device, HOST among them, of allocations in the order of the file."""
    device = np.where(device_type == _HOST_TYPE, HOST, device)
    of_device = (device_type == _DEVICE_TYPE) & (device >= 0) & (device < _MOST_DEVICES)
    told = (ts != NO_TIME) & (allocated >= 0) & (allocated <= MOST_MEMORY_BYTES)
    told &= of_device | (device_type == _HOST_TYPE)
    reserved = np.where((reserved >= 0) & (reserved <= MOST_MEMORY_BYTES), reserved, ABSENT)
    found = {}
    for number in np.unique(device[told]).tolist():
        rows = np.flatnonzero(told & (device == number))
        held = allocated[rows]
        found[number] = _bucketed(0, ts[rows], held, held, held, reserved[rows])
    return found


def most_reserved(memory: Mapping[int, MemorySeries]) -> int:
    """The most memory of a device that the caching allocator held; 0 if no allocation states it."""
    return max((int(series.reserved.max()) for device, series in memory.items() if device != HOST), default=0)


def joined_series(parts: Iterable[Mapping[int, MemorySeries]]) -> dict[int, MemorySeries]:
    """The series of the whole, of parts in the order of the file."""
    whole: dict[int, MemorySeries] = {}
    for part in parts:
        for device, series in part.items():
            whole[device] = whole[device].then(series) if device in whole else series
    return dict(sorted(whole.items()))


def _bucketed(shift: int, at: Ints, last: Ints, least: Ints, most: Ints, reserved: Ints) -> MemorySeries:
    """Neighbours in time as one, so many that few enough are left."""
    order = np.argsort(at, kind="stable")
    at, last = at[order], last[order]
    while shift < _WIDEST and int(at[-1] >> shift) - int(at[0] >> shift) >= MOST_BUCKETS:
        shift += 1
    bucket = at >> shift
    first = np.flatnonzero(np.concatenate(([True], bucket[1:] != bucket[:-1])))
    ends = np.append(first[1:], len(at)) - 1
    return MemorySeries(
        shift,
        at[ends],
        last[ends],
        np.minimum.reduceat(least[order], first),
        np.maximum.reduceat(most[order], first),
        np.maximum.reduceat(reserved[order], first),
    )
