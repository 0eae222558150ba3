"""Options of `diagnose run --arm`, and the report of an armed run at its end and by `diagnose analyze`."""

import io
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diagnose.cli.command import Option, refuse_beyond
from diagnose.cli.numbers import STATED, Number
from diagnose.cli.severity import is_as_severe
from diagnose.cli.voice import guarded, say, stderr, stdout
from diagnose.errors import printable
from diagnose.probes import protocol
from diagnose.probes.timing.triggers import Triggers

if TYPE_CHECKING:
    from diagnose.analysis import Options
    from diagnose.commands.armed.answer import ArmedRun

Command = TypeVar("Command", bound=Callable[..., Any])
_SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGURG", "SIGWINCH", "SIGHUP", "SIGTERM")
_TRIGGERS = ("when_slow", "every", "windows", "on_signal")
_OF_RUN = (
    *("as_json", "rules_dirs", "metrics", "torch_trace", "fail_on", "no_ledger", *STATED),
    *("no_cache", "jobs", "scheduler", "low_memory", "python_functions"),
)
_WHOLE = "it keeps the whole job under the probe"


def arm_options(command: Command) -> Command:
    """Adds the options that `asked_of` reads."""
    options = (
        click.option(
            "--arm",
            is_flag=True,
            help="Time every step of the whole job, and open a window when a trigger asks for one.",
        ),
        click.option(
            "--when-slow",
            cls=Option,
            needs="arm",
            because=_WHOLE,
            metavar="F",
            type=Number(min=1, min_open=True),
            help="With --arm: open a window if steps take F times the running median, or at the next slow step if "
            f"these come at equal distances (default: {protocol.WHEN_SLOW:g} if no other trigger is given).",
        ),
        click.option(
            "--every",
            cls=Option,
            needs="arm",
            because=_WHOLE,
            metavar="N",
            type=click.IntRange(min=1),
            help="With --arm: open a window every N steps.",
        ),
        click.option(
            "--windows",
            cls=Option,
            needs="arm",
            because=_WHOLE,
            metavar="N",
            type=click.IntRange(min=1),
            help=f"With --arm: open at most N windows for slow steps, and N by --every (default: {protocol.WINDOWS}).",
        ),
        click.option(
            "--on-signal",
            cls=Option,
            needs="arm",
            because=_WHOLE,
            metavar="NAME",
            type=click.Choice(_SIGNALS),
            help="With --arm: open a window on this signal, such as SIGUSR1, unless the job handles it itself.",
        ),
        click.option(
            "--hang-stacks",
            cls=Option,
            needs="arm",
            because=_WHOLE,
            metavar="S",
            type=Number(min=1),
            help="With --arm: if no step has ended for S seconds and for 10 times the usual step time, take the stacks "
            "of the ranks with py-spy, for `diagnose hang`.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def asked_of(given: dict[str, Any], at_steps: Sequence[int]) -> Triggers | None:
    """The settings of the run, with the triggers taken out of `given`; None without --arm.

    Raises:
        UsageError: options that contradict each other.
    """
    arm = given.pop("arm")
    triggers = {name: given.pop(name) for name in _TRIGGERS}
    if not arm:
        if len(at_steps) > 1:
            raise click.UsageError("Several --at-step need --arm: without it one window is captured.")
        return None
    slow, every = triggers["when_slow"], triggers["every"]
    if slow is None and every is None and not at_steps:
        slow = protocol.WHEN_SLOW
    if triggers["windows"] is not None and slow is None and every is None:
        raise click.UsageError("--windows needs --when-slow or --every: with --at-step each step has its own window.")
    return Triggers(slow, every, tuple(at_steps), triggers["windows"] or protocol.WINDOWS, triggers["on_signal"])


_FOLDER = protocol.WINDOW_FOLDER.format("K")


def is_armed(path: str) -> bool:
    """Whether the folder of an armed run is there."""
    from diagnose.series.places import step_logs

    return "://" not in path and Path(path).is_dir() and bool(step_logs(Path(path)))


def show_armed(path: str, given: Mapping[str, Any], options: "Options") -> int:
    """Print the armed run at `path`, as `diagnose analyze` does with these options; its exit code.

    Raises:
        UserError: it cannot be read.
        UsageError: an option is of one window.
    """
    from diagnose.cli.giving import Forms, show
    from diagnose.cli.loading import limited
    from diagnose.commands.armed.text import render

    window = f"{path.rstrip('/')}/{_FOLDER}"
    refuse_beyond(_OF_RUN, f"needs a single window: diagnose analyze {window}")
    with limited(options.loading.memory_bytes):
        run = _read(Path(path), options, no_ledger=given["no_ledger"])
    near = printable(path.rstrip("/"))
    show(run, Forms(text=lambda console: render(run, console, near)), given)
    return int(_fails(run, given["fail_on"]))


def _read(folder: Path, options: "Options | None", no_ledger: bool) -> "ArmedRun":
    """The armed run in the folder; its diagnoses quote the ledger, unless that is not wanted."""
    from msgspec.structs import replace

    from diagnose.commands.armed.answer import armed_run
    from diagnose.commands.ledger.option import with_track_records

    run = armed_run(folder, options)
    assert run is not None
    quoting = (
        one if one.diagnosis is None else replace(one, diagnosis=with_track_records(one.diagnosis, no_ledger))
        for one in run.windows
    )
    return replace(run, windows=tuple(quoting))


def _fails(run: "ArmedRun", severity: str | None) -> bool:
    """Whether a finding of a window is at least so severe; prints a line if no window could have one."""
    if severity is None:
        return False
    if not run.diagnoses:
        click.echo("--fail-on judges the findings of windows, and no window of this run has a diagnosis", err=True)
    return any(is_as_severe(diagnosis, severity) for diagnosis in run.diagnoses)


def tell_armed(folder: Path, near: str, printed: bool, files: Mapping[str, Path], no_ledger: bool) -> "ArmedRun":
    """Report an armed job at its end: print it after the job's own output, and write it to `files` by form."""
    from diagnose.cli.kept import keep
    from diagnose.report.views.applied import applied_line

    run = _read(folder, None, no_ledger)
    if not no_ledger:
        guarded(lambda: _record_prediction(run), "not kept in the ledger of promises")
    for one in run.windows:
        if one.diagnosis is not None and one.folder:
            guarded(partial(keep, one.diagnosis, folder / one.folder), f"no {protocol.DIAGNOSIS} in {one.folder}")
    if printed:
        guarded(lambda: _print(run, near))
    made = {"report": lambda: _text(run, near).encode(), "json": lambda: run.to_json().encode()}
    for name, file in files.items():
        if name in made:
            guarded(lambda to=file, of=made[name]: _write(of(), to), f"no --{name} file")  # type: ignore[misc]
    if line := applied_line(run.applied):
        say(f"applied: {line}")
    say(printable(_last_line(run, near)))
    return run


def _record_prediction(run: "ArmedRun") -> None:
    """Append the patch's result to the ledger, as measured in a window of usual steps."""
    from diagnose.commands.armed.answer import window_with_patch
    from diagnose.commands.ledger.option import record

    telling = window_with_patch([one for one in run.windows if one.is_usual])
    if telling is not None:
        record(telling)


def _last_line(run: "ArmedRun", near: str) -> str:
    from diagnose.commands.series.views import result

    slow = [f"{window.slow_step:,}" for window in run.windows if window.slow_step is not None]
    held = f" (with the slow step{'s' * (len(slow) > 1)} {', '.join(slow)})" if slow else ""
    empty = sum(not window.ranks for window in run.windows)
    without = f" ({empty} without a trace)" if empty else ""
    windows = f"{len(run.windows)} window{'s' * (len(run.windows) != 1)}{held}{without}"
    untold = run.series.not_told
    steps = result(run.series) if untold is None else f"whether steps change is unknown: {untold.because}"
    return f"{steps}; {windows}; again: diagnose analyze {shlex.quote(near)}"


def _print(run: "ArmedRun", near: str) -> None:
    from diagnose.cli.terminal import terminal
    from diagnose.commands.armed.text import render

    beside = sys.stdout is None or not sys.stdout.isatty()
    console = terminal(stderr=beside)
    with console.capture() as page:
        render(run, console, printable(near))
    (stderr() if beside else stdout()).say(f"\n{page.get()}")


def _text(run: "ArmedRun", near: str) -> str:
    from diagnose.cli.terminal import terminal
    from diagnose.commands.armed.text import render

    page = io.StringIO()
    render(run, terminal(file=page, force_terminal=False), printable(near))
    return page.getvalue()


def _write(content: bytes, file: Path) -> None:
    from diagnose.cli.whole_file import whole_file

    with whole_file(file) as into:
        into.write(content)
    say(f"wrote {printable(str(file))}")
