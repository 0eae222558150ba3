"""`diagnose tune`: run a job again and again, each time with one more change, and keep what helps."""

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from diagnose import __version__
from diagnose.capture.command import ignores_our_hook, inherited_environment, resolved
from diagnose.capture.folder import has_siblings
from diagnose.capture.job import exit_code_of
from diagnose.cli.command import Command, Option
from diagnose.cli.exit_status import INTERRUPTED
from diagnose.cli.forms import out_option
from diagnose.cli.near import near
from diagnose.cli.numbers import HOURS
from diagnose.cli.terminal import terminal
from diagnose.cli.typed import options_typed
from diagnose.cli.voice import say
from diagnose.commands.compare.command import noise_option
from diagnose.commands.ledger.option import ledger_option
from diagnose.commands.run.window import SETTLED
from diagnose.commands.tune.answer import Rung, Settings, Tuning
from diagnose.commands.tune.running import CONTROL, STEPS, CapturedSteps, EndedRun, JobRuns, Run
from diagnose.commands.tune.settings import patches_of
from diagnose.commands.tune.state import PAGE, PATCH, TABLE, TuneFolder, default_folder, folder_for
from diagnose.commands.tune.text import TrialsPage, render_end
from diagnose.commands.tune.trials import RUNS_AT_MOST, Interrupted, Trials, TuneLimits
from diagnose.commands.tune.views import trials_csv
from diagnose.errors import UserError, printable
from diagnose.probes import protocol
from diagnose.report.views.summary import About

_S_PER_HOUR = 3600.0


@click.command(
    cls=Command,
    context_settings={"allow_interspersed_args": False},
    epilog="Example:  diagnose tune --budget 30m -- torchrun --nproc_per_node 8 train.py",
)
@out_option(
    f"Write the tune to DIR (default: {protocol.RUNS}/tune-<script>-<hash of the command>); DIR-2 if DIR holds other "
    "files.",
    metavar="DIR",
)
@click.option(
    "--resume", cls=Option, idle_with={"out": "--resume goes on in the folder that it names"},
    metavar="DIR", type=click.Path(path_type=Path), help="Continue the tune in DIR.",
)  # fmt: skip
@click.option(
    "--runs", metavar="N", type=click.IntRange(min=1), default=RUNS_AT_MOST, show_default=True,
    help="Run the job at most N times, including the first.",
)  # fmt: skip
@click.option("--budget", metavar="TIME", type=HOURS, help="Start no run that would end after TIME, such as 30m or 2h.")
@click.option(
    "--run-limit", metavar="TIME", type=HOURS,
    help="End a run after TIME, such as 10m (default: ten times the first, five minutes at least).",
)  # fmt: skip
@click.option("--allow-numerics", is_flag=True, help="Also try changes that alter what training computes.")
@click.option(
    "--steps", metavar="N", type=click.IntRange(min=2), default=STEPS, show_default=True,
    help="Record N steps in each run, then end it.",
)  # fmt: skip
@click.option(
    "--skip", cls=Option, idle_with={"at_step": SETTLED},
    metavar="N", type=click.IntRange(min=0), default=protocol.SKIP, show_default=True,
    help="Wait at most N steps for step times to settle.",
)  # fmt: skip
@click.option("--at-step", metavar="K", type=click.IntRange(min=1), help="Record from step K on, settled or not.")
@click.option(
    "--control", metavar="N", type=click.IntRange(min=1), default=CONTROL, show_default=True,
    help="Time N steps without the profiler, before and after those; take more if steps are short and noisy.",
)  # fmt: skip
@click.option("--no-repeat", is_flag=True, help="Do not repeat the first and the best run at the end.")
@noise_option
@ledger_option("Do not record predictions and measurements in the ledger.")
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def tune(ctx: click.Context, /, out: Path | None, resume: Path | None, command: tuple[str, ...], **given: Any) -> None:
    """Try one change after another on short runs, and keep those that measurably help.

    Each run is short: it ends after a few recorded steps. The first is the job as it is. Each further run makes the
    next planned change that can be made without editing the script, and keeps it if the job is faster beyond the noise.
    Changes that a run cannot make are listed for you. After an interruption, the same command continues the tune.

    \b
    Exit codes:
      0    the tune is at its end, whether or not anything helped
      2    wrong usage
      3    the job as it is cannot be measured, or the folder cannot be used
      70   a bug in diagnose
      126  the command cannot be executed
      127  the command is not found
      130  interrupted: the job is ended, what was measured is kept
    """
    if bool(command) == (resume is not None):
        raise click.UsageError("Give either a command after `--` or --resume DIR:  diagnose tune -- train.py", ctx)
    if resume is not None and not (resume / "tune.json").is_file():
        raise UserError("there is no tune to continue", where=resume, do="name the folder of one")
    folder = TuneFolder(resume or _place(out or default_folder(command)))
    ctx.exit(_climbed(folder, command, given))


