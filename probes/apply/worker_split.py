"""Whether an IterableDataset gives each loader worker a part of its own: its code asks which worker it runs in.

The code is only read, never run: that of the dataset, of the datasets and functions it holds, and of the functions that
these name.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ..introspection import attributes, is_a, own_attribute

_ASKS = "get_worker_info"
_SPLITS = "ShardingFilterIterDataPipe"  # torch splits the data of a pipe that has one
_MOST = 4000  # functions and objects to visit, at most
_LOOKED_INTO = 64  # of a list
_OF_PYTHON = ("builtins", "typing", "abc", "collections", "functools", "contextlib")
_ELSEWHERE = (*_OF_PYTHON, "torch", "numpy", "transformers", "tokenizers", "accelerate", "trl", "peft")  # ask to seed


def splits_by_worker(dataset: Any, *functions: Any) -> bool:
    """Whether the dataset, or one of the job's `functions` that a worker runs first, asks for the worker."""
    waiting: deque[Any] = deque((dataset, *functions))
    visited: dict[int, Any] = {}
    while waiting and len(visited) < _MOST:
        thing = waiting.popleft()  # the nearest to the dataset first
        if id(thing) in visited:
            continue
        visited[id(thing)] = thing  # a freed object could pass its id to another
        if type(thing).__name__ == _SPLITS or (is_a(thing, FunctionType) and _ASKS in _names(thing.__code__)):
            return True
        waiting += _within(thing, dataset)
    return False


def _within(thing: Any, dataset: Any) -> Iterator[Any]:
    if is_a(thing, FunctionType):
        yield from _named(thing)
    elif is_a(thing, MethodType):
        yield from (thing.__func__, thing.__self__)
    elif is_a(thing, partial):
        yield thing.func
    elif is_a(thing, type):
        yield from _functions_of(thing)
    elif is_a(thing, list, tuple):
        yield from thing[:_LOOKED_INTO]
    elif _is_data(thing) or _package(type(thing)) == _package(type(dataset)):
        yield type(thing)
        yield from attributes(thing).values()


def _is_data(thing: Any) -> bool:
    return is_a(thing, sys.modules["torch"].utils.data.Dataset)


def _functions_of(kind: type) -> Iterator[Any]:
    for each in type.mro(kind):
        if _package(each) not in _ELSEWHERE:
            for value in vars(each).values():
                inner = value.fget if is_a(value, property) else getattr(value, "__func__", value)
                if is_a(inner, FunctionType):
                    yield inner


def _named(function: FunctionType) -> Iterator[Any]:
    """Functions and classes that a function refers to, in its module or an imported one, and what it closes over."""
    names, here = _names(function.__code__), function.__globals__
    for name in names:
        thing = here.get(name)
        inside = [vars(thing).get(other) for other in names] if is_a(thing, ModuleType) else [thing]
        yield from (one for one in inside if is_a(one, FunctionType, type) and _package(one) not in _ELSEWHERE)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue
    if (wrapped := own_attribute(function, "__wrapped__")) is not None:
        yield wrapped


def _names(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if is_a(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _package(thing: Any) -> str:
    module = getattr(thing, "__module__", None)
    return module.split(".")[0] if type(module) is str else ""
