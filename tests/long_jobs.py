"""Jobs that are long in one dimension, and counters of the work that analysing one takes."""

import cProfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from kineto import Trace as Job

OPTIMIZER = "multi_tensor_apply_kernel"


def step(job: Job, *names: str, **launch: Any) -> None:
    """A step of one operator for each name, and the optimizer."""
    with job.step():
        for name in names:
            job.op("aten::mm", [[64, 64], [64, 64]], kernel=name, gpu_us=4, **launch)
        with job.optimizer():
            job.op("aten::_foreach_add_", kernel=OPTIMIZER, gpu_us=2)


def steps(size: int) -> list[Job]:
    """So many steps; each has a name of its own."""
    job = Job()
    for _ in range(size):
        step(job, "gemm")
    return [job]


def _five_steps(size: int, act: Callable[[Job, int], None]) -> list[Job]:
    job = Job()
    for number in range(5):
        with job.step():
            for at in range(number * size // 5, (number + 1) * size // 5):
                act(job, at)
            with job.optimizer():
                job.op("aten::_foreach_add_", kernel=OPTIMIZER, gpu_us=2)
    return [job]


def streams(size: int) -> list[Job]:
    """Each kernel on a stream of its own, with a wait for the device now and then."""

    def act(job: Job, at: int) -> None:
        job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=4, stream=7 + at)
        if at % 8 == 0:
            job.sync(stream=7 + at)

    return _five_steps(size, act)


def threads(size: int) -> list[Job]:
    """Each operator on a thread of its own."""

    def act(job: Job, at: int) -> None:
        with job.thread(10_000 + at):
            job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=4)

    return _five_steps(size, act)


def names(size: int) -> list[Job]:
    """Each operator, kernel and range by a name of its own."""

    def act(job: Job, at: int) -> None:
        with job.annotation(f"range {at}"):
            job.op(f"mine::op{at}", [[64, at + 1], [at + 1, 64]], kernel=f"kernel_{at}<float>", gpu_us=4)

    return _five_steps(size, act)


def nests(size: int) -> list[Job]:
    """Operators inside one another, and as many behind them on the same thread."""
    job = Job()
    for _ in range(5):
        with job.step():
            _nest(job, size // 10)
            for _ in range(size // 10):
                job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=4)
            with job.optimizer():
                job.op("aten::_foreach_add_", kernel=OPTIMIZER, gpu_us=2)
    return [job]


def _nest(job: Job, depth: int) -> None:
    """Begins and ends are written by hand: as many context managers would be too deep for Python."""
    begin = job.now
    for level in range(depth):
        job.now = begin + level
        job.event("cpu_op", "aten::linear", (2 * depth - 2 * level) / 1000)
    job.now = begin + 3 * depth


def optimizers(size: int) -> list[Job]:
    """Without marks of steps, so many optimizers."""
    job = Job()
    for number in range(size):
        with job.optimizer(f"Adam{number}"):
            job.op("aten::_foreach_add_", kernel=OPTIMIZER, gpu_us=2)
    return [job]


def groups(size: int) -> list[Job]:
    """Two ranks that share so many process groups."""
    return _two_ranks(size, lambda at: {"group": str(at), "bytes": 4096})


def sizes(size: int) -> list[Job]:
    """Two ranks whose collectives are all of another size."""
    return _two_ranks(size, lambda at: {"bytes": 4096 + 2 * at})


def _two_ranks(size: int, of: Callable[[int], dict[str, Any]]) -> list[Job]:
    def act(job: Job, at: int) -> None:
        job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=4)
        job.collective("allreduce", gpu_us=5, **of(at))

    jobs = [Job(rank=rank, world=2) for rank in range(2)]
    for job in jobs:
        for number in range(5):
            with job.step():
                for at in range(number * size // 5, (number + 1) * size // 5):
                    act(job, at)
                with job.optimizer():
                    job.op("aten::_foreach_add_", kernel=OPTIMIZER, gpu_us=2)
    return jobs


def ranks(size: int) -> list[Job]:
    """A hundredth as many ranks."""
    jobs = [Job(rank=rank, world=size // 100) for rank in range(size // 100)]
    for job in jobs:
        for _ in range(3):
            with job.step():
                job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=4)
                job.collective("allreduce", bytes=4096, gpu_us=5)
                with job.optimizer():
                    job.op("aten::_foreach_add_", kernel=OPTIMIZER, gpu_us=2)
    return jobs


class Counted(np.ndarray[Any, Any]):
    """An array that adds up the elements that operations on it, and on what comes of it, read."""

    elements = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **more: Any) -> Any:
        if out is not None:
            more["out"] = tuple(_plain(each) for each in out)
        self._count(inputs)
        return _counted(getattr(ufunc, method)(*map(_plain, inputs), **_plain(more)))

    def __array_function__(self, function: Any, types: Any, args: Any, more: Any) -> Any:
        self._count((args, more))
        return _counted(function(*_plain(args), **_plain(more)))

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(_plain(key))
        if isinstance(key, np.ndarray | list):
            self._count((key,))
        return found

    @staticmethod
    def _count(found: Any) -> None:
        if isinstance(found, np.ndarray):
            Counted.elements += found.size
        elif isinstance(found, dict):
            Counted._count(tuple(found.values()))
        elif isinstance(found, tuple | list):
            for each in found:
                Counted._count(each)


def _plain(found: Any) -> Any:
    if isinstance(found, Counted):
        return found.view(np.ndarray)
    if isinstance(found, tuple | list):
        return type(found)(map(_plain, found))
    return {name: _plain(each) for name, each in found.items()} if isinstance(found, dict) else found


def _counted(found: Any) -> Any:
    if type(found) is np.ndarray:
        return found.view(Counted)
    return tuple(map(_counted, found)) if type(found) is tuple else found


@contextmanager
def calls_counted() -> Iterator[list[int]]:
    """Counts the calls of Python and C functions; the list is filled at the end."""
    count: list[int] = []
    profile = cProfile.Profile()  # in C: a function of Python that counts takes as long as what it counts
    profile.enable()
    try:
        yield count
    finally:
        profile.disable()
        count.append(sum(entry.callcount for entry in profile.getstats()))
