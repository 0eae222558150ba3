"""Of several ranks one logs the figures: only to loggers of which it is known that they wait for no other rank."""

from types import SimpleNamespace
from typing import Any

import pytest

from diagnose.probes.reporting.report import Report


class Logger:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.got: list[dict[str, float]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **more: Any) -> None:
        self.got.append(logs)


class OfTransformers(Logger):
    """As WandbCallback is one."""

    __module__ = "transformers.integrations.integration_utils"


class OfTheJob(Logger):
    """Would wait for the other ranks."""


class Trainer(SimpleNamespace):
    """What a report asks of one."""


@pytest.mark.parametrize("ranks", [2, 64])
def test_callbacks_of_the_job_hear_nothing_that_the_other_ranks_do_not(ranks: int) -> None:
    theirs, own = OfTransformers(), OfTheJob()
    trainer = Trainer(
        args=SimpleNamespace(world_size=ranks),
        state=SimpleNamespace(epoch=0.5, log_history=[]),
        control=None,
        model=None,
        callback_handler=SimpleNamespace(callbacks=[own, theirs]),
    )
    report = Report(SimpleNamespace(outcome=SimpleNamespace(written=[])))  # type: ignore[arg-type]
    report.is_of(trainer)

    report._log({"diagnose/step_ms": 12.0})

    assert theirs.got == [{"diagnose/step_ms": 12.0, "epoch": 0.5}]
    assert own.got == []
    assert trainer.state.log_history == []
