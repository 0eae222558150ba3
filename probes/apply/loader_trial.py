"""Find out what fetching samples does to the process, with two samples in a fork, so that the job keeps its state.

A loader's workers are copies of the process. If a dataset draws from the generators of the process, or keeps something
between two samples, each copy does so on its own; no attribute shows whether it does, but a fetch does.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import select
import signal
import sys
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..guard import described
from ..introspection import items

SAMPLES = 2
PATIENCE_S = 30.0
_OF_A_LOADER = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn", "drop_last", "generator")
_READ_BYTES = 4096


class FetchTrial(NamedTuple):
    """The result of fetching the same samples twice.

    Attributes:
        draws: generators of the process that a fetch draws from: "torch", "random", "numpy".
        repeats: whether the second fetch gave the same, with the generators set back.
        error: why the result is not known; empty if it is known.
        raised: whether `error` is an exception raised by fetching or sending a sample.
    """

    draws: tuple[str, ...] = ()
    repeats: bool = True
    error: str = ""
    raised: bool = False


def tried(arguments: Mapping[str, Any]) -> FetchTrial:
    """Fetch the first samples of a DataLoader with these arguments twice, in a fork."""
    if not hasattr(os, "fork"):
        return FetchTrial(error="this system forks no process to try a sample in")
    try:
        reading, writing = os.pipe()
    except OSError as error:
        return FetchTrial(error=f"no sample can be tried: {described(error)}")
    try:
        child = _forked()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        return FetchTrial(error=f"no sample can be tried: {described(error)}")
    if not child:
        _try_and_leave(arguments, reading, writing)
    os.close(writing)
    try:
        return _answer(reading)
    finally:
        os.close(reading)
        _ended(child)


def _forked() -> int:
    with warnings.catch_warnings():  # of forking in a process with threads, as workers do, too
        warnings.simplefilter("ignore")
        return os.fork()


def _answer(reading: int) -> FetchTrial:
    if not select.select([reading], [], [], PATIENCE_S)[0]:
        return FetchTrial(error=f"no sample came within {PATIENCE_S:.0f} s")
    text = os.read(reading, _READ_BYTES)
    if not text:
        return FetchTrial(error="fetching a sample ended the process that tried it")
    draws, *others = json.loads(text)
    return FetchTrial(tuple(draws), *others)


def _ended(child: int) -> None:
    """Kill the child and wait for it; a job that ignores SIGCHLD has nothing to wait for."""
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ChildProcessError, ProcessLookupError):
        return


def _try_and_leave(arguments: Mapping[str, Any], reading: int, writing: int) -> None:
    """Run in the fork: answer in one write, and end without the job's exit handlers."""
    try:
        os.close(reading)
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        try:
            answer = _shown(arguments)
        except BaseException as error:
            answer = FetchTrial(error=described(error), raised=True)
        os.write(writing, json.dumps(answer).encode()[:_READ_BYTES])
    finally:
        os._exit(0)


def _shown(arguments: Mapping[str, Any]) -> FetchTrial:
    torch: Any = sys.modules["torch"]
    torch.set_num_threads(1)  # the threads of the parent are not there
    loader = torch.utils.data.DataLoader(**{name: arguments[name] for name in _OF_A_LOADER})
    indices = next(iter(loader._index_sampler))
    before = _states()
    first = _fetched(loader, indices)
    draws = [name for name, state in _states().items() if not _same(state, before[name])]
    _set_back(before)
    second = _fetched(loader, indices)
    pickle.dumps(first)
    return FetchTrial(tuple(draws), _same(first, second))


def _fetched(loader: Any, indices: Any) -> Any:
    data = loader.dataset
    if loader.batch_sampler is None:
        return loader.collate_fn(data[indices])
    some = list(indices)[:SAMPLES]
    several = getattr(data, "__getitems__", None)
    return loader.collate_fn(several(some) if several else [data[index] for index in some])


def _states() -> dict[str, Any]:
    """The state of each generator that a process has one of."""
    numpy: Any = sys.modules.get("numpy")
    states = {"torch": sys.modules["torch"].get_rng_state(), "random": random.getstate()}
    return states if numpy is None else {**states, "numpy": numpy.random.get_state()}


def _set_back(states: Mapping[str, Any]) -> None:
    sys.modules["torch"].set_rng_state(states["torch"])
    random.setstate(states["random"])
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])


def _same(one: Any, other: Any) -> bool:
    """Whether two batches hold the same; values without comparable parts count as the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (str, bytes, int, float, type(None))):
        return one == other or (one != one and other != other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if hasattr(one, "shape") and hasattr(one, "dtype"):
        return bool(one.shape == other.shape and ((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, dict) or items(one):
        left, right = items(one), items(other)
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return not vars(one) or _same(vars(one), vars(other)) if hasattr(one, "__dict__") else True
