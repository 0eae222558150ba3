"""The job's model, optimizer, loader and a few batches, as the hooks met them. Keeps none of it alive."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from .held import held, inner_loader, is_a, items, shape, size, unseen, untouched
from .loop_frames import loop_on_stack

BATCHES = 4
LOADER = ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "batch_size", "drop_last")
_DEPTH = 3


class JobObjects:
    """Weak references and small descriptions, gathered while the window waits.

    Attributes:
        arguments: reads the settings of the job's trainer as the record holds them; None without a trainer.
        loop: what runs the training loop, as the record names it; None where it was not seen.
        loader: settings of the last DataLoader.
        batches: descriptions of the last batches.
    """

    def __init__(self) -> None:
        self.arguments: Callable[[], dict[str, object]] | None = None
        self.loop: str | None = None
        self.loader: dict[str, object] | None = None
        self.batches: deque[dict[str, Any]] = deque(maxlen=BATCHES)
        self._refs: dict[str, Any] = {}

    def note(self, role: str, thing: object) -> None:
        """Remember the job's `role` ("model", "wrapped", "optimizer", "accelerator")."""
        if thing is not None:
            self._refs[role] = weakref.ref(thing)

    def get(self, role: str) -> Any:
        """What was noted for `role`, or None when it was not or is gone."""
        reference = self._refs.get(role)
        return reference() if reference is not None else None

    def note_loop(self) -> None:
        """Remember what runs the training loop, asked from within it."""
        self.loop = loop_on_stack()

    def note_loader(self, loader: Any) -> None:
        """Remember the settings of a torch DataLoader."""
        self.loader = {name: held(inner_loader(loader), name) for name in LOADER}

    def note_batch(self, batch: object) -> None:
        """Remember the shapes of a batch. Reads only tensors in host memory: a device would be waited for."""
        self.batches.append(described(batch))


def described(batch: object) -> dict[str, Any]:
    """Shapes by name, tokens (elements of `input_ids`), and padding (share of `attention_mask` that is 0) or None."""
    tensors = dict(_tensors(batch, "", _DEPTH))
    ids, mask = tensors.get("input_ids"), tensors.get("attention_mask")
    with untouched(), unseen():
        return {
            "shapes": {name: shape(tensor) for name, tensor in tensors.items()},
            "tokens": None if ids is None else size(ids),
            "padding": None if mask is None else _padding(mask),
        }


def _padding(mask: Any) -> float | None:
    """The share of zeros; None for a mask on a device, or one that is not batch x length.

    Counted by NumPy: an operator of torch would stand in traces that the job takes, and in what it counts.
    """
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if type(mask) is not torch.Tensor or mask.device.type != "cpu" or mask.dim() != 2 or not mask.numel():
        return None
    return None if numpy is None else 1 - int(numpy.count_nonzero(mask.numpy())) / mask.numel()


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
