"""Hooks into torch's DataLoader: they note loaders and batches, and report each batch to the window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..current_session import session
from ..guard import quietly
from ..hand_over import replace, replace_static
from ..introspection import loader_length
from ..protocol import ARMED, DATA_WAIT_RANGE
from ..recording.range_times import Timed
from ..seen import seen

if TYPE_CHECKING:
    from ..facts.rows import RowSums
    from ..session import Session

_UNWATCHED = ("done", ARMED)
_NO_ROWS = "rows are not looked at before they are collated"
_longest: int | None = None
_rows: RowSums | None = None  # forked workers have it, and no session


def watch_loaders() -> None:
    """Note the settings, the length and a few batch shapes of every DataLoader that is iterated."""
    from torch.utils.data import dataloader

    replace(dataloader.DataLoader, "__iter__", _noting_loader, "loaders are not noted")
    replace(dataloader._BaseDataLoaderIter, "__next__", _noting_batch, "batches are not noted")
    replace_static(dataloader._DatasetKind, "create_fetcher", _watching_rows, _NO_ROWS)


def _watching_rows(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Make what fetches batches, here or in a worker, look at what its collate function gets."""
    fetcher = original(*args, **kwargs)
    rows = _rows
    if rows is None or not fetcher.auto_collation:
        return fetcher

    def collated(collate: Any, samples: Any) -> Any:
        batch = collate(samples)
        quietly(lambda: rows.note(samples, batch))
        return batch

    replace(fetcher, "collate_fn", collated, _NO_ROWS)
    return fetcher


def longest_loader() -> int | None:
    """Batches of the longest loader that was iterated outside a loop; None if no length is known."""
    return _longest


def _noting_loader(original: Any, loader: Any) -> Any:
    quietly(lambda: _note_loader(loader))
    begun = quietly(lambda: _pass_begins(loader))
    iterator = original(loader)
    if callable(begun):
        quietly(lambda: begun(iterator))
    return iterator


def _pass_begins(loader: Any) -> Any:
    current = session()
    if current is None or not _is_watched(current):
        return None
    return current.objects.loaders.pass_begins(loader, 1 + (current.window.number if current.window else 0))


def _note_loader(loader: Any) -> None:
    global _longest, _rows
    current = session()
    if current is None:
        return
    _rows = current.objects.rows
    if current.source is not None:
        return
    current.objects.note_loader(loader)
    length = loader_length(loader)
    if length is not None:
        _longest = max(_longest or 0, length)


def _noting_batch(original: Any, iterator: Any) -> Any:
    measured = quietly(lambda: _measuring(iterator))
    with Timed(DATA_WAIT_RANGE):
        batch = original(iterator)
    seen.batches += 1
    if callable(measured):
        quietly(measured)
    current = session()
    if current is not None and current.phase not in _UNWATCHED:
        current.batch_fetched()
        if not current.beside_a_profiler():
            quietly(lambda: _note_batch(current, batch))
    return batch


def _note_batch(current: Session, batch: object) -> None:
    current.objects.note_padding(batch)
    if current.phase in ("waiting", "warmup"):
        current.objects.note_batch(batch)


def _measuring(iterator: Any) -> Any:
    current = session()
    if current is None or not _is_watched(current):
        return None
    return current.objects.loaders.fetching(iterator, in_loop=current.phase not in _UNWATCHED)


def _is_watched(current: Session) -> bool:
    """Whether loaders are measured: until the window is over, and before the loop, for its first pass begins there."""
    return current.source is None or current.phase not in _UNWATCHED
