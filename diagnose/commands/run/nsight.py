"""`diagnose run --nsys`: steps as NVTX ranges, recorded by Nsight Systems in place of torch's profiler."""

import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from diagnose.capture.bundle import Bundle
from diagnose.capture.command import hooked
from diagnose.capture.folder import has_siblings, rank_of
from diagnose.cli.command import Option
from diagnose.cli.near import near
from diagnose.cli.voice import say
from diagnose.commands.run.outputs import Outputs
from diagnose.commands.run.reporter import POLL_EVERY_S, WAIT_FOR_PARENTS_S, Reporter, armed_words, last_words
from diagnose.errors import printable
from diagnose.probes import protocol
from diagnose.probes.config import Config
from diagnose.trace.nsight.reports import INSTALL, NSYS

NOT_FOUND = 127
_FLAGS = (
    "--trace=cuda,nvtx,osrt",
    "--sample=none",
    "--cuda-graph-trace=node",
    "--capture-range=cudaProfilerApi",
    "--capture-range-end=stop",
    "--stats=false",
    "--export=sqlite",
    "--force-overwrite=true",
)
Command = TypeVar("Command", bound=Callable[..., Any])


def nsight_options(command: Command) -> Command:
    """Add the options that let nsys record, or only print its command line."""
    line = click.option(
        "--print",
        "print_line",
        cls=Option,
        needs="nsys",
        because="it prints the nsys command line",
        is_flag=True,
        help="With --nsys, print the nsys command line and exit.",
    )
    nsys = click.option(
        "--nsys",
        cls=Option,
        idle_with={"arm": "--arm works with torch's profiler, not with --nsys"},
        is_flag=True,
        help="Record the window with Nsight Systems instead of torch's profiler.",
    )
    command = line(command)
    return nsys(command)


def command_line(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> list[str]:
    """The command under nsys, which writes its report and the export into the folder.

    Each of several `diagnose run` of one job, as `srun` starts them, has a file of its own.
    """
    name = f"nsight-rank{rank_of(environment)}" if has_siblings(environment) else "nsight"
    return [shutil.which(NSYS) or NSYS, "profile", *_FLAGS, f"--output={folder / name}", *argv]


def end_early(ctx: click.Context, argv: Sequence[str], config: Config, out: Path | None, *, only_print: bool) -> None:
    """End the command, under nsys, if only the line is asked for, or if there is no nsys to run."""
    if not config.nsight:
        return
    if only_print:
        _print_line(argv, config, Path(os.path.abspath(out or protocol.default_out())))
        ctx.exit(0)
    if shutil.which(NSYS) is None:
        say(f"nsys is not on the PATH: install Nsight Systems ({INSTALL}), or add --print to see what would run")
        ctx.exit(NOT_FOUND)


def _print_line(argv: Sequence[str], config: Config, folder: Path) -> None:
    """Print the command line that does the same without `diagnose run`, with the variables that enable the ranges."""
    ours = hooked({}, {protocol.CONFIG: replace(config, out=str(folder)).to_json()})
    inherited = {"PYTHONPATH": "${PYTHONPATH:+:$PYTHONPATH}"}
    variables = " ".join(f"{name}={shlex.quote(value)}{inherited.get(name, '')}" for name, value in ours.items())
    made = f"mkdir -p {shlex.quote(str(folder))}"
    click.echo(f"{made} && {variables} {shlex.join(command_line(argv, folder, os.environ))}")


def words_at_end(
    bundle: Bundle,
    outputs: Outputs,
    reporter: Reporter | None,
    argv: list[str],
    config: Config,
    no_ledger: bool,
    code: int,
) -> None:
    """Report the capture after the command ended, by the way it was captured."""
    if config.nsight:
        nsight_words(bundle, reporter, code)
    elif config.armed is not None:
        armed_words(bundle, outputs, argv, no_ledger, code)
    else:
        last_words(bundle, reporter, argv, code)


def nsight_words(bundle: Bundle, reporter: Reporter | None, code: int = 0) -> None:
    """Report what nsys exported after the command ended, or why there is no export."""
    exports = _all_exported(bundle)
    if exports and len(exports) < bundle.parents:
        say(f"{len(exports)} of {bundle.parents} exports came: {', '.join(map(printable, exports))}")
    if not exports:
        say(f"nsys left no export in {printable(near(bundle.folder))}: {printable(_why(bundle, code))}")
    elif reporter is None:
        say(f"captured into {printable(near(bundle.folder))}")
    else:
        reporter.publish()


def _all_exported(bundle: Bundle) -> list[str]:
    """All exports of the job; nsys may still write those of other `diagnose run`, so they are awaited for a while."""
    until = time.monotonic() + WAIT_FOR_PARENTS_S
    exports = _exports(bundle.folder)
    while (bundle.others_run() or 0 < len(exports) < bundle.parents) and time.monotonic() < until:
        time.sleep(POLL_EVERY_S)
        exports = _exports(bundle.folder)
    return exports


def _exports(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.sqlite"))


def _why(bundle: Bundle, code: int) -> str:
    errors = bundle.written().errors
    if errors and not any(bundle.folder.glob("*.nsys-rep")):
        return next(iter(errors.values()))
    if any(bundle.folder.glob("*.nsys-rep")):
        return "there is a report: diagnose analyze FILE.nsys-rep exports it"
    return f"no window was recorded; {bundle.why_empty(code)}"
