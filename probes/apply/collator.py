"""A patch of the padding of a Trainer's batches: the columns behind their longest sample are cut off.

The batches are those that rows without padding would give, padded to their longest: the same samples, with the same
loss. Where samples are grouped by length, they are so by their length without padding. A batch is left as it is if
anything in it may depend on its width; then none is cut any more, and the patch is refused.
"""

from __future__ import annotations

import copy
import mmap
import sys
from typing import Any

from ..facts.rows import MASK, mask_of
from ..guard import guarded
from ..hand_over import replace
from ..introspection import inner_loader, is_a, is_table, items, own_attribute, start_method
from .constructors import values_for
from .job_patch import JobPatch, job_patch
from .loader_order import samplers
from .reasons import Reason, Refusal

TARGET, PADDING = "collator", "padding"
_DOING = "the patch of the padding is not applied"
_IGNORED = -100  # the label that torch's losses leave out
_WIDTH, _LABELS, _LEFT, _NO_MASK, _FORM = range(1, 6)
_WHY = {
    _WIDTH: "something else in them is as long as they are",
    _LABELS: "labels count where the attention_mask is 0",
    _LEFT: "they are padded on the left",
    _NO_MASK: "they have no attention_mask of samples x tokens",
    _FORM: "they are no dictionary",
}


def install() -> None:
    """Look at the training loaders of every Trainer that trains from now on; without such a patch, change nothing."""
    patch = job_patch()
    kind: Any = sys.modules["transformers.trainer"].Trainer
    if patch is None or not values_for(patch, TARGET):
        return

    def trains(original: Any, trainer: Any, /, *args: Any, **kwargs: Any) -> Any:
        guarded(lambda: _watch(patch, type(trainer)), _DOING)
        return original(trainer, *args, **kwargs)

    replace(kind, "train", trains, _DOING, "__diagnose_apply__")


def _watch(patch: JobPatch, kind: type) -> None:
    def made(original: Any, trainer: Any, /, *args: Any, **kwargs: Any) -> Any:
        loader = original(trainer, *args, **kwargs)
        guarded(lambda: _cut_from_now_on(patch, inner_loader(loader)), _DOING)
        return loader

    for each in kind.__mro__:
        if "get_train_dataloader" in vars(each):
            replace(each, "get_train_dataloader", made, _DOING, "__diagnose_apply__")


def _cut_from_now_on(patch: JobPatch, loader: Any) -> None:
    collate = own_attribute(loader, "collate_fn")
    if collate is None or hasattr(collate, "__diagnose_apply__"):
        return  # a subclass's method calls the one that it overrides
    if own_attribute(loader, "num_workers") and start_method(loader) != "fork":
        patch.refuse(TARGET, PADDING, Refusal(Reason.NOT_CUT, "workers that are not forked collate them"))
        return
    if not _group_by_real_lengths(loader):
        patch.refuse(TARGET, PADDING, Refusal(Reason.NO_MASKS))
        return
    cutter = _Cutter()
    replace(loader, "collate_fn", cutter.collated, _DOING, "__diagnose_apply__")
    patch.applied(TARGET, [PADDING])
    patch.holds(TARGET, PADDING, cutter.refusal)


def _group_by_real_lengths(loader: Any) -> bool:
    """Have the sampler that groups by length, if there is one, use lengths without padding; whether it can."""
    held = {name: own_attribute(loader, name) for name in ("batch_sampler", "sampler")}
    for sampler in samplers(held):
        lengths = own_attribute(sampler, "lengths")
        if type(sampler).__name__.endswith("LengthGroupedSampler") and is_a(lengths, list):
            real = real_lengths(own_attribute(loader, "dataset"))
            if real is not None and len(real) == len(lengths):
                sampler.lengths = real
            elif len(set(lengths)) == 1:
                return False
    return True


def real_lengths(data: Any) -> list[int] | None:
    """Tokens of each row that are no padding, by its mask; None if that cannot be read without computing samples."""
    if is_table(data) and data.format.get("type") != "custom" and MASK in data.column_names:
        return [sum(mask) for mask in data.with_format(None)[MASK]]
    if type(data) in (list, tuple) and all(is_a(items(row).get(MASK), list) for row in data):
        return [sum(items(row)[MASK]) for row in data]
    return None


class _Cutter:
    """Cuts batches, here or in forked workers, until one cannot be cut; all of them share the reason."""

    def __init__(self) -> None:
        self._why_not = mmap.mmap(-1, 1)

    def collated(self, collate: Any, rows: Any) -> Any:
        """The batch of the rows, cut."""
        batch = collate(rows)
        if not self._why_not[0]:
            batch, self._why_not[0] = cut(batch)
        return batch

    def refusal(self) -> Refusal | None:
        """Why batches are no longer cut; None as long as they are."""
        why = _WHY.get(self._why_not[0])
        return Refusal(Reason.NOT_CUT, why) if why else None


def cut(batch: Any) -> tuple[Any, int]:
    """A copy of the batch without the columns, and 0; or the batch as it is, and by a number why it is left so."""
    values = batch if type(batch) is dict else own_attribute(batch, "data")
    if type(values) is not dict:
        return batch, _FORM
    mask = mask_of(batch)
    if mask is None:
        return batch, _NO_MASK
    samples, width = mask.shape
    columns = mask.any(axis=0).nonzero()[0]
    longest = int(columns[-1]) + 1 if len(columns) else width
    if longest == width:
        return batch, _LEFT if len(columns) and columns[0] > 0 else 0
    per_token = {key: value for key, value in values.items() if _is_per_token(value, samples, width)}
    if any(_has_width(value, width, samples) for key, value in values.items() if key not in per_token):
        return batch, _WIDTH
    if any("label" in key and bool((value[:, longest:] != _IGNORED).any()) for key, value in per_token.items()):
        return batch, _LABELS
    shorter = {**values, **{key: value[:, :longest].contiguous() for key, value in per_token.items()}}
    if type(batch) is dict:
        return shorter, 0
    changed = copy.copy(batch)
    changed.data = shorter
    return changed, 0


def _is_per_token(value: Any, samples: int, width: int) -> bool:
    torch: Any = sys.modules["torch"]
    if type(value) is not torch.Tensor or value.dim() < 2:
        return False
    return tuple(value.shape[:2]) == (samples, width) and width not in value.shape[2:]


def _has_width(value: Any, width: int, samples: int) -> bool:
    """Whether something that is not per token may depend on the width."""
    if value is None or is_a(value, bool, int, float, str):
        return False
    torch: Any = sys.modules["torch"]
    if type(value) is torch.Tensor:
        return tuple(value.shape) != (samples,) and width in value.shape
    return True
