"""The names in a sample of a dataset, if they can be read without fetching one."""

from __future__ import annotations

import dis
from inspect import getattr_static
from types import FunctionType
from typing import Any

from ..introspection import is_a, items, own_attribute

_DEPTH = 3


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


def is_table(data: Any) -> bool:
    """Whether it is a Dataset of the library datasets, whose columns are known."""
    return type(data).__module__.startswith("datasets.") and type(data).__name__ == "Dataset"


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
