"""Follow the command of `diagnose run` while it runs: its capture, whether it stands still, what is found."""

import contextlib
import os
from collections.abc import Iterator
from typing import Protocol

from diagnose.capture.bundle import Bundle
from diagnose.capture.job import RunningCommand
from diagnose.cli.voice import guarded
from diagnose.commands.run.hang_stacks import hang_stacks
from diagnose.commands.run.live_findings import RunFindings, StandstillFindings
from diagnose.commands.run.outputs import Outputs
from diagnose.commands.run.reporter import POLL_EVERY_S
from diagnose.probes.config import Config


class Beside(Protocol):
    """Something to look at while the command runs, until it is done; `failing` is what a failure of it means."""

    failing: str

    @property
    def done(self) -> bool:
        """Whether there is nothing to look at."""

    def look(self) -> None:
        """Look at it."""


def followed(job: RunningCommand, *beside: Beside | None) -> int:
    """Follow the capture, watch for a standstill, pass on findings, while the command runs; return its exit code."""
    each = [one for one in beside if one is not None]
    with job.forwarding():
        while (left := [one for one in each if not one.done]) and job.runs(POLL_EVERY_S):
            for one in left:
                guarded(one.look, one.failing)
        return job.exit_code()


def watchers(bundle: Bundle | None, config: Config, least_s: float | None, outputs: Outputs | None) -> Iterator[Beside]:
    """All that is looked at besides the capture: whether the job stands still, and its findings for `outputs`."""
    if (stacks := hang_stacks(bundle, config, least_s)) is not None:
        yield stacks
    command = outputs.on_finding if outputs is not None else None
    if command is None or bundle is None:
        return
    yield command
    if config.armed is not None:
        with contextlib.suppress(OSError):
            os.nice(10)  # the job goes on
        yield StandstillFindings(bundle.folder, least_s, command)
        yield RunFindings(bundle.folder, command)
