"""Hooks into torch's DataLoader: loaders and batches are noted, and a window hears of each batch."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from ..current_session import session
from ..guard import quietly
from ..held import loader_length
from ..protocol import ARMED, DATA_WAIT_RANGE
from ..recording.range_times import Timed

if TYPE_CHECKING:
    from ..session import Session

_UNWATCHED = ("done", ARMED)
_longest: int | None = None


def watch_loaders() -> None:
    """Note the settings, the length and a few batch shapes of every DataLoader that is iterated."""
    from torch.utils.data import dataloader

    _replace(dataloader.DataLoader, "__iter__", _noting_loader)
    _replace(dataloader._BaseDataLoaderIter, "__next__", _noting_batch)


def longest_loader() -> int | None:
    """Batches of the longest loader that was iterated outside a loop; None where no length is known."""
    return _longest


def _replace(owner: Any, method: str, around: Any) -> None:
    original = getattr(owner, method, None)
    if original is not None and not hasattr(original, "__diagnose__"):
        setattr(owner, method, around(original))


def _noting_loader(original: Any) -> Any:
    @wraps(original)
    def __iter__(self: Any) -> Any:
        quietly(lambda: _note_loader(self))
        return original(self)

    __iter__.__diagnose__ = "loader"  # type: ignore[attr-defined]
    return __iter__


def _note_loader(loader: Any) -> None:
    global _longest
    current = session()
    if current is None or current.source is not None:
        return
    current.objects.note_loader(loader)
    length = loader_length(loader)
    if length is not None:
        _longest = max(_longest or 0, length)


def _noting_batch(original: Any) -> Any:
    @wraps(original)
    def __next__(self: Any) -> Any:
        measured = quietly(lambda: _measuring(self))
        with Timed(DATA_WAIT_RANGE):
            batch = original(self)
        if callable(measured):
            quietly(measured)
        current = session()
        if current is not None and current.phase not in _UNWATCHED:
            current.batch_fetched()
            if not current.beside_a_profiler():
                quietly(lambda: _note_batch(current, batch))
        return batch

    __next__.__diagnose__ = "batch"  # type: ignore[attr-defined]
    return __next__


def _note_batch(current: Session, batch: object) -> None:
    current.objects.note_padding(batch)
    if current.phase in ("waiting", "warmup"):
        current.objects.note_batch(batch)


def _measuring(iterator: Any) -> Any:
    current = session()
    if current is None or current.phase in _UNWATCHED:
        return None
    return current.objects.loaders.fetching(iterator)
