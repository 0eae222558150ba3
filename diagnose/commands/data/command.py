"""`diagnose data`: run a command up to its training loop, and measure its input there without training."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from diagnose.capture.command import ignores_our_hook, inherited_environment, resolved
from diagnose.capture.job import exit_code_of
from diagnose.capture.measuring import how_far, run_until_measured
from diagnose.cli.command import Command, Option
from diagnose.cli.exit_status import DEFECT, INTERRUPTED
from diagnose.cli.forms import json_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.numbers import POSITIVE, Number
from diagnose.commands.data.judge import report_of
from diagnose.commands.data.measured import decoded, passed_over
from diagnose.commands.data.of_diagnosis import question_of
from diagnose.commands.data.question import LoaderQuestion
from diagnose.commands.data.text import render
from diagnose.errors import UserError, printable
from diagnose.probes.pipeline.asked import MEASURED, PASSED_OVER, SAMPLES, SECONDS, LoadingRequest
from diagnose.trace.scratch import scratch_folder

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
    help="Load at most N samples in process.",
)
@click.option(
    "--step-ms",
    cls=Option,
    idle_with={"run_file": ""},
    metavar="F",
    type=POSITIVE,
    help="Time of an optimizer step that does not wait for data.",
)
@click.option(
    "--run",
    "run_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A diagnosed run (its JSON), to take that time from.",
)
@click.option(
    "--batches-per-step",
    metavar="N",
    type=click.IntRange(min=1),
    help="Batches in a step (default: what the Trainer or the run says, else 1).",
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
    """Say how fast each stage of the input is, which is the slowest, and how many workers a step needs.

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
    listed = "; ".join(f"{each.number} ({printable(each.dataset)}): {each.because}" for each in seen.loaders)
    if asked.loader is not None:
        return UserError(what, why=f"the script iterated no {asked.loader}. DataLoader", do="name a smaller --loader")
    if seen.trains:
        return UserError(what, why="the script trains on what no torch DataLoader gives", do="feed it by a DataLoader")
    if not listed:
        return UserError(what, why="the script iterated no torch DataLoader", do="check that the command trains")
    return UserError(
        what, why=f"no training loop began; DataLoaders that were iterated: {listed}", do="pass --loader N"
    )
