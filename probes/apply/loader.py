"""Patches of torch's DataLoader: workers and their settings, if the samples stay those that the job asks for."""

from __future__ import annotations

from typing import Any

from ..config import rank_and_world_size
from ..guard import quietly, say
from . import loader_order
from .constructors import patched_init, values_for
from .job_patch import JobPatch, job_patch
from .loader_trial import tried
from .of_loader import ORDER, TARGET, refused
from .reasons import Reason, Refusal

_OTHER_DRAWS = (
    "loader workers draw the random numbers of the samples from seeds of their own: other draws, alike in kind"
)


def install() -> None:
    """Patch the DataLoaders that are made from now on."""
    from torch.utils.data import DataLoader

    patch = job_patch()
    if patch is not None and values_for(patch, TARGET):
        loader_order.install(DataLoader)
        patched_init(DataLoader, TARGET, _chosen)


def _chosen(patch: JobPatch, given: dict[str, Any]) -> dict[str, Any]:
    """The values that this loader takes; the rest is refused."""
    wanted = values_for(patch, TARGET)
    if loader_order.keep_as_before(given["self"], given):
        return {key: value for key, value in wanted.items() if given[key] == value}
    chosen: dict[str, Any] = {}
    for key in (key for key in ORDER if key in wanted):
        refusal = _refused(key, wanted[key], {**given, **chosen}, given)
        if refusal:
            patch.refuse(TARGET, key, refusal)
        else:
            chosen[key] = wanted[key]
    persists = bool(chosen.get("persistent_workers")) and not given["persistent_workers"]
    if persists or chosen.get("num_workers", given["num_workers"]) != given["num_workers"]:
        loader_order.keep(given["self"], persists)
    return chosen


def _refused(key: str, value: Any, now: dict[str, Any], given: dict[str, Any]) -> Refusal | None:
    refusal = refused(key, value, now, given)
    if refusal or key != "num_workers" or value == given[key]:
        return refusal
    return _shown_by_a_trial(given, value)


def _shown_by_a_trial(given: dict[str, Any], workers: int) -> Refusal | None:
    """Why samples cannot be fetched elsewhere, by fetching some; None when they can.

    What samples draw moves the order of the next pass only if they are fetched in the process of the loop.
    """
    trial = tried(given)
    if trial.error:
        return Refusal(Reason.NOT_FETCHED if trial.raised else Reason.NOT_TRIED, trial.error)
    if not trial.repeats:
        return Refusal(Reason.KEEPS_A_STATE)
    in_the_loop = not (given["num_workers"] and workers)
    if "torch" in trial.draws and in_the_loop and loader_order.follows_torch(given):
        return Refusal(Reason.ANOTHER_ORDER)
    if trial.draws:
        _say_once(_OTHER_DRAWS)
    return None


def _say_once(line: str) -> None:
    if line not in _said:
        _said.add(line)
        if not quietly(lambda: rank_and_world_size()[0]):
            say(line)


_said: set[str] = set()
