"""The loader with worker processes: how fast batches come, how long the first takes, and what handing over costs."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from typing import Any

from ..facts.loader_work import cores_of, cpu_of, workers_of
from ..guard import quietly
from .contents import Lengths
from .source import BatchSource

MOST_BATCHES = 2000


def with_workers(source: BatchSource, workers: int, usual_s: float, seconds: float, lengths: Lengths) -> dict[str, Any]:
    """The rate of the job's loader with so many workers; or why it is not known.

    Args:
        source: the job's loader.
        workers: at least one.
        usual_s: seconds of a batch in process.
        seconds: of steady batches, at most; each worker gives two at least.
        lengths: counts the batches.
    """
    try:
        loader = source.with_workers(workers, usual_s)
        return {"workers": workers, **_rate(loader, workers, seconds, source.batch_size, lengths)}
    except Exception as error:
        return {"workers": workers, "because": _described(error, workers)}


def hand_over(source: BatchSource, batch: Any, workers: int, seconds: float) -> dict[str, Any]:
    """The rate at which so many workers hand over copies of a batch that they need not make; or why it is not known."""
    from torch.utils.data import DataLoader

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = DataLoader(_Copies(batch), batch_size=None, num_workers=workers, collate_fn=_as_it_is, timeout=60)
        return {"workers": workers, **_rate(loader, workers, seconds, source.batch_size, None)}
    except Exception as error:
        return {"workers": workers, "because": _described(error, workers)}


def _described(error: Exception, workers: int) -> str:
    said = " ".join(str(error).split())
    return f"{workers} worker{'' if workers == 1 else 's'} cannot load it: {type(error).__name__}: {said}"[:300]


def _rate(loader: Any, workers: int, seconds: float, batch_size: int, lengths: Lengths | None) -> dict[str, Any]:
    """The rate of whole rounds of all workers after their first: workers that begin together deliver together."""
    began = time.perf_counter()
    iterator = iter(loader)
    try:
        next(iterator)
        first_s = time.perf_counter() - began
        for _ in range(workers - 1):
            next(iterator)
        return {"first_s": first_s, "batch_size": batch_size, **_steady(iterator, workers, seconds, lengths)}
    except StopIteration:
        return {"because": f"the dataset gives less than two batches for each of {workers} workers"}
    finally:
        quietly(getattr(iterator, "_shutdown_workers", lambda: None))


def _steady(iterator: Any, workers: int, seconds: float, lengths: Lengths | None) -> dict[str, Any]:
    cpu, began = cpu_of(workers_of(iterator)), time.perf_counter_ns()
    rounds, wall_ns, counted = 0, 0, 0
    while counted < MOST_BATCHES and (rounds < 1 or wall_ns < seconds * 1e9):
        if not _round(iterator, workers, lengths):
            break
        rounds, counted, wall_ns = rounds + 1, counted + workers, time.perf_counter_ns() - began
    if not rounds:
        raise StopIteration
    after = cpu_of(workers_of(iterator))
    used = [after[key] - cpu[key] for key in cpu.keys() & after.keys()]
    elapsed_ns = time.perf_counter_ns() - began
    busy = sum(used) / elapsed_ns / workers if len(used) == workers else None
    cores = cores_of(workers_of(iterator).values())
    return {"batches": counted, "wall_ns": wall_ns, "cpu_share": busy, "cores": cores}


def _round(iterator: Any, workers: int, lengths: Lengths | None) -> bool:
    for _ in range(workers):
        batch: Any = next(iterator, _ENDED)
        if batch is _ENDED:
            return False
        if lengths is not None:
            note: Callable[[], None] = lambda got=batch: lengths.note(None, got)  # type: ignore[misc] # noqa: E731
            quietly(note)
    return True


_ENDED = object()


class _Copies:
    """Gives a copy of a batch, again and again: a batch handed over lies in shared memory, and moves only once."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> Any:
        return copy.deepcopy(self._batch)


def _as_it_is(batch: Any) -> Any:
    return batch
