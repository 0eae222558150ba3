"""The job's model, optimizer, loader and a few batches, as the hooks met them. Keeps none of it alive."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from ..apply.recorded import Refusals
from ..apply.samples import times_repeated
from ..guard import quietly
from ..introspection import element_bytes, inner_loader, is_a, items, own_attribute, shape, size, unseen, untouched
from .all_rows import all_rows
from .loader_work import Loaders
from .loop_frames import loop_on_stack
from .padding import PaddingSums
from .rows import RowSums
from .shards import shards

BATCHES = 4
LOADER = ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "batch_size", "drop_last")
_DEPTH = 3


class JobObjects:
    """Weak references and small descriptions, gathered while the window waits.

    Attributes:
        arguments: reads the settings of the job's trainer as the record holds them; None without a trainer.
        loop: the library that runs the training loop, as the record names it; None if it was not seen.
        logs_figures: whether the loggers of that library get the figures of the steps.
        loader: settings of the last DataLoader.
        batches: descriptions of the last batches.
        padding: of every batch of the loop.
        rows: those of its batches before they were collated.
        loaders: the work of the loaders.
        refusals: the changes that the job's objects rule out.
        made_by: the framework, or the script, that makes the job's optimizer and loader, where known.
    """

    def __init__(self) -> None:
        self.arguments: Callable[[], dict[str, object]] | None = None
        self.loop: str | None = None
        self.logs_figures = False
        self.loader: dict[str, object] | None = None
        self.batches: deque[dict[str, Any]] = deque(maxlen=BATCHES)
        self.padding, self.loaders = PaddingSums(), Loaders()
        self.rows = RowSums()
        self.refusals = Refusals()
        self.made_by: dict[str, str] = {}
        self._refs: dict[str, Any] = {}

    def loop_begins(self) -> None:
        """Forget the batches and loaders of an earlier loop."""
        self.batches.clear()
        self.rows.begin()
        self.padding, self.loaders = PaddingSums(), Loaders()

    def note(self, role: str, thing: object) -> None:
        """Remember the job's `role` ("model", "wrapped", "optimizer", "accelerator", "engine")."""
        if thing is not None:
            self._refs[role] = weakref.ref(thing)

    def get(self, role: str) -> Any:
        """The object noted for `role`; None if there was none or it is gone."""
        reference = self._refs.get(role)
        return reference() if reference is not None else None

    def is_trained(self, module: Any) -> bool:
        """Whether the optimizer steps a parameter of the module."""
        optimizer = self.get("optimizer")
        if optimizer is None:
            return False
        facts = import_module(".model", __package__)
        stepped = {id(p) for p in facts.optimized(optimizer)}
        return any(id(p) in stepped for p in facts.parameters(module))

    def note_loop(self, otherwise: str) -> None:
        """Note the library that runs the training loop, from the stack, else `otherwise`; call it in the loop."""
        self.loop = loop_on_stack() or otherwise

    def note_loader(self, loader: Any) -> None:
        """Remember the settings of a torch DataLoader."""
        inner = inner_loader(loader)
        self.loader = {name: own_attribute(inner, name) for name in LOADER}
        self.rows.collated_by(own_attribute(inner, "collate_fn"))
        self.loader["times_repeated"] = quietly(lambda: times_repeated(inner))
        self.loader["all_rows"] = quietly(lambda: all_rows(loader))
        self.loader["shards"] = quietly(lambda: shards(inner))
        self.refusals.loader_begins(inner)

    def note_batch(self, batch: object) -> None:
        """Remember the shapes of a batch.

        It reads only tensors in host memory: a device would have to be waited for.
        """
        self.batches.append(described(batch))

    def note_padding(self, batch: object) -> None:
        """Count the padding of a batch."""
        mask = dict(tensors_of(batch)).get("attention_mask")
        if mask is not None:
            with untouched(), unseen():
                self.padding.note(mask)


def described(batch: object) -> dict[str, Any]:
    """Shapes by name, bytes of the tensors, and tokens (elements of `input_ids`) or None."""
    tensors = dict(tensors_of(batch))
    ids = tensors.get("input_ids")
    with untouched(), unseen():
        return {
            "shapes": {name: shape(tensor) for name, tensor in tensors.items()},
            "bytes": sum(size(tensor) * element_bytes(tensor) for tensor in tensors.values()),
            "tokens": None if ids is None else size(ids),
        }


def tensors_of(batch: object) -> Iterator[tuple[str, Any]]:
    """The tensors of a batch, each with its name, which is made of the keys on the way to it."""
    return _tensors(batch, "", _DEPTH)


def _tensors(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    torch: Any = sys.modules["torch"]
    if is_a(value, torch.Tensor):
        yield name or "0", value
    elif depth and is_a(value, tuple, list):
        parts = tuple.__iter__(value) if is_a(value, tuple) else list.__iter__(value)
        for index, part in zip(range(16), parts):  # noqa: B905
            yield from _tensors(part, _joined(name, str(index)), depth - 1)
    elif depth:
        for key, part in items(value).items():
            yield from _tensors(part, _joined(name, key if type(key) is str else "other"), depth - 1)


def _joined(name: str, part: str) -> str:
    safe = part if part.isidentifier() or part.isdecimal() else "other"
    return f"{name}.{safe}"[:60] if name else safe[:60]
