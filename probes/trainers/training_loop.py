"""Report the loop of a trainer to the session: that it begins, that a step has ended, that the loop has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..current_session import session
from ..frameworks import Framework
from ..hooks.accelerate_hooks import wrap_accelerate
from ..hooks.loader_hooks import watch_loaders
from ..introspection import own_attribute
from ..protocol import BY_TRAINER
from ..recording.ranges import wrap_method
from ..session import Session

_MOST_AROUND = 4  # optimizers that hold another: accelerate's, DeepSpeed's


def watch(trainer: type, ranges: Mapping[str, str]) -> None:
    """Put the methods that `trainer` itself defines inside ranges, by name, and look at the loaders of the process."""
    watch_loaders()
    wrap_accelerate()
    wrap_methods(trainer, ranges)


def wrap_methods(trainer: type, ranges: Mapping[str, str]) -> None:
    """Wrap methods as `watch` does, for a subclass that overrides some of them."""
    for method, name in ranges.items():
        wrap_method(trainer, method, name)


def begins(
    current: Session,
    framework: Framework,
    *,
    model: object,
    optimizer: object,
    loader: object,
    settings: Callable[[], dict[str, object]],
    steps: int | None,
    done: int = 0,
) -> None:
    """Begin a loop of `steps` optimizer steps (None: unknown).

    Args:
        current: the session.
        framework: what runs the loop.
        model: as it trains, with or without wrappers; None when it is not known, like the two that follow.
        optimizer: torch's, or one of accelerate's and DeepSpeed's around it.
        loader: of the training batches.
        settings: returns the trainer's settings under the names that `training_arguments` has in the record.
        steps: optimizer steps that are left.
        done: those that the trainer counts before them, if it resumes a training.
    """
    objects = current.objects
    objects.loop, objects.logs_figures, objects.arguments = framework.name, framework.logs_figures, settings
    objects.loop_begins()
    objects.note("model", model)
    objects.note("optimizer", _innermost(optimizer))
    if loader is not None:
        objects.note_loader(loader)
    wrap_accelerate()
    current.loop_begins(BY_TRAINER, steps, done)


def _innermost(optimizer: object) -> object:
    for _ in range(_MOST_AROUND):
        inner = own_attribute(optimizer, "optimizer")
        if inner is None:
            break
        optimizer = inner
    return optimizer


def step_ended(current: Session | None) -> bool:
    """End an optimizer step; whether training is to stop."""
    if current is None or current.source != BY_TRAINER:
        return False
    current.step_ended()
    return current.stop_asked


def ends(current: Session | None, *, broke: bool = False) -> None:
    """End the training; it `broke` if by an exception, which the job handles first."""
    if current is not None and current.source == BY_TRAINER:
        current.loop_ended("training ended", broke=broke)


def ending_the_window(train: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run the method `train` so that the window ends however training ends."""
    try:
        result = train(*args, **kwargs)
    except BaseException:
        ends(session(), broke=True)
        raise
    ends(session())
    return result
