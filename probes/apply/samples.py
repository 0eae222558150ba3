"""Changes that a dataset rules out: workers that would spoil its samples, and groups by length.

No sample is fetched.
"""

from __future__ import annotations

import dis
import io
import sys
from inspect import getattr_static
from types import FunctionType
from typing import Any

from ..introspection import attributes, is_a, is_table, items, own_attribute, start_method
from .reasons import Reason, Refusal
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
    method = start_method()
    if not now and method != "fork":
        return Refusal(Reason.NOT_FORKED, method)
    return None


def times_repeated(loader: Any) -> int:
    """How often a loader gives each sample: once, or by each of its workers if none has a part of its own."""
    dataset, workers = own_attribute(loader, "dataset"), own_attribute(loader, "num_workers")
    if type(workers) is not int or workers < 2 or not is_iterable(dataset):
        return 1
    return 1 if splits_by_worker(dataset, own_attribute(loader, "worker_init_fn")) else workers


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


# The names in a sample of a dataset, if they can be read without fetching one.


def keys_of(data: Any, depth: int = _DEPTH) -> Any:
    """The names; empty if a sample is no dictionary, None if only fetching one would show them."""
    if type(data) in (list, tuple):
        return list(items(data[0])) if data else []
    if is_table(data):
        return None if data.format.get("type") == "custom" else data.column_names
    if not depth:
        return None
    if not type(data).__module__.startswith("torch.utils.data."):
        return _given_by(data, depth - 1)
    kind, parts = type(data).__name__, own_attribute(data, "datasets")
    if kind == "ConcatDataset" and parts:
        return keys_of(parts[0], depth - 1)
    return (
        []
        if kind == "TensorDataset"
        else keys_of(own_attribute(data, "dataset"), depth - 1)
        if kind == "Subset"
        else None
    )


def _given_by(data: Any, depth: int) -> Any:
    """The names by the code that returns a sample: a dictionary or tuple display, or an item of a held dataset."""
    method = getattr_static(type(data), "__getitem__", None)
    if not is_a(method, FunctionType):
        return None
    code = list(dis.get_instructions(method))
    names = [each.opname for each in code]
    if names.count("RETURN_VALUE") != 1:
        return None
    if names[-3:] == ["LOAD_CONST", "BUILD_CONST_KEY_MAP", "RETURN_VALUE"]:
        return [*code[-3].argval]
    if names[-2:] == ["BUILD_TUPLE", "RETURN_VALUE"]:
        return []
    read, calls = method.__code__.co_names, any(name.startswith("CALL") for name in names)
    only_an_item = names[-2:] == ["BINARY_SUBSCR", "RETURN_VALUE"] and len(read) == 1 and not calls
    return keys_of(own_attribute(data, read[0]), depth) if only_an_item else None
