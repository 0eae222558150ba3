"""Detect the begin of a training loop: at the first batch of its DataLoader, measure the input and end the process.

The training loop differs from others (an evaluation, statistics over the data) by an optimizer, gradients, and a model
that is not set to evaluate. A loop that escapes this is caught by the first step of an optimizer, before it is made.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

from ..apply.recorded import Refusals
from ..apply.samples import times_repeated
from ..config import rank_and_world_size
from ..facts.model import module_of
from ..guard import guarded, quietly, say
from ..hand_over import before_optimizer_steps, replace
from ..introspection import inner_loader, own_attribute
from .asked import PASSED_OVER, LoadingRequest, from_environment
from .ending import DEFECT, end
from .measurement import measure

MOST_PASSED_OVER = 20
_NOT_MEASURED = "the input is not measured"
refusals = Refusals()
_asked: LoadingRequest | None = None
_owner = 0
_measuring = False
_passed_over: list[dict[str, Any]] = []
_last: Any = None
_order: list[int] = []
_alive: list[Any] = []  # a freed loader could pass its id to another


def install() -> None:
    """Watch the DataLoaders of this process that are iterated, and the steps of optimizers."""
    global _asked, _owner
    _asked, _owner = from_environment(), os.getpid()
    if _asked is None:
        return
    from torch.utils.data import dataloader

    kind: Any = dataloader.DataLoader
    if not hasattr(kind.__iter__, "__diagnose__"):
        replace(kind, "__iter__", _noting, _NOT_MEASURED)
        before_optimizer_steps(lambda *_: _or_the_end(_before_step), _NOT_MEASURED)


def loop_begins(loader: Any, loop: str, batches_per_step: int | None = None) -> None:
    """Measure the loader of a training loop, and end the process; ranks other than the first only end.

    Args:
        loader: torch's DataLoader, or accelerate's around it.
        loop: the library that runs the loop, in words.
        batches_per_step: that one optimizer step takes, if it is known.

    Raises:
        Exception: what the job's own dataset or collate function raises at the first batch.
    """
    global _measuring
    if not wanted() or _asked is None or _asked.loader is not None:
        return
    _measuring = True
    _or_the_end(lambda: _measure(loader, loop, batches_per_step))


def wanted() -> bool:
    """Whether this process still waits for a loop to measure; its forks, such as a loader's workers, never do."""
    return _asked is not None and _owner == os.getpid() and not _measuring


def _measure(loader: Any, loop: str, batches_per_step: int | None) -> None:
    assert _asked is not None
    rank, _ = rank_and_world_size()
    if rank:
        end(0)
    measure(_asked, inner_loader(loader), loop, batches_per_step, refusals)


def _or_the_end(call: Callable[[], object]) -> None:
    """Run a part of the measurement; if it fails, end the process, since a job that is only measured must not train."""
    if not guarded(call, _NOT_MEASURED):
        end(DEFECT)


def _noting(original: Any, loader: Any) -> Any:
    if wanted():
        _or_the_end(lambda: _iterated(loader))
    return original(loader)


def _iterated(loader: Any) -> None:
    global _measuring, _last
    assert _asked is not None
    if id(loader) not in _order:
        _order.append(id(loader))
        _alive.append(loader)
    number = _order.index(id(loader)) + 1
    if _asked.loader is not None:
        if number == _asked.loader:
            _measuring = True
            _measure(loader, f"DataLoader {number} of the script", None)
        return
    why_not = quietly(_why_no_training)
    if not why_not:
        loop_begins(loader, "the script's loop")
        return
    _last = loader
    _pass_over(number, loader, str(why_not))


def _why_no_training() -> str:
    """The reason why this is no training loop; "" if it is one."""
    import torch

    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        return "gradients are off"
    optimizers = [each for each in gc.get_objects() if issubclass(type(each), torch.optim.Optimizer)]
    if not optimizers:
        return "there is no optimizer yet"
    models = [module for module in map(module_of, optimizers) if module is not None]
    if models and all(own_attribute(module, "training") is False for module in models):
        return "the model is set to evaluate"
    return ""


def _pass_over(number: int, loader: Any, because: str) -> None:
    """Record a loader that is iterated and not measured, for a script that ends without a training loop."""
    assert _asked is not None
    asked = _asked
    if len(_passed_over) < MOST_PASSED_OVER:
        dataset = type(own_attribute(loader, "dataset")).__name__
        times = quietly(lambda: times_repeated(loader))
        told = {"number": str(number), "dataset": dataset, "because": because, "times_repeated": times or 1}
        _passed_over.append(told)
        quietly(lambda: asked.write(PASSED_OVER, {"loaders": _passed_over}))


def _before_step() -> None:
    """Measure the DataLoader that was iterated last, since the script trains; without one, end the process."""
    if not wanted() or _asked is None or _asked.loader is not None:
        return
    if _last is not None:
        loop_begins(_last, "the script's loop")
    asked = _asked
    quietly(lambda: asked.write(PASSED_OVER, {"loaders": _passed_over, "trains": True}))
    say("an optimizer step begins, and no DataLoader was iterated before: there is no pipeline to measure")
    sys.stdout.flush()
    end(0)
