"""Hooks into torch's DataLoader: they note loaders and batches, and report each batch to the window."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from ..current_session import session
from ..guard import quietly
from ..hand_over import replace, replace_static, when_gone
from ..introspection import loader_length, own_attribute
from ..protocol import ARMED, DATA_WAIT_RANGE, EVAL_RANGE, FIRST_BATCH_RANGE
from ..recording.range_times import Timed, times
from ..recording.run_time import run_time
from ..seen import seen

if TYPE_CHECKING:
    from ..facts.rows import RowSums
    from ..session import Session

_UNWATCHED = ("done", ARMED)
_NO_ROWS = "rows are not looked at before they are collated"
_longest: int | None = None
_rows: RowSums | None = None  # forked workers have it, and no session


class Evaluation:
    """The pass over a loader that evaluates, as a range of the training thread.

    It is one without gradients, or one of the model that trains while that is set to evaluate. It ends with its last
    batch, or with its iterator where it is broken off. A step of an optimizer within it shows that it trains, and then
    the mode of the model says nothing.
    """

    def __init__(self) -> None:
        self._iterator: Any = None
        self._is_open = self._by_mode = False
        self._mode_tells = True

    def begins(self) -> None:
        """End the pass before, and begin one if this evaluates."""
        self._close()
        if not times.on:
            return
        without_gradients = not sys.modules["torch"].is_grad_enabled()
        self._by_mode = not without_gradients and self._mode_tells and _is_set_to_evaluate()
        if not (without_gradients or self._by_mode):
            run_time.may_begin()
        elif not times.is_open(EVAL_RANGE):
            self._is_open = times.opened(EVAL_RANGE)

    def has(self, iterator: Any) -> None:
        """Note the iterator of the pass that has begun."""
        if self._is_open:
            self._iterator = when_gone(iterator, self._close, "an evaluation is not timed")

    def ended(self, iterator: Any) -> None:
        """End the pass if this is its iterator, which has no more batches."""
        if self._iterator is not None and self._iterator() is iterator:
            self._close()

    def stepped(self) -> None:
        """End the pass, in which an optimizer has stepped."""
        if self._is_open:
            self._mode_tells = self._mode_tells and not self._by_mode
            self._close()

    def _close(self) -> None:
        if self._is_open:
            times.closed(EVAL_RANGE)
        self._iterator, self._is_open = None, False


def _noting_eval(original: Any, module: Any) -> Any:
    """Note a module that the job sets to evaluate."""
    quietly(lambda: _set_to_evaluate.append(weakref.ref(module)))
    return original(module)


def _is_set_to_evaluate() -> bool:
    """Whether a module that the job trains is in its mode for evaluation; not known before the first step."""
    current = session()
    if current is None or current.untouched:
        return False
    noted = [module for reference in _set_to_evaluate if (module := reference()) is not None]
    still = [module for module in noted if own_attribute(module, "training") is False]
    return any(current.objects.is_trained(module) for module in still)


_set_to_evaluate: deque[Any] = deque(maxlen=4)
evaluation = Evaluation()


def watch_loaders() -> None:
    """Note the settings, the length and a few batch shapes of every DataLoader that is iterated."""
    from torch.utils.data import dataloader

    replace(dataloader.DataLoader, "__iter__", _noting_loader, "loaders are not noted")
    replace(dataloader._BaseDataLoaderIter, "__next__", _noting_batch, "batches are not noted")
    replace(sys.modules["torch"].nn.Module, "eval", _noting_eval, "evaluations are not seen by the mode of the model")
    replace_static(dataloader._DatasetKind, "create_fetcher", _watching_rows, _NO_ROWS)


def _watching_rows(original: Any, /, *args: Any, **kwargs: Any) -> Any:
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
    quietly(evaluation.begins)
    with Timed(FIRST_BATCH_RANGE):
        iterator = original(loader)
    quietly(lambda: evaluation.has(iterator))
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
    if not seen.backward_passes and run_time.is_before and not times.is_open(EVAL_RANGE):
        quietly(run_time.fetches)
    try:
        with Timed(DATA_WAIT_RANGE if own_attribute(iterator, "_num_yielded") else FIRST_BATCH_RANGE):
            batch = original(iterator)
    except StopIteration:
        quietly(lambda: evaluation.ended(iterator))
        quietly(lambda: _pass_ended(iterator))
        raise
    seen.batches += 1
    if callable(measured):
        quietly(measured)
    current = session()
    if current is not None and current.phase not in _UNWATCHED:
        current.batch_fetched()
        if not current.beside_a_profiler():
            quietly(lambda: _note_batch(current, batch))
    return batch


def _pass_ended(iterator: Any) -> None:
    current = session()
    if current is not None and _is_watched(current):
        current.objects.loaders.pass_ended(iterator)


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
