"""Rows as the collate function of a loader gets them: how much of the padding of a batch they bring along.

They are watched where they are collated: in the training process, or in worker processes that it forks. These share
the memory of the sums. Workers that start otherwise leave none.
"""

from __future__ import annotations

import mmap
import os
import sys
from types import FunctionType
from typing import Any

from ..introspection import is_a, items, own_attribute, unseen

IDS, MASK = "input_ids", "attention_mask"
_SUMS = ("batches", "samples", "padded_tokens", "collated_tokens", "with_ids", "with_mask")
_LENGTHS = ("least_length", "most_length")
_FIELDS = (*_SUMS, *_LENGTHS)
_PROCESSES = 65  # the training process, and so many workers
_MOST_BATCHES = 1000  # of a process: more would not change what the rows are
_WORD = 8


class RowSums:
    """Sums over batches, by the process that collates them; each process writes into its own part of the memory."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _PROCESSES * len(_FIELDS) * _WORD)  # forked workers share it
        self._numbers = memoryview(self._memory).cast("q")
        self._owner = os.getpid()
        self._collates = "unknown"

    def collated_by(self, collate: Any) -> None:
        """Note the collate function of the loader."""
        inner = own_attribute(collate, "data_collator")  # in the Trainer's, which leaves columns out
        self._collates = collates_as(collate if inner is None else inner)

    def begin(self) -> None:
        """Forget the rows that were seen."""
        for place in range(len(self._numbers)):
            self._numbers[place] = 0

    def note(self, rows: Any, batch: Any) -> None:
        """Count rows and the batch that was made of them; one whose rows have no length, or no mask, is left out."""
        start = self._part()
        if start is None or self._numbers[start] >= _MOST_BATCHES:
            return
        found = counted(rows, batch)
        if found is None:
            return
        for place, name in enumerate(_SUMS, start):
            self._numbers[place] += found[name]
        first = self._numbers[start] == 1
        least, most = start + len(_SUMS), start + len(_SUMS) + 1
        self._numbers[least] = found["least_length"] if first else min(self._numbers[least], found["least_length"])
        self._numbers[most] = max(self._numbers[most], found["most_length"])

    def facts(self) -> dict[str, object] | None:
        """The sums of all processes, and the least and the most tokens of a row; None if no rows were counted."""
        width = len(_FIELDS)
        parts = [
            dict(zip(_FIELDS, self._numbers[at : at + width]))  # noqa: B905
            for at in range(0, len(self._numbers), width)
            if self._numbers[at]
        ]
        if not parts:
            return None
        sums = {name: sum(part[name] for part in parts) for name in _SUMS}
        least, most = _LENGTHS
        lengths = {least: min(part[least] for part in parts), most: max(part[most] for part in parts)}
        return {**sums, **lengths, "collates": self._collates}

    def _part(self) -> int | None:
        """Where this process writes; None if it may not."""
        data: Any = sys.modules.get("torch.utils.data")
        worker = data.get_worker_info() if data is not None else None
        process = 0 if worker is None and os.getpid() == self._owner else None if worker is None else worker.id + 1
        return process * len(_FIELDS) if process is not None and process < _PROCESSES else None


def counted(rows: Any, batch: Any) -> dict[str, int] | None:
    """The counts of a batch: padding that its rows have, padding that collating adds; None if they have no lengths.

    Rows may come in another order in the batch, since only their sums are compared.
    """
    numpy: Any = sys.modules.get("numpy")
    mask = mask_of(batch)
    if numpy is None or mask is None or not is_a(rows, list, tuple) or len(rows) != len(mask):
        return None
    lengths = [tokens_of(row) for row in rows]
    if None in lengths:
        return None
    samples, width = mask.shape
    real = int(numpy.count_nonzero(mask))
    given = sum(min(length or 0, width) for length in lengths)
    padded = max(given - real, 0)
    keys = [items(row) for row in rows]
    return {
        "batches": 1,
        "samples": samples,
        "padded_tokens": padded,
        "collated_tokens": max(samples * width - real - padded, 0),
        "with_ids": sum(IDS in each for each in keys),
        "with_mask": sum(MASK in each for each in keys),
        "least_length": min(length or 0 for length in lengths),
        "most_length": max(length or 0 for length in lengths),
    }


def mask_of(batch: Any) -> Any:
    """The mask of a batch as NumPy has it, samples x tokens in host memory; None if it has none."""
    torch: Any = sys.modules.get("torch")
    mask: Any = items(batch).get(MASK)
    if torch is None or type(mask) is not torch.Tensor or mask.device.type != "cpu":
        return None
    if mask.dim() != 2 or not mask.numel():
        return None
    with unseen():
        return mask.numpy()


def collates_as(collate: Any) -> str:
    """How a collate function makes batches of rows of several lengths: "pads", "fails" or "unknown"."""
    name = getattr(collate, "__name__", "") if is_a(collate, FunctionType) else type(collate).__name__
    module = collate.__module__ if is_a(collate, FunctionType) else type(collate).__module__
    if module.startswith("torch.utils.data.") or (module.startswith("transformers.") and "default" in name.lower()):
        return "fails"
    if not module.startswith("transformers."):
        return "unknown"
    return "pads" if own_attribute(collate, "tokenizer") is not None else "unknown"


def tokens_of(row: Any) -> int | None:
    """Tokens of a row, padding included; None if it has several lengths, or none."""
    own = items(row)
    if IDS in own:
        return _length(own[IDS])
    parts = list(own.values()) or (list(row) if is_a(row, tuple) else [row])
    lengths = {length for length in map(_length, parts) if length is not None}
    return lengths.pop() if len(lengths) == 1 else None


def _length(value: Any) -> int | None:
    """Elements of a list of numbers, or of a tensor or array of one dimension; None of anything else."""
    if is_a(value, list):
        return len(value) if value and is_a(value[0], int) else None
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    is_array = (torch is not None and type(value) is torch.Tensor) or (
        numpy is not None and type(value) is numpy.ndarray
    )
    return int(value.shape[0]) if is_array and len(value.shape) == 1 else None