def _place(wanted: Path) -> Path:
    """The folder for the tune; prints a line if it is not the one that is wanted."""
    place = folder_for(wanted)
    if place.name != Path(os.path.abspath(wanted)).name:
        say(f"{printable(str(wanted))} holds other files, which stay: the tune is in {printable(str(place))}")
    return place


def _climbed(folder: TuneFolder, command: tuple[str, ...], given: dict[str, Any]) -> int:
    folder.lock(waits=lambda: say("another tune is at work in the folder, or a job that it left: waiting for its end"))
    known = folder.read()
    if known is not None and command and command != known.command:
        raise UserError("the folder holds the tune of another command", where=folder.path, do="name another with --out")
    command = known.command if known is not None else command
    argv = resolved(command)
    if option := ignores_our_hook(argv):
        raise UserError("no change can be applied", why=f"Python runs with {option}")
    inherited = inherited_environment()
    if has_siblings(inherited):
        raise UserError("a tune starts the whole job itself", do="start one tune, which starts torchrun or srun")
    page = TrialsPage(terminal())
    for rung in known.rungs if known is not None else ():
        page.add(rung)
    window = CapturedSteps(given["steps"], skip=given["skip"], at_step=given["at_step"], control=given["control"])
    runs = _announced(JobRuns(argv, inherited, folder.path, window), folder)

    def tell(rung: Rung) -> None:
        page.add(rung)
        _written(folder, trials.tuning)

    trials = Trials(folder, command, runs, _limits(given), tell)
    try:
        tuning = trials.climb()
    except (Interrupted, KeyboardInterrupt):
        say(f"interrupted; finished runs kept: {len(trials.tuning.rungs)}; go on: {_again(folder)}")
        return INTERRUPTED
    except OSError as error:
        if error.filename != argv[0]:
            raise
        click.echo(f"Error: cannot run the command: {printable(argv[0])}\n  why: {error.strerror}", err=True)
        return exit_code_of(error)
    _written(folder, tuning)
    render_end(tuning, near(folder.path), terminal())
    return 0


def _announced(runs: Run, folder: TuneFolder) -> Run:
    """The same runs, each announced on stderr when it begins."""

    def run(number: int, settings: Settings, expected: Mapping[str, Any] | None, most_s: float | None) -> EndedRun:
        say(f"run {number} begins; its output: {printable(os.path.join(near(folder.path), f'run-{number}.log'))}")
        return runs(number, settings, expected, most_s)

    return run


def _limits(given: dict[str, Any]) -> TuneLimits:
    budget, of_run = given["budget"], given["run_limit"]
    return TuneLimits(
        runs=given["runs"],
        budget_s=None if budget is None else budget * _S_PER_HOUR,
        run_s=None if of_run is None else of_run * _S_PER_HOUR,
        allow_numerics=given["allow_numerics"],
        noise_share=given["noise"],
        repeats=not given["no_repeat"],
        records_predictions=not given["no_ledger"],
    )


def _written(folder: TuneFolder, tuning: Tuning) -> None:
    """Write the ladder as a table and a page, and the patch for `diagnose run --apply`."""
    folder.put(TABLE, trials_csv(tuning).encode())
    best = tuning.best
    patches = patches_of(best.settings) if best is not None else ()
    asked = [{"target": patch.target, "set": patch.set} for patch in patches]
    folder.put(PATCH, f"{json.dumps(asked, indent=1)}\n".encode())
    from diagnose.commands.tune.html import tuning_page  # its libraries load when a page is made

    about = About(__version__, shlex.join(["diagnose", "tune", *options_typed(click.get_current_context())]))
    folder.put(PAGE, tuning_page(tuning, about).encode())


def _again(folder: TuneFolder) -> str:
    return shlex.join(["diagnose", "tune", "--resume", near(folder.path)])
