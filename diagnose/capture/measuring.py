"""Run a training command up to its training loop, where its input is measured and it ends."""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from diagnose.capture.command import hooked
from diagnose.capture.job import RunningCommand
from diagnose.probes.pipeline.asked import MEASURED, LoadingRequest
from diagnose.probes.protocol import FORKED_MARK, MARKS, MARKS_FOLDER, PIPELINE, PYTHON_MARK

_POLL_EVERY_S = 0.2
_ENDS_WITHIN_S = 20.0  # ranks and launchers, once rank 0 has left its answer
_DIES_WITHIN_S = 10.0


def run_until_measured(argv: Sequence[str], inherited: Mapping[str, str], asked: LoadingRequest) -> int:
    """Run the command and return its exit code; end it if it still runs after it has left its answer.

    Its output goes to stderr: stdout is for the answer.

    Raises:
        OSError: the command cannot be executed.
    """
    marks = Path(asked.out) / MARKS_FOLDER
    marks.mkdir()
    env = hooked(inherited, {PIPELINE: asked.to_json(), MARKS: str(marks)})
    job = RunningCommand(argv, env, stdout=_stderr())
    answer = Path(asked.out) / MEASURED
    with job.forwarding():
        while job.runs(_POLL_EVERY_S):
            if answer.exists():
                if job.runs(_ENDS_WITHIN_S):
                    job.end(_DIES_WITHIN_S)
                break
        return job.exit_code()


def how_far(folder: Path) -> str:
    """Why no measurement can exist, by the marks of the hooked processes; "" if torch was imported."""
    reached = {path.name for path in (folder / MARKS_FOLDER).iterdir()}
    if PYTHON_MARK not in reached:
        return (
            "no Python process of the command could be hooked: PYTHONPATH did not reach it "
            "(a container, `srun --export=NONE`, a host without this folder), or Python runs with -I, -E or -S"
        )
    if "torch" in reached:
        return ""
    spawned = "; children of multiprocessing are not followed: start ranks with torchrun"
    return f"no Python process of the command imported torch{spawned if FORKED_MARK in reached else ''}"


def _stderr() -> int | None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return sys.stderr.fileno()
    return None
