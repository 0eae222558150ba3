"""`diagnose run`: a job runs as it always does, a few of its steps are captured, the report follows."""

import contextlib
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import click

from diagnose.bundle import Bundle, Written, is_first_rank
from diagnose.errors import UserError, printable
from diagnose.launch import Job, Window, environment, exit_code_of, ignores_our_hook, resolved
from diagnose.patch_file import Request, read

_LOOK_EVERY_S = 0.3
_MOST_RANKS = 8
_WAIT_FOR_RANKS_S = 120.0  # after the last rank that came; then the report does without the others
_WAIT_FOR_PARENTS_S = 30.0  # after our command ended, when each rank has a `diagnose run` of its own


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Example:  diagnose run -- torchrun --nproc_per_node 8 train.py --bf16",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the traces (default: diagnose-runs/<time>); DIR-2 when DIR holds a capture already.",
)
@click.option(
    "--steps",
    metavar="N",
    type=click.IntRange(min=1),
    default=4,
    help="Steps to record (default: 4; the first of three or more is not counted).",
)
@click.option(
    "--warmup",
    metavar="N",
    type=click.IntRange(min=0),
    default=2,
    help="Steps with the profiler on before those (default: 2).",
)
@click.option(
    "--skip",
    metavar="N",
    type=click.IntRange(min=0),
    help="Wait at most N steps for step times to settle (default: 10).",
)
@click.option("--at-step", metavar="K", type=click.IntRange(min=1), help="Record from step K on, settled or not.")
@click.option("--stop", is_flag=True, help="End the job after the window.")
@click.option(
    "--json", "json_file", metavar="FILE", type=click.Path(path_type=Path), help="Write the diagnosis to FILE too."
)
@click.option("--no-report", is_flag=True, help="Capture only.")
@click.option(
    "--apply",
    "patch_file",
    metavar="PATCH.json",
    help="Run with a patch, the script unedited: a patch, a list, or a diagnosis, whose first planned change is taken "
    "(FILE#RULE: that of RULE).",
)
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    out: Path | None,
    steps: int,
    warmup: int,
    skip: int | None,
    at_step: int | None,
    stop: bool,
    json_file: Path | None,
    no_report: bool,
    patch_file: str | None,
    command: tuple[str, ...],
) -> None:
    """Run a training command, capture a few of its steps, and say why it is slow.

    COMMAND is what you would type without us: train.py ARGS, python -m PACKAGE, torchrun, accelerate launch, srun.
    The report goes to stdout as soon as all ranks have written the window, while the job goes on.

    The exit code is the command's own (128 + n when signal n ended it), whatever the capture or the report did.
    """
    if not command:
        raise click.UsageError("No command. Put it after `--`:  diagnose run -- python train.py", ctx)
    reports = is_first_rank(os.environ)
    argv = resolved(command)
    patch = _patch(patch_file, argv, reports)
    env, bundle = dict(os.environ), _bundle(out)
    if bundle is not None:
        window = Window(str(bundle.folder), steps, warmup, skip, at_step, stop)
        env = environment(env, window, bundle.seen, patch)
    elif patch is not None:
        raise UserError("the patch cannot be applied", why="it goes in with the capture, which has no folder")
    try:
        job = Job(argv, env)
    except OSError as error:
        if bundle is not None and reports:
            bundle.tidy()
        why = error.strerror or str(error)
        click.echo(f"Error: cannot run the command: {printable(argv[0])}\n  why: {printable(why)}", err=True)
        ctx.exit(exit_code_of(error))
    with job.forwarding():
        reporter = Reporter(bundle, json_file) if bundle is not None and reports and not no_report else None
        while reporter is not None and not reporter.done and job.runs(_LOOK_EVERY_S):
            _guarded(reporter.look)
        code = job.exit_code()
    if bundle is not None and reports:
        _guarded(lambda: _last_words(bundle, reporter, argv))
        if patch is not None and not any(bundle.folder.glob("capture-rank*.json")):
            _say("whether the patch was applied is not known: nothing was captured")
        bundle.tidy()
    ctx.exit(code)


def _patch(file: str | None, argv: list[str], speaks: bool) -> Request | None:
    """What is to be applied, checked before the command starts: a run without it would mislead.

    Raises:
        UserError: the patch cannot be read, or cannot reach the command's Python.
    """
    if file is None:
        return None
    patch, option = read(file), ignores_our_hook(argv)
    if option:
        raise UserError("the patch cannot be applied", why=f"Python runs with {option}")
    for entry in patch.refused if speaks else ():
        _say(f"not applied: {entry['key']} ({entry['because']})")
    for line in patch.lines() if speaks else ():
        _say(f"to apply: {printable(line)}")
    return patch


