"""`diagnose trigger`: a window in a job that runs armed, now."""

import os
import time
from pathlib import Path

import click

from diagnose.cli.command import Command
from diagnose.cli.numbers import Number
from diagnose.errors import UserError
from diagnose.probes.bundle.claim import json_object
from diagnose.probes.protocol import ANNOUNCED, SCRATCH, TRIGGER
from diagnose.series.places import step_logs

_POLL_EVERY_S = 0.1


@click.command(cls=Command, epilog="Example:  diagnose trigger diagnose-runs/2026-01-02_03-04-05")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--wait",
    metavar="S",
    type=Number(min=0),
    default=15.0,
    help="Wait at most S seconds for the job to answer at which step the window opens (default: 15).",
)
def trigger(run: Path, wait: float) -> None:
    """Record a few steps now, in a job started with `diagnose run --arm`.

    RUN is the folder of that job. All ranks record the same steps; their traces are written to RUN/step-K.
    """
    scratch = run / SCRATCH
    if not step_logs(run):
        raise UserError("no armed run", where=run, do="name the folder of a job that runs under: diagnose run --arm")
    if not scratch.is_dir():
        raise UserError("the run has ended", where=run, do=f"diagnose analyze {run}")
    before = _announced(scratch)
    try:
        os.close(os.open(scratch / TRIGGER, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o666))
    except OSError as error:
        raise UserError("cannot ask for a window", where=scratch, why=error.strerror or str(error)) from error
    until = time.monotonic() + wait
    while time.monotonic() < until:
        if new := sorted(_announced(scratch) - before):
            click.echo(f"a window opens at step {new[-1]}: {run}/step-{new[-1]}")
            return
        time.sleep(_POLL_EVERY_S)
    click.echo("asked; the job has not answered yet", err=True)


def _announced(scratch: Path) -> set[int]:
    told = (json_object(scratch / ANNOUNCED) or {}).get("windows")
    entries = [entry for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []
    return {step for entry in entries if isinstance(step := entry.get("step"), int)}
