"""`diagnose run --arm`: its options, and what is told of an armed run at its end and by `diagnose analyze`."""

import io
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diagnose.cli.voice import guarded, say, stderr, stdout
from diagnose.errors import printable
from diagnose.probes import protocol
from diagnose.probes.armed.asked import Asked

if TYPE_CHECKING:
    from diagnose.analysis import Options
    from diagnose.analysis.armed import ArmedRun

Command = TypeVar("Command", bound=Callable[..., Any])
_SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGURG", "SIGWINCH", "SIGHUP", "SIGTERM")
_TRIGGERS = ("when_slow", "every", "windows", "on_signal")
_NEED_ARM = (*_TRIGGERS, "hang_stacks")
_NO_PAGES = ("html", "markdown")
_OF_ONE_WINDOW = (
    *_NO_PAGES, "annotate", "annotations", "rank", "step", "critical_path", "quiet", "details", "kernels", "fail_on"
)  # fmt: skip


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
            metavar="F",
            type=click.FloatRange(min=1, min_open=True),
            help="With --arm: open a window if steps take F times the running median, or at the next slow step if "
            f"these come at equal distances (default: {protocol.WHEN_SLOW:g} if no other trigger is given).",
        ),
        click.option(
            "--every", metavar="N", type=click.IntRange(min=1), help="With --arm: open a window every N steps."
        ),
        click.option(
            "--windows",
            metavar="N",
            type=click.IntRange(min=1),
            help=f"With --arm: open at most N windows for slow steps, and N by --every (default: {protocol.WINDOWS}).",
        ),
        click.option(
            "--on-signal",
            metavar="NAME",
            type=click.Choice(_SIGNALS),
            help="With --arm: open a window on this signal, such as SIGUSR1, unless the job handles it itself.",
        ),
        click.option(
            "--hang-stacks",
            metavar="S",
            type=click.FloatRange(min=1),
            help="With --arm: if no step has ended for S seconds and for 10 times the usual step time, take the stacks "
            "of the ranks with py-spy, for `diagnose hang`.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def asked_of(given: dict[str, Any], at_steps: Sequence[int], stop: bool) -> Asked | None:
    """What the options ask for; the triggers are taken out of `given`. None without --arm.

    Raises:
        UsageError: options that contradict each other.
    """
    arm, needing = given.pop("arm"), [name for name in _NEED_ARM if given[name] is not None]
    triggers = {name: given.pop(name) for name in _TRIGGERS}
    if not arm:
        for name in needing:
            raise click.UsageError(
                f"--{name.replace('_', '-')} needs --arm, which keeps the whole job under the probe."
            )
        if len(at_steps) > 1:
            raise click.UsageError("Several --at-step need --arm: without it one window is captured.")
        return None
    if stop:
        raise click.UsageError("--stop ends the job after a window, --arm goes on to its end: choose one.")
    for name in _NO_PAGES:
        if given.get(name) is not None:
            raise click.UsageError(f"--{name} needs a single window: diagnose analyze RUN/{_FOLDER} --{name} FILE")
    slow, every = triggers["when_slow"], triggers["every"]
    if slow is None and every is None and not at_steps:
        slow = protocol.WHEN_SLOW
    return Asked(slow, every, tuple(at_steps), triggers["windows"] or protocol.WINDOWS, triggers["on_signal"])


_FOLDER = protocol.WINDOW_FOLDER.format("K")


def is_armed(path: str) -> bool:
    """Whether the folder of an armed run is there."""
    from diagnose.series.places import step_logs

    return "://" not in path and Path(path).is_dir() and bool(step_logs(Path(path)))


def show_armed(path: str, given: Mapping[str, Any], options: "Options") -> None:
    """Print the armed run at `path`, as `diagnose analyze` does with these options.

    Raises:
        UserError: it cannot be read.
        UsageError: an option is of one window.
    """
    from diagnose.analysis.armed import armed_run, to_json
    from diagnose.cli.exit_status import writing
    from diagnose.cli.terminal import terminal
    from diagnose.report.text.armed import render

    for name in _OF_ONE_WINDOW:
        if given.get(name):
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} needs a single window: diagnose analyze {path.rstrip('/')}/{_FOLDER}")
    run = armed_run(Path(path), options)
    assert run is not None
    with writing():
        if given["as_json"]:
            click.echo(to_json(run))
        else:
            render(run, terminal(), printable(path.rstrip("/")))


def tell_armed(folder: Path, near: str, printed: bool, files: Mapping[str, Path]) -> None:
    """The report at the end of an armed job, printed beside what the job wrote, and written to `files` by form."""
    from diagnose.analysis.armed import armed_run, to_json

    run = armed_run(folder)
    assert run is not None
    if printed:
        guarded(lambda: _print(run, near))
    made = {"report": lambda: _text(run, near).encode(), "json": lambda: to_json(run)}
    for name, file in files.items():
        if name in made:
            guarded(lambda to=file, of=made[name]: _write(of(), to), f"no --{name} file")  # type: ignore[misc]
    say(printable(_last_line(run, near)))


def _last_line(run: "ArmedRun", near: str) -> str:
    from diagnose.report.text.series import verdict

    slow = [f"{window.slow_step:,}" for window in run.windows if window.slow_step is not None]
    held = f" (with the slow step{'s' * (len(slow) > 1)} {', '.join(slow)})" if slow else ""
    empty = sum(not window.ranks for window in run.windows)
    without = f" ({empty} without a trace)" if empty else ""
    windows = f"{len(run.windows)} window{'s' * (len(run.windows) != 1)}{held}{without}"
    untold = run.series.not_told
    steps = verdict(run.series) if untold is None else f"whether steps change is unknown: {untold.because}"
    return f"{steps}; {windows}; again: diagnose analyze {shlex.quote(near)}"


def _print(run: "ArmedRun", near: str) -> None:
    from diagnose.cli.terminal import terminal
    from diagnose.report.text.armed import render

    beside = sys.stdout is None or not sys.stdout.isatty()
    console = terminal(stderr=beside)
    with console.capture() as page:
        render(run, console, printable(near))
    (stderr() if beside else stdout()).say(f"\n{page.get()}")


def _text(run: "ArmedRun", near: str) -> str:
    from diagnose.cli.terminal import terminal
    from diagnose.report.text.armed import render

    page = io.StringIO()
    render(run, terminal(file=page, force_terminal=False), printable(near))
    return page.getvalue()


def _write(content: bytes, file: Path) -> None:
    from diagnose.cli.whole_file import whole_file

    with whole_file(file) as into:
        into.write(content)
    say(f"wrote {printable(str(file))}")
