"""Memory, descriptors and threads of which a job holds more with each step, apart from what its warm-up takes.

A leak is a straight line under all that comes and goes. The first fifth of the steps is warm-up. Of each of eight equal
parts of the rest the least reading counts, which leaves out what Python's collector frees later; a level that moves
once, as at an evaluation, is one rise among flat parts; caches that fill rise less and less.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.decoding import encodable

PARTS = 8
WARM_STEPS, WARM_SHARE = 50, 0.2
LEAST_STEPS = 150  # behind the warm-up
RISING = 6  # of the seven rises from part to part
ONE_RISE = 0.5  # of the growth: a larger one is a step
STILL = 0.5  # of the rise of the first parts is that of the last
STRAIGHT = 0.75  # of the rise of the first half is that of the last, where no container of the job explains the growth
SURE = 3.0  # standard errors
MIB = 1 << 20
HOST, WORKERS, COPIES, SHARED = "host memory", "workers' memory", "workers' copies", "shared memory"
DEVICE, FRAGMENTS = "device memory", "reserved device memory"
DESCRIPTORS, THREADS, PROCESSES = "descriptors", "threads", "child processes"
_COLUMN = {
    HOST: "host", WORKERS: "workers_anonymous", COPIES: "workers", SHARED: "shared", DEVICE: "allocated",
    FRAGMENTS: "reserved", DESCRIPTORS: "descriptors", THREADS: "threads", PROCESSES: "processes",
}  # fmt: skip
COUNTED = (DESCRIPTORS, THREADS, PROCESSES)
_LEAST = {WORKERS: 4 * MIB, COPIES: 8 * MIB, FRAGMENTS: 64 * MIB, DESCRIPTORS: 16, THREADS: 8, PROCESSES: 8}
_LEAST_BYTES = 2 * MIB
_LEAST_WITH_GRAPH = MIB // 4  # where a container of tensors with their graph grows as steadily
_EXPLAINS = 0.3  # of the bytes of a step
_SMALL = frozenset(("float", "int", "bool", "str", "bytes", "NoneType"))
_LONGEST = 200


class Rise(msgspec.Struct, frozen=True):
    """A steady rise: by how much in each step, its standard error, and the levels at both ends.

    `late_share` is the rise in the last half over that in the first: far below 1 if the growth comes to an end.
    """

    per_step: float
    error: float
    first_step: int
    last_step: int
    before: float
    after: float
    late_share: float = 1.0


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container of the job's own code that gets `per_step` items more in each step.

    `where` is the file and the function that know it by `name`; `item` is the kind of its last item, of `item_bytes`
    as far as they are known, and `graph` whether that keeps an autograd graph alive.
    """

    where: str
    name: str
    kind: str
    per_step: float
    length: int
    item: str
    item_bytes: int
    graph: bool


class Held(msgspec.Struct):
    """The readings of one rank in its longest loop.

    Attributes:
        rank: the rank.
        readings: what was read by the number of steps behind the job, in their order.
        windows: the steps before which a window of the profiler opened: its memory is not the job's.
        growing: containers that grew with the steps, as last seen.
        limits: what the process may have at most.
    """

    rank: int = 0
    host: str = ""
    readings: list[tuple[int, Mapping[str, int]]] = msgspec.field(default_factory=list)
    windows: list[int] = msgspec.field(default_factory=list)
    growing: tuple[Container, ...] = ()
    limits: Mapping[str, int] = msgspec.field(default_factory=dict)

    def column(self, what: str) -> tuple[Ints, Floats]:
        """Steps and values of a quantity, without the levels that windows moved; of the same workers."""
        name = _COLUMN[what]
        told = [(step, read) for step, read in self.readings if name in read]
        if what in (WORKERS, COPIES) and told:
            told = _of_same_workers(told)
        steps = np.array([step for step, _ in told], np.int64)
        values = np.array([read[name] for _, read in told], np.float64)
        for first in self.windows if what not in (WORKERS, COPIES) else ():
            at = int(np.searchsorted(steps, first))
            if 0 < at < len(steps):
                values[at:] -= values[at] - values[at - 1]
        return steps, values

    def last(self, name: str) -> int | None:
        """The last reading of the name; None if there is none."""
        return next((read[name] for _, read in reversed(self.readings) if name in read), None)

    def risen(self, what: str) -> Rise | None:
        """The steady rise of the quantity; None if it has none that is worth a line."""
        rise = _copied(self) if what == COPIES else rise_of(*self.column(what), stepwise=what == FRAGMENTS)
        if rise is None or (rise.late_share < STRAIGHT and self.holder(what, rise.per_step) is None):
            return None
        graph = what in (HOST, DEVICE) and any(one.graph for one in self.growing)
        least = _LEAST_WITH_GRAPH if graph else _LEAST.get(what, _LEAST_BYTES)
        return rise if rise.after - rise.before >= least else None

    def holder(self, what: str, per_step: float) -> Container | None:
        """The container that holds what grows: of tensors with their graph, of items large enough, or as many."""
        if what in COUNTED:
            alike = (one for one in self.growing if abs(one.per_step - per_step) <= _EXPLAINS * per_step)
            return next((one for one in alike if one.item not in _SMALL), None)
        if what not in (HOST, DEVICE, SHARED):
            return None
        explains = [one for one in self.growing if one.item_bytes * one.per_step >= _EXPLAINS * per_step]
        graphs = [one for one in self.growing if one.graph and what != SHARED]
        objects = [one for one in self.growing if not one.item_bytes and one.item not in _SMALL and one.per_step >= 0.1]
        return next(iter([*graphs, *explains, *objects]), None)


