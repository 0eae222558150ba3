"""Patches of torch's DataLoader: workers, and what they need, where the samples stay those that the job asks for."""

from __future__ import annotations

import io
from typing import Any

from ..config import rank_and_world
from ..guard import quietly, say
from ..held import attributes, is_a
from . import loader_order
from .constructors import holds_device_tensors, patched_init, values_for, workers_refused
from .device import gpu_is_there
from .job_patch import JobPatch, job_patch
from .loader_trial import tried

_READ_BY_POSITION = ("h5py", "lmdb", "sqlite3", "zipfile", "tarfile")
_LOOKED_INTO = 16  # of a list
_ORDER = ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory")
_LATER_PASSES = "later passes would come in another order: workers that persist save a draw from the generator"
_ANOTHER_ORDER = (
    "a sample draws from torch's generator, and so does the order of the next pass: give the DataLoader a generator of "
    "its own, or type it"
)
_KEEPS_A_STATE = (
    "the same sample comes out differently a second time: the dataset keeps a state, and workers have copies"
)
_OTHER_DRAWS = (
    "loader workers draw the random numbers of the samples from seeds of their own: other draws, alike in kind"
)


def install() -> None:
    """Patch the DataLoaders that are made from now on."""
    from torch.utils.data import DataLoader

    patch = job_patch()
    if patch is not None and values_for(patch, "dataloader"):
        loader_order.install(DataLoader)
        patched_init(DataLoader, "dataloader", _chosen)


def _chosen(patch: JobPatch, given: dict[str, Any]) -> dict[str, Any]:
    """The values that this loader takes; the rest is refused."""
    wanted = values_for(patch, "dataloader")
    if loader_order.keep_as_before(given["self"], given):
        return {key: value for key, value in wanted.items() if given[key] == value}
    chosen: dict[str, Any] = {}
    for key in (key for key in _ORDER if key in wanted):
        because = _refused(key, wanted[key], {**given, **chosen}, given)
        if because:
            patch.refuse("dataloader", key, because)
        else:
            chosen[key] = wanted[key]
    persists = bool(chosen.get("persistent_workers")) and not given["persistent_workers"]
    if persists or chosen.get("num_workers", given["num_workers"]) != given["num_workers"]:
        loader_order.keep(given["self"], persists)
    return chosen


def _refused(key: str, value: Any, now: dict[str, Any], given: dict[str, Any]) -> str:
    if key == "pin_memory":
        return _pinning_refused(now["dataset"]) if value else ""
    if value == given[key]:
        return ""
    if key == "num_workers" and not value:
        needed = "the job's persistent_workers or prefetch_factor need workers"
        return needed if _needs_workers(given) else _moved(given, 0)
    if key == "num_workers":
        return workers_refused(now["dataset"], now["num_workers"]) or _moved(given, value)
    if value and not now["num_workers"]:
        return "it needs num_workers above 0"
    if key == "persistent_workers":
        return _persistence_refused(value, now)
    return loader_order.draws_as_it_goes(given)


def _moved(given: dict[str, Any], workers: int) -> str:
    """Why samples cannot be fetched in other processes than the job fetches them in; empty when they can.

    What samples draw moves the order of the next pass only where they are fetched in the process of the loop.
    """
    because = loader_order.draws_as_it_goes(given) or _open_file(given["dataset"])
    if because:
        return because
    trial = tried(given)
    if trial.error:
        return f"whether a sample can be fetched in a worker is not known: {trial.error}"
    if not trial.repeats:
        return _KEEPS_A_STATE
    in_the_loop = not (given["num_workers"] and workers)
    if "torch" in trial.draws and in_the_loop and loader_order.follows_torch(given):
        return _ANOTHER_ORDER
    if trial.draws:
        _say_once(_OTHER_DRAWS)
    return ""


def _open_file(dataset: Any, depth: int = 3) -> str:
    """Why workers cannot read what the dataset, or one inside it, holds open; empty where it holds nothing open."""
    for name, value in attributes(dataset).items():
        if _is_read_by_position(value):
            return f"the dataset holds a file open ({name}), whose position its workers would share"
        within = value if type(value) in (list, tuple) else (value,)
        for inner in within[:_LOOKED_INTO] if depth else ():
            because = _open_file(inner, depth - 1)
            if because:
                return because
    return ""


def _is_read_by_position(value: Any) -> bool:
    if type(value).__module__ != "_io":
        return type(value).__module__.split(".")[0] in _READ_BY_POSITION
    return not is_a(value, io.BytesIO, io.StringIO) and not value.closed and value.readable()


def _persistence_refused(value: Any, now: dict[str, Any]) -> str:
    import torch

    if not value:
        return _LATER_PASSES
    streams = isinstance(now["dataset"], torch.utils.data.IterableDataset)
    return "the copies of an IterableDataset would go on where the pass before left them" if streams else ""


def _needs_workers(given: dict[str, Any]) -> bool:
    return bool(given.get("persistent_workers")) or given.get("prefetch_factor") is not None


def _pinning_refused(dataset: Any) -> str:
    if holds_device_tensors(dataset):
        return "the dataset holds tensors of a device"
    return "" if gpu_is_there() else "there is no GPU to pin for"


def _say_once(line: str) -> None:
    if line not in _said:
        _said.add(line)
        if not quietly(lambda: rank_and_world()[0]):
            say(line)


_said: set[str] = set()
