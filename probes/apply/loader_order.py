"""Keep the order of the samples of a loader with patched workers as it is without the patch.

A loader without workers draws one number when a pass begins, and asks its sampler when a batch is due. Workers that
persist save that number; others draw it together with the first batches. They read the sampler ahead, which leaves a
generator of the job's further on when a pass is left early. And they keep the dataset as it was when they started, and
one pass at a time. All of this is undone here; the patch is refused if it cannot be undone.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ..frameworks import FRAMEWORKS
from ..guard import guarded, quietly
from ..hand_over import replace, replace_property
from ..introspection import own_attribute

_PLAIN_SAMPLERS = (
    *(f"{name}." for each in FRAMEWORKS if each.has_plain_samplers for name in each.packages),
    "datasets.",
)
_NOT_KEPT = "the order of the samples may be another"
_PLAIN = (list, tuple, range)
_KEPT: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()


class _Kept:
    """State needed to keep the order of one loader.

    Attributes:
        persists: whether its workers persist by the patch alone.
        dataset: a view of the dataset as it was when workers started.
        sampler_starts: to be called before the sampler of the pass that starts draws.
        read: how far the pass that started last has read its sampler.
    """

    def __init__(self, persists: bool) -> None:
        self.persists = persists
        self.dataset: Any = None
        self.sampler_starts: Callable[[], object] | None = None
        self.read: _Read | None = None


class _Read:
    """The states of the job's generator before each batch that was read ahead of the loop and not yet taken."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator  # None if each pass has one of its own
        self.states: deque[Any] = deque()

    def note(self) -> None:
        """Note the state of the job's generator before the next batch is drawn."""
        if self.generator is not None:
            self.states.append(self.generator.get_state())

    def leave(self) -> None:
        """Set the generator back to its state after the batches that were taken, for a pass that is left early."""
        if self.states:
            self.generator.set_state(self.states[0])
        self.states.clear()


def keep(loader: Any, persists: bool) -> None:
    """Keep the order of `loader` from now on, whose workers are the patch's."""
    _KEPT[loader] = _Kept(persists)


def keep_as_before(loader: Any, arguments: Mapping[str, Any]) -> bool:
    """Keep the order of `loader` too if it is made of one whose order is kept, as accelerate's is; whether it is."""
    drawn = [id(sampler) for sampler in samplers(arguments)]
    for other, kept in list(_KEPT.items()):
        if id(vars(other).get("sampler")) in drawn or id(vars(other).get("batch_sampler")) in drawn:
            keep(loader, kept.persists)
            return True
    return False


def install(kind: Any) -> None:
    """Have torch's DataLoader keep the order of those that `keep` names."""
    if not hasattr(kind.__iter__, "__diagnose_order__"):
        replace_property(kind, "_index_sampler", _remembering, _NOT_KEPT)
        replace(kind, "__iter__", _in_order, _NOT_KEPT, "__diagnose_order__")


def draws_as_it_goes(arguments: Mapping[str, Any]) -> str:
    """The name of a sampler of the job's own, which may draw anew for each batch that is read ahead; else empty."""
    for sampler in samplers(arguments):
        kind = type(sampler)
        if kind not in _PLAIN and not kind.__module__.startswith(_PLAIN_SAMPLERS):
            return kind.__name__
    return ""


def follows_torch(arguments: Mapping[str, Any]) -> bool:
    """Whether the order of a pass comes from torch's own generator."""
    found = list(samplers(arguments))
    if not found:
        return bool(arguments.get("shuffle")) and arguments.get("generator") is None
    return getattr(found[-1], "generator", found) is None


def samplers(arguments: Mapping[str, Any]) -> Iterator[Any]:
    """The samplers that were given, from the outermost to the one that draws."""
    current = _first_known(arguments.get("batch_sampler"), arguments.get("sampler"))
    while current is not None:
        yield current
        plain = type(current) in _PLAIN
        current = None if plain else _first_known(*(own_attribute(current, n) for n in ("batch_sampler", "sampler")))


def _first_known(*things: Any) -> Any:
    return next((thing for thing in things if thing is not None), None)


def _in_order(original: Any, loader: Any) -> Any:
    kept = _KEPT.get(loader)
    return original(loader) if kept is None else _Pass(loader, kept, original)


class _Pass:
    """One pass over a loader with the patch's workers: it draws the same numbers at the same times as without them."""

    def __init__(self, loader: Any, kept: _Kept, original: Callable[[Any], Any]) -> None:
        torch: Any = sys.modules["torch"]
        self._loader, self._kept, self._original = loader, kept, original
        self._batches: Any = None
        self._read = _Read(_generator_of_the_job(loader))
        self._first = loader.generator if loader.generator is not None else torch.default_generator
        if kept.read is not None:
            kept.read.leave()
        self._before = self._first.get_state()
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)

    def __iter__(self) -> _Pass:
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            self._batches = self._started()
        try:
            batch = next(self._batches)
        except StopIteration:
            self._read.states.clear()
            raise
        if self._read.states:
            self._read.states.popleft()
        return batch

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)

    def __del__(self) -> None:
        if self._kept.read is self._read:
            quietly(self._read.leave)

    def _started(self) -> Any:
        """The iterator over the batches; starting workers draw the number that was drawn when the pass began."""
        guarded(self._begins, _NOT_KEPT)
        quietly(lambda: _let_go(self._loader, self._kept))
        try:
            return self._original(self._loader)
        finally:
            guarded(lambda: _sampler_starts(self._kept), _NOT_KEPT)

    def _begins(self) -> None:
        after = self._first.get_state()
        self._first.set_state(self._before)
        self._kept.sampler_starts = lambda: self._first.set_state(after)
        self._kept.read = self._read


def _sampler_starts(kept: _Kept) -> None:
    starts, kept.sampler_starts = kept.sampler_starts, None
    if starts is not None:
        starts()


def _let_go(loader: Any, kept: _Kept) -> None:
    """Discard workers that persist by the patch if their last pass has not ended or their dataset is outdated."""
    seen = _view(loader.dataset)
    running = loader._iterator
    if kept.persists and running is not None and (running._tasks_outstanding > 0 or seen != kept.dataset):
        loader._iterator = None
    kept.dataset = seen


def _view(data: Any) -> dict[str, Any]:
    """The attributes of a dataset, without running its code: plain values, and the identity of other objects."""
    plain = (str, bytes, int, float, bool, type(None))
    return {name: value if type(value) in plain else id(value) for name, value in getattr(data, "__dict__", {}).items()}


def _generator_of_the_job(loader: Any) -> Any:
    """The generator from which the sampler draws; None if each pass has one of its own."""
    torch: Any = sys.modules["torch"]
    drawing = list(samplers({"batch_sampler": loader.batch_sampler, "sampler": loader.sampler}))[-1]
    generator = getattr(drawing, "generator", None)
    return generator if isinstance(generator, torch.Generator) else None


def _remembering(original: Any, loader: Any) -> Any:
    kept, sampler = _KEPT.get(loader), original(loader)
    return sampler if kept is None else _Remembering(sampler, kept)


class _Remembering:
    """A sampler of batches, with the state of the job's generator before each."""

    def __init__(self, sampler: Any, kept: _Kept) -> None:
        self._sampler, self._kept = sampler, kept

    def __iter__(self) -> Iterator[Any]:
        guarded(lambda: _sampler_starts(self._kept), _NOT_KEPT)
        indices, at_end, read = iter(self._sampler), object(), self._kept.read
        while True:
            if read is not None:
                guarded(read.note, _NOT_KEPT)
            index = next(indices, at_end)
            if index is at_end:
                return
            yield index

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)