def _of_same_workers(told: Sequence[tuple[int, Mapping[str, int]]]) -> list[tuple[int, Mapping[str, int]]]:
    """The readings of those workers that were read most often: others came before, or some had ended."""
    groups: dict[tuple[int | None, ...], list[tuple[int, Mapping[str, int]]]] = {}
    for step, read in told:
        groups.setdefault((read.get("first_worker"), read.get("workers_read")), []).append((step, read))
    return max(groups.values(), key=len)


def rise_of(steps: Ints, values: Floats, stepwise: bool = False) -> Rise | None:
    """The steady rise of the values; None without one, or if they are too few.

    If it comes `stepwise`, as whole segments of an allocator do, some parts may be flat.
    """
    kept = warm(steps)
    steps, values = steps[kept], values[kept]
    if len(steps) < PARTS or steps[-1] - steps[0] < LEAST_STEPS:
        return None
    parts = np.array_split(np.arange(len(steps)), PARTS)
    low = np.array([values[part].min() for part in parts])
    at = np.array([steps[part].mean() for part in parts])
    with np.errstate(invalid="ignore", divide="ignore"):  # of a step that stands still for parts there is no rate
        rates = np.diff(low) / np.diff(at)
    grown, slope = low[-1] - low[0], (low[-1] - low[0]) / (at[-1] - at[0])
    error = float(np.std(rates, ddof=1) / len(rates) ** 0.5)
    first, last = rates[:3].mean(), rates[-3:].mean()
    steady = np.diff(low).max() <= ONE_RISE * grown and (rates > 0).sum() >= (4 if stepwise else RISING)
    steady = steady and last >= STILL * min(first, slope) and slope >= SURE * error * (0.5 if stepwise else 1)
    if grown <= 0 or not steady:
        return None
    half = PARTS // 2
    late = 1.0 if stepwise else float((low[-1] - low[half]) / max(low[half - 1] - low[0], 1.0))
    return Rise(float(slope), error, int(steps[0]), int(steps[-1]), float(low[0]), float(low[-1]), late)


def warm(steps: Ints) -> Ints:
    """The readings behind the warm-up, as positions."""
    if not len(steps):
        return np.zeros(0, np.int64)
    behind = max(WARM_STEPS, WARM_SHARE * float(steps[-1] - steps[0]))
    return np.flatnonzero(steps - steps[0] >= behind)


def _copied(held: Held) -> Rise | None:
    """Pages that workers wrote to since they were forked: theirs grow, and those that they had anyway do not.

    Reading a Python object writes its count of references. Pages that are touched at random are copied fast at first,
    so that this growth need not be straight; one collection copies many at once, which is no growth.
    """
    steps, own = held.column(COPIES)
    _, had = held.column(WORKERS)
    if len(steps) < PARTS or steps[-1] - steps[0] < LEAST_STEPS:
        return None
    copied = np.maximum.accumulate(own - own[0] - np.maximum(had - had[0], 0.0))
    whole, rises = float(copied[-1]), np.diff(copied)
    few = whole <= 0 or rises.max() > ONE_RISE * whole or (rises > 0.01 * whole).sum() < PARTS // 2
    if few:
        return None
    span = float(steps[-1] - steps[0])
    error = float(np.std(rises / np.maximum(np.diff(steps), 1), ddof=1) / len(rises) ** 0.5)
    return Rise(whole / span, error, int(steps[0]), int(steps[-1]), float(own[0]), float(own[0]) + whole)


def container_of(line: object) -> Container | None:
    """A container as a line of the log has it; None if that is none."""
    if not isinstance(line, Mapping):
        return None
    text = {name: encodable(str(line.get(name, "")))[:_LONGEST] for name in ("in", "name", "kind", "item")}
    rate, length, size = (line.get(name) for name in ("per_step", "length", "item_bytes"))
    if not isinstance(rate, int | float) or not 0 < rate < 1e9 or type(length) is not int or type(size) is not int:
        return None
    where = text.pop("in")
    graph = line.get("graph") is True
    return Container(where=where, per_step=float(rate), length=length, item_bytes=size, graph=graph, **text)


def judged_quantities(held: Sequence[Held]) -> tuple[str, ...]:
    """The quantities with readings enough to be judged on some rank, in the order of reports."""

    def enough(one: Held, what: str) -> bool:
        steps = one.column(what)[0]
        kept = steps[warm(steps)]
        return len(kept) >= PARTS and kept[-1] - kept[0] >= LEAST_STEPS

    return tuple(what for what in _COLUMN if any(enough(one, what) for one in held))
