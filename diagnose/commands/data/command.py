"""`diagnose data`: run a command up to its training loop, and measure its input there without training."""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from diagnose.capture.command import hooked, ignores_our_hook, inherited_environment, resolved
from diagnose.capture.job import RunningCommand, exit_code_of
from diagnose.cli.command import Command, Option
from diagnose.cli.exit_status import DEFECT, INTERRUPTED
from diagnose.cli.forms import json_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.numbers import POSITIVE, Number
from diagnose.commands.data.judge import report_of
from diagnose.commands.data.measured import LoaderLeft, decoded, passed_over
from diagnose.commands.data.passes import repeated
from diagnose.commands.data.question import LoaderQuestion
from diagnose.commands.data.text import render
from diagnose.diagnosis.reading import diagnosis_in
from diagnose.errors import UserError, printable, shown_path
from diagnose.predict.run_of_diagnosis import run_of
from diagnose.probes.pipeline.asked import MEASURED, PASSED_OVER, SAMPLES, SECONDS, LoadingRequest
from diagnose.probes.protocol import FORKED_MARK, MARKS, MARKS_FOLDER, PIPELINE, PYTHON_MARK
from diagnose.trace.scratch import scratch_folder
from diagnose.trace.source import opened

_LONGEST_S = 3600.0


@click.command(
    cls=Command,
    context_settings={"allow_interspersed_args": False},
    epilog="Example:  diagnose data --step-ms 250 -- train.py",
)
@click.option(
    "--seconds",
    metavar="F",
    type=Number(1, _LONGEST_S),
    default=SECONDS,
    show_default=True,
    help="Measure for this many seconds, not counting the start of worker processes.",
)
@click.option(
    "--samples",
    metavar="N",
    type=click.IntRange(min=1),
    default=SAMPLES,
    show_default=True,
    help="Load N samples in process, in whole batches.",
)
@click.option(
    "--step-ms",
    cls=Option,
    idle_with={"run_file": ""},
    metavar="F",
    type=POSITIVE,
    help="State the time of an optimizer step that does not wait for data.",
)
@click.option(
    "--run",
    "run_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take that time from a diagnosed run (its JSON).",
)
@click.option(
    "--batches-per-step",
    metavar="N",
    type=click.IntRange(min=1),
    help="State the batches in a step (default: as in the Trainer or the run, else 1).",
)
@click.option("--loader", metavar="N", type=click.IntRange(min=1), help="Measure the N-th DataLoader that is iterated.")
@json_option()
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def data(
    ctx: click.Context,
    /,
    seconds: float,
    samples: int,
    step_ms: float | None,
    run_file: Path | None,
    batches_per_step: int | None,
    loader: int | None,
    command: tuple[str, ...],
    **given: Any,
) -> None:
    """Find the slowest stage of the input pipeline and the number of workers needed.

    COMMAND is what you would type to train: train.py ARGS, python -m PACKAGE, torchrun, accelerate launch. It runs
    until its training loop asks for the first batch. There the input is measured, nothing is trained, and the process
    ends at once, so that the job saves and reports nothing. What the command prints goes to stderr, the answer to
    stdout.

    \b
    Exit codes:
      0    measured
      2    wrong usage
      3    nothing was measured: the command succeeded, but had no training loop over a DataLoader
      70   a bug in diagnose
      126  the command cannot be executed
      127  the command is not found
      else that of the command, which ended before its training loop (128 + n if signal n ended it)
    """
    if not command:
        raise click.UsageError("No command. Put it after `--`:  diagnose data -- train.py", ctx)
    question = _question(step_ms, run_file, batches_per_step)
    argv = resolved(command)
    if option := ignores_our_hook(argv):
        raise UserError("the input cannot be measured", why=f"Python runs with {option}")
    with scratch_folder() as folder:
        content = _measured(ctx, argv, LoadingRequest(str(folder), seconds, samples, loader))
    report = report_of(decoded(content), question)
    give(report, Forms(text=partial(render, report)), given)


def _question(step_ms: float | None, run_file: Path | None, batches_per_step: int | None) -> LoaderQuestion:
    if run_file is not None:
        return question_of(run_file, batches_per_step)
    return LoaderQuestion(None if step_ms is None else step_ms / 1e3, "--step-ms" if step_ms else "", batches_per_step)


def _measured(ctx: click.Context, argv: list[str], asked: LoadingRequest) -> bytes:
    """The answer that the probe left; if it left none, end as the command did.

    Raises:
        UserError: the command ended well, and nothing was measured.
    """
    try:
        code = run_until_measured(argv, inherited_environment(), asked)
    except OSError as error:
        click.echo(f"Error: cannot run the command: {printable(argv[0])}\n  why: {error.strerror}", err=True)
        ctx.exit(exit_code_of(error))
    answer = Path(asked.out) / MEASURED
    if answer.is_file():
        return answer.read_bytes()
    if code == 0:
        raise _nothing_measured(Path(asked.out), asked)
    if code not in (INTERRUPTED, DEFECT):
        click.echo(f"diagnose: not measured: the command ended with {code} before its training loop began", err=True)
    ctx.exit(code)


def _nothing_measured(folder: Path, asked: LoadingRequest) -> UserError:
    """Why a command that ended well was not measured."""
    what = "nothing was measured"
    if why := how_far(folder):
        return UserError(what, why=why)
    seen = passed_over(folder / PASSED_OVER)
    if seen.empty:
        return UserError(what, why=f"the training DataLoader has no batch: {printable(seen.empty)}")
    listed = "; ".join(map(_left, seen.loaders))
    if asked.loader is not None:
        return UserError(what, why=f"the script iterated no {asked.loader}. DataLoader", do="name a smaller --loader")
    if seen.trains:
        return UserError(what, why="the script trains on what no torch DataLoader gives", do="feed it by a DataLoader")
    if not listed:
        return UserError(what, why="the script iterated no torch DataLoader", do="check that the command trains")
    return UserError(
        what, why=f"no training loop began; DataLoaders that were iterated: {listed}", do="pass --loader N"
    )


def _left(loader: LoaderLeft) -> str:
    """Why a loader was not measured, and that its workers repeat samples, which is known without measuring."""
    again = repeated(loader.times_repeated)
    return f"{loader.number} ({printable(loader.dataset)}): {loader.because}{f'; {again}' if again else ''}"


# The step that a loader has to keep up with, of a run that was diagnosed.


def question_of(path: Path, batches_per_step: int | None) -> LoaderQuestion:
    """The question by the output of `analyze --json` at `path`: its step without the wait for data.

    Args:
        path: the file.
        batches_per_step: what the user states; else the run's gradient accumulation.

    Raises:
        UserError: it is no diagnosis, or no step was counted.
    """
    if not path.is_file():
        raise UserError("no such file", where=path, do="make it: diagnose analyze RUN --json > run.json")
    with opened(path, "the run") as file:
        content = file.read()
    diagnosis = diagnosis_in(content, path)
    facts = {fact.name: fact.value for fact in diagnosis.facts}
    step_s = run_of(diagnosis, shown_path(path)).step_s
    waited, steps = facts.get("data_wait_share"), facts.get("accumulation_steps")
    if step_s is None:
        raise UserError("no step was counted", where=path, do="capture a few whole steps (diagnose run)")
    if isinstance(waited, int | float):
        step_s *= max(1 - waited, 0.01)
    known = round(steps) if isinstance(steps, (int, float)) and not isinstance(steps, bool) else None
    return LoaderQuestion(step_s, shown_path(path), batches_per_step or known)


# Run a training command up to its training loop, where its input is measured and it ends.

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