class Reporter:
    """Prints the report of the first window, once.

    Args:
        bundle: what the ranks write.
        json_file: gets the diagnosis too.
    """

    def __init__(self, bundle: Bundle, json_file: Path | None) -> None:
        self._bundle, self._json_file = bundle, json_file
        self._came, self._since = 0, time.monotonic()
        self.done = False

    def look(self) -> None:
        """Report when every rank is written, or when the missing ones are long overdue."""
        written = self._bundle.written()
        if not written.traces:
            return
        if len(written.traces) != self._came:
            self._came, self._since = len(written.traces), time.monotonic()
        if written.complete or time.monotonic() - self._since > _WAIT_FOR_RANKS_S:
            with contextlib.suppress(OSError):
                os.nice(10)  # the job goes on
            self.report(written)

    def report(self, written: Written) -> None:
        """Print what the traces tell."""
        self.done = True
        from diagnose import analysis
        from diagnose.cli.terminal import terminal
        from diagnose.diagnosis import to_json
        from diagnose.report.text import render

        if written.traces and written.missing:
            more = ", ..." if len(written.missing) > _MOST_RANKS else ""
            listed = ", ".join(map(str, written.missing[:_MOST_RANKS]))
            _say(f"no trace of rank {listed}{more} of {written.world_size}")
        options = analysis.Options(run=_run_of(self._bundle.folder, written))
        diagnosis = analysis.analyze(self._bundle.folder, options=options)
        console = terminal()
        with console.capture() as page:  # in one piece: the job prints too
            render(diagnosis, console)
        click.echo("\n" + page.get() + f"bundle:     {printable(_near(self._bundle.folder))}")
        if self._json_file is not None:
            partial = self._json_file.with_name(f".{self._json_file.name}.{os.getpid()}")
            partial.write_text(to_json(diagnosis), encoding="utf-8")
            partial.replace(self._json_file)


def _last_words(bundle: Bundle, reporter: Reporter | None, argv: list[str]) -> None:
    """After the command ended: the report if it is still due, or why there is none, and what else was written."""
    written = _all_written(bundle)
    if not written.traces and not bundle.traces():
        option = ignores_our_hook(argv)
        why = next(iter(written.errors.values()), f"Python runs with {option}" if option else bundle.why_empty())
        _say(f"nothing captured: {printable(why)}")
        return
    if reporter is None:
        _say(f"captured into {printable(_near(bundle.folder))}")
    elif not reporter.done:
        reporter.report(written)
    if bundle.later():
        _say(f"more windows, for `diagnose analyze`: {printable(', '.join(map(_near, bundle.later())))}")


def _all_written(bundle: Bundle) -> Written:
    """The ranks that are done; ranks under other parents (`srun diagnose run`) may still be writing, for a while."""
    until = time.monotonic() + _WAIT_FOR_PARENTS_S
    written = bundle.written()
    while bundle.shared and written.traces and not written.complete and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
        written = bundle.written()
    return written


def _run_of(folder: Path, written: Written) -> str | None:
    """The name that the analysis gives to the run just written; None when the folder holds no other."""
    from diagnose.trace.discover import runs_of, trace_files

    runs = runs_of(trace_files(folder))
    if len(runs) < 2:
        return None
    wanted = set(written.traces.values())
    return max(runs, key=lambda run: len(wanted & {file.path.name for file in run.files})).name


def _bundle(out: Path | None) -> Bundle | None:
    """None, with a line that says so, when the folder cannot be made: the job runs all the same."""
    try:
        return Bundle(out, os.environ)
    except OSError as error:
        _say(f"capture is off: {error.strerror or error}: {printable(str(error.filename or out))}")
        return None


def _guarded(action: Callable[[], object]) -> None:
    """Nothing that fails here changes how the command ends."""
    try:
        action()
    except UserError as error:
        _say(f"no report: {error.format_message()}")
    except KeyboardInterrupt:
        _say("no report: interrupted")
    except Exception as error:
        if os.environ.get("DIAGNOSE_TRACEBACK"):
            traceback.print_exception(error)
        _say(f"no report: {type(error).__name__}: {printable(' '.join(str(error).split()))}")


def _near(folder: Path) -> str:
    near = os.path.relpath(folder)
    return str(folder) if near.startswith("..") else near


def _say(line: str) -> None:
    try:
        click.echo(f"diagnose: {line}", err=True)
    except OSError:
        return
