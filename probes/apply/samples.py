"""Changes that a dataset rules out: workers that would spoil its samples, and groups by length.

No sample is fetched.
"""

from __future__ import annotations

import io
import multiprocessing
import sys
from typing import Any

from ..introspection import attributes, is_a
from .reasons import Reason, Refusal
from .sample_keys import is_table, keys_of
from .worker_split import splits_by_worker

_READ_BY_POSITION = ("h5py", "lmdb", "sqlite3", "zipfile", "tarfile")
_LOOKED_INTO = 16  # of a list
_DEPTH = 3


def workers_refused(dataset: Any, now: int, *functions: Any) -> Refusal | None:
    """Why worker processes cannot be given to a loader that has `now` of them; None when they can.

    `functions` are those that its workers run before they load.
    """
    if is_iterable(dataset):
        splits = splits_by_worker(dataset, *functions)
        return Refusal(Reason.SPLIT_OTHERWISE if splits else Reason.REPEATED)
    if holds_device_tensors(dataset):
        return Refusal(Reason.ON_A_DEVICE)
    method = multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    if not now and method != "fork":
        return Refusal(Reason.NOT_FORKED, method)
    return None


def is_iterable(dataset: Any) -> bool:
    """Whether it gives its samples in an order of its own."""
    return bool(is_a(dataset, sys.modules["torch"].utils.data.IterableDataset))


def holds_device_tensors(dataset: Any) -> bool:
    """Whether an attribute of the dataset, or an element of one, is a tensor outside host memory."""
    torch: Any = sys.modules["torch"]
    values = list(attributes(dataset).values())
    for value in list(values):
        if type(value) in (list, tuple):
            values += value[:_LOOKED_INTO]
    return any(is_a(value, torch.Tensor) and value.device.type != "cpu" for value in values)


def open_file(dataset: Any, depth: int = _DEPTH) -> Refusal | None:
    """Why workers cannot read what the dataset, or one inside it, holds open; None if it holds nothing open."""
    for name, value in attributes(dataset).items():
        if _is_read_by_position(value):
            return Refusal(Reason.OPEN_FILE, name)
        within = value if type(value) in (list, tuple) else (value,)
        for inner in within[:_LOOKED_INTO] if depth else ():
            refusal = open_file(inner, depth - 1)
            if refusal:
                return refusal
    return None


def _is_read_by_position(value: Any) -> bool:
    if type(value).__module__ != "_io":
        return type(value).__module__.split(".")[0] in _READ_BY_POSITION
    return not is_a(value, io.BytesIO, io.StringIO) and not value.closed and value.readable()


def grouping_refused(data: Any, length: str | None, inputs: str) -> Refusal | None:
    """Why samples cannot be grouped by length; None if the lengths of all are at hand.

    They are in a table of datasets with a column `length`, or are those of `inputs`, in such a table or in a list. The
    sampler goes through anything else by `for`, which computes each sample, and has no end without an IndexError.
    """
    if is_iterable(data):
        return Refusal(Reason.STREAM_NOT_GROUPED)
    if is_table(data) and length in data.column_names:
        return None
    keys = keys_of(data)
    if keys is not None and inputs not in keys:
        return Refusal(Reason.NO_LENGTHS, inputs)
    return None if keys is not None and (type(data) in (list, tuple) or is_table(data)) else Refusal(Reason.UNLISTED)
