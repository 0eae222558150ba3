"""`diagnose run`: run a job as usual, capture a few of its steps, and report.

Options of `diagnose run` that limit the recording: its size, and its ranks.
"""

import contextlib
import errno
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from diagnose.capture.bundle import Bundle
from diagnose.capture.command import environment, ignores_our_hook, inherited_environment, recorded, resolved
from diagnose.capture.folder import is_first_rank
from diagnose.capture.job import RunningCommand, become, deaf, exit_code_of
from diagnose.cli.command import Command, Option
from diagnose.cli.forms import out_option
from diagnose.cli.numbers import POSITIVE
from diagnose.cli.typed import options_typed
from diagnose.cli.voice import guarded, say, stderr
from diagnose.cli.whole_file import is_same_file
from diagnose.commands.armed.arming import arm_options, asked_of
from diagnose.commands.ledger.option import ledger_option
from diagnose.commands.run import nsight
from diagnose.commands.run.following import followed, watchers
from diagnose.commands.run.hang_stacks import TIMED_OUT, can_look, itself
from diagnose.commands.run.live_findings import timed_out
from diagnose.commands.run.nsight import nsight_options
from diagnose.commands.run.on_finding import on_finding_option
from diagnose.commands.run.outputs import Outputs, files_given, output_options
from diagnose.commands.run.reporter import Reporter
from diagnose.commands.run.window import window_options
from diagnose.errors import UserError, printable
from diagnose.patch.patch_file import Request, read, split
from diagnose.probes import protocol
from diagnose.probes.config import Config
from diagnose.probes.limits.chosen_ranks import MOST_BY_DEFAULT, parsed
from diagnose.probes.timing.triggers import Triggers

_NO_PROCESS = (errno.EAGAIN, errno.ENOMEM)
Launch = tuple[list[str], dict[str, str]]  # words and environment


class _Ranks(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """A choice of ranks, checked here and parsed again in each rank."""

    name = "ranks"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; an invalid choice of ranks is wrong usage."""
        try:
            parsed(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def limits_of(given: dict[str, Any]) -> dict[str, Any]:
    """The values of both options, by the names of `Config`."""
    return {"budget_bytes": int(given["budget_bytes"]), "ranks": given["ranks"]}


_WITHOUT_TORCH = {"nsys": "--budget and --ranks limit torch's profiler, in whose place --nsys records"}
budget_option = click.option(
    "--budget",
    "budget_bytes",
    cls=Option,
    idle_with=_WITHOUT_TORCH,
    metavar="SIZE",
    type=POSITIVE,
    default=protocol.BUDGET_BYTES,
    help="Keep the trace of one rank below this size, as text before compression (default: "
    f"{protocol.BUDGET_BYTES // 1_000_000}M). A larger window loses shapes, then steps; step times are kept.",
)
ranks_option = click.option(
    "--ranks",
    cls=Option,
    idle_with=_WITHOUT_TORCH,
    metavar="RANKS",
    type=_Ranks(),
    default=None,
    help="Record on these ranks: 0,8,16, one-per-node or all; the others keep step times (default: all, up to "
    f"{MOST_BY_DEFAULT}; of more, {MOST_BY_DEFAULT} spread evenly).",
)


@click.command(
    cls=Command,
    prints=False,
    context_settings={"allow_interspersed_args": False},
    epilog="Example:  diagnose run -- torchrun --nproc_per_node 8 train.py --bf16",
)
@out_option(
    f"Write the traces to DIR, or to DIR-2 if DIR is not empty (default: {protocol.RUNS}/<time>).", metavar="DIR"
)
@window_options
@budget_option
@ranks_option
@click.option("--no-sampling", is_flag=True, help="Sample no stacks; the report then names no line of code.")
@click.option(
    "--stop",
    cls=Option,
    idle_with={"arm": "--stop ends the job after a window, --arm goes on to its end"},
    is_flag=True,
    help="End the job after the window.",
)
@arm_options
@nsight_options
@click.option(
    "--memory",
    cls=Option,
    idle_with={"print_line": "--print prints a line that records no allocations"},
    is_flag=True,
    help="Record allocations for `diagnose memory`, which slows each of them down.",
)
@click.option(
    "--deep",
    cls=Option,
    idle_with={"nsys": "--deep opens a second window of torch's profiler, in whose place --nsys records"},
    is_flag=True,
    help="After the window record a second one with Python stacks and, on CUDA, allocations; its steps are slow, so "
    "times stay those of the first. With --arm: at the next of slow steps that come again.",
)
@click.option(
    "--log",
    cls=Option,
    idle_with={"nsys": "--log works with torch's profiler, not with --nsys"},
    is_flag=True,
    help="Send figures of windows and steps to the loggers of transformers' Trainer; with --arm, those of the steps "
    "of other loops to live.jsonl in the run's folder.",
)
@click.option("--no-flight-recorder", is_flag=True, help="Leave torch's flight recorder as it is.")
@output_options
@on_finding_option
@click.option(
    "--apply",
    "patch_file",
    cls=Option,
    reads=True,
    idle_with={"print_line": "--print prints a line that applies no patch"},
    metavar="PATCH.json",
    help="Run the unedited script with a patch: a patch, a list of patches, or a diagnosis, of which the first planned "
    "change is made (FILE#RULE: the change of RULE).",
)
@ledger_option(
    "Leave the ledger alone: record no result of --apply, and quote no earlier one.", idle_with={"print_line": ""}
)
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    /,
    out: Path | None,
    steps: int | None,
    warmup: int,
    skip: int,
    at_steps: tuple[int, ...],
    step_on: str,
    sample_steps: int | None,
    no_sampling: bool,
    stop: bool,
    patch_file: str | None,
    no_ledger: bool,
    command: tuple[str, ...],
    **given: Any,
) -> None:
    """Run a training command, record a few steps, and explain what slows it down.

    COMMAND is what you would type without diagnose: train.py ARGS, python -m PACKAGE, torchrun, accelerate launch,
    srun. The report comes as soon as all ranks have written their traces, while the job goes on. It goes to stdout if
    that is a terminal, else to stderr, so that a file or a pipe gets only what the command writes. When the job has
    ended, the last line on stderr gives the verdict, the next change, and where the report is.

    The exit code is the command's own (128 + n if signal n ended it), whatever happens to the capture or the report.

    \b
    Codes of a command that never ran:
      2    wrong usage
      3    the patch of --apply cannot be used
      126  the command cannot be executed
      127  the command, or with --nsys nsys, is not found
    """
    _refuse_wrong_usage(ctx, command, patch_file, given)
    asked = asked_of(given, at_steps)
    under_nsys = given.pop("nsys")
    reports = is_first_rank(os.environ)
    patch = _patch(patch_file, argv := resolved(command), reports)
    plain = inherited_environment()
    sample_steps = 0 if no_sampling else sample_steps
    window = Config("", steps, warmup, skip, next(iter(at_steps), None), step_on, stop, sample_steps=sample_steps)
    config = _config(window, asked, {**given, "nsight": under_nsys, "command": recorded(command, plain)})
    nsight.end_early(ctx, argv, config, out, only_print=given["print_line"])
    bundle, env = _prepared(out, config, plain, patch)
    under = nsight.command_line(argv, bundle.folder, plain) if under_nsys and bundle else argv
    try:
        job, bundle = _started((under, env), (argv, plain), bundle, patch)
    except OSError as error:
        _cannot_run(ctx, under, error, bundle)
    speaking = bundle if reports else None
    outputs = Outputs.of(given, [*options_typed(ctx), "--", "..."], plain)
    reporter = Reporter(speaking, outputs, no_ledger) if speaking and outputs.wanted and asked is None else None
    beside = reporter if not under_nsys else None
    code = followed(job, beside, *watchers(bundle, config, given["hang_stacks"], outputs if speaking else None))
    if speaking is not None:
        words = partial(nsight.words_at_end, speaking, outputs, reporter, argv, config, no_ledger, code)
        _tell_the_end(speaking, words, patch, outputs)
    if reporter is not None and reporter.told:
        guarded(lambda: say(reporter.told))
    _ended(ctx, code, bundle)


def _config(window: Config, asked: Triggers | None, given: dict[str, Any]) -> Config:
    """The settings that the options ask for, in addition to the window or in its place."""
    asks = {name: given[name] for name in ("deep", "memory", "log", "nsight", "command")}
    asks["looked_at_by"] = itself() if can_look(given["hang_stacks"]) else None
    asks["pulse"] = asked is not None and given["on_finding"] is not None
    config = replace(window, flight_recorder=not given["no_flight_recorder"], **asks, **limits_of(given))
    return config if asked is None else replace(config, at_step=None, armed=asked.to_json())


def _cannot_run(ctx: click.Context, argv: list[str], error: OSError, bundle: Bundle | None) -> NoReturn:
    if bundle is not None:
        guarded(bundle.tidy)
    why = error.strerror or str(error)
    stderr().say(f"Error: cannot run the command: {printable(argv[0])}\n  why: {printable(why)}\n")
    ctx.exit(exit_code_of(error))


def _prepared(
    out: Path | None, config: Config, plain: dict[str, str], patch: Request | None
) -> tuple[Bundle | None, dict[str, str]]:
    """The folder and the environment of a capture; without a folder, and with a printed line, if that fails.

    Raises:
        UserError: there is a patch, which goes in with the capture.
    """
    bundle = None
    try:
        bundle = Bundle(out, plain)
        config = replace(config, out=str(bundle.folder), token=bundle.token)
        return bundle, environment(plain, config, bundle.marks, patch)
    except Exception as error:
        say(f"capture is off: {printable(_why(error))}; the job runs without: pass --out DIR, where it may write")
    if bundle is not None:
        guarded(bundle.tidy)
    if patch is not None:
        raise UserError("the patch cannot be applied", why="it goes in with the capture, which has no folder")
    return None, plain


def _why(error: Exception) -> str:
    """The error in one line; one without a file name is about the working folder, which is gone."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error) or type(error).__name__
    return f"{error.strerror}: {'the working folder' if error.filename is None else os.fsdecode(error.filename)}"


def _started(
    captured: Launch, alone: Launch, bundle: Bundle | None, patch: Request | None
) -> tuple[RunningCommand, Bundle | None]:
    """Start the command, captured if that is possible, else without the capture and without nsys.

    Raises:
        OSError: it cannot be executed.
        UserError: there is a patch, and the command can only run without it.
    """
    try:
        return RunningCommand(*captured), bundle
    except OSError as error:
        too_large = error.errno == errno.E2BIG and captured != alone
        if not too_large and error.errno not in _NO_PROCESS:
            raise
        if patch is not None:
            raise UserError("the patch cannot be applied", why=f"capture is off: {error.strerror}") from error
        say(f"capture is off: {error.strerror}")
        if bundle is not None:
            guarded(bundle.tidy)
        if too_large:
            return RunningCommand(*alone), None
        become(*alone)


def _tell_the_end(bundle: Bundle, words: Callable[[], object], patch: Request | None, outputs: Outputs) -> None:
    guarded(words)
    guarded(lambda: _whether_it_hung(bundle, outputs))
    if patch is not None:
        guarded(lambda: _whether_applied(bundle))
    if outputs.on_finding is not None:
        guarded(outputs.on_finding.finish, outputs.on_finding.failing)


def _whether_applied(bundle: Bundle) -> None:
    if not any(bundle.folder.rglob(protocol.RECORD.format("*"))):
        say("whether the patch was applied is not known: nothing was captured")


def _whether_it_hung(bundle: Bundle, outputs: Outputs) -> None:
    folder = printable(str(bundle.folder))
    if any(bundle.folder.glob(protocol.HANG_DUMP.format("*"))):
        say(f"{TIMED_OUT}; which rank was missing: diagnose hang {folder}")
        outputs.tell(lambda: timed_out(bundle.folder))
    elif any(bundle.folder.glob(protocol.STACKS.format("*"))):
        say(f"the job stood still before it ended; where its ranks were: diagnose hang {folder}")


def _ended(ctx: click.Context, code: int, bundle: Bundle | None) -> NoReturn:
    """Tidy up and end as the command did, whatever happens meanwhile."""
    with contextlib.suppress(KeyboardInterrupt):
        deaf()
    deaf()
    if bundle is not None:
        guarded(bundle.tidy)
    ctx.exit(code)


def _refuse_wrong_usage(
    ctx: click.Context, command: Sequence[str], patch_file: str | None, given: Mapping[str, Any]
) -> None:
    if not command:
        raise click.UsageError("No command. Put it after `--`:  diagnose run -- python train.py", ctx)
    refuse_over((*command, patch_file or ""), files_given(given))


def _patch(file: str | None, argv: list[str], speaks: bool) -> Request | None:
    """Read the patch to apply before the command starts: a run without it would mislead.

    Raises:
        UserError: the patch cannot be read, or cannot reach the command's Python.
    """
    if file is None:
        return None
    patch, option = read(_diagnosed(file)), ignores_our_hook(argv)
    if option:
        raise UserError("the patch cannot be applied", why=f"Python runs with {option}")
    for entry in patch.refused if speaks else ():
        say(f"not applied: {entry['key']} ({entry['because']})")
    for line in patch.lines() if speaks else ():
        say(f"to apply: {printable(line)}")
    return patch


def _diagnosed(file: str) -> str:
    """The argument of --apply, with the diagnosis in a run's folder in the place of the folder.

    Raises:
        UserError: the folder holds no diagnosis.
    """
    path, rule = split(file)
    if not path.is_dir():
        return file
    diagnosis = path / protocol.DIAGNOSIS
    if not diagnosis.is_file():
        made = f"diagnose analyze {shlex.quote(str(path))} --json > {shlex.quote(str(diagnosis))}"
        raise UserError("the folder holds no diagnosis", where=path, do=f"write it: {made}")
    return f"{diagnosis}#{rule}" if rule else str(diagnosis)


# Find the files that are part of the user's command, so that no output replaces them.

_MODULE = "-m"


def refuse_over(command: Sequence[str], outputs: Mapping[str, Path | None]) -> None:
    """Refuse an output at the place of a file of the command: its script, or a file among its arguments.

    Args:
        command: its words.
        outputs: files that are to be written, by the option that names each.

    Raises:
        UsageError: there is one.
    """
    for option, to in outputs.items():
        for file in files_of(command) if to is not None else ():
            if to is not None and file.is_file() and is_same_file(to, file):
                raise click.UsageError(f"--{option} would overwrite {file}, which the command uses: name another file.")


def files_of(command: Sequence[str]) -> Iterator[Path]:
    """Paths that the words may name: as they are, after `=` or `@`, before `#`, or as the module that Python runs."""
    for before, word in zip(("", *command), command, strict=False):
        yield Path(word)
        yield Path(word.lstrip("@"))
        yield Path(word.partition("=")[2])
        yield Path(word.partition("#")[0])
        if before == _MODULE or word.startswith(_MODULE):
            module = word.removeprefix(_MODULE).replace(".", "/")
            yield from map(Path, (f"{module}.py", f"{module}/__main__.py", f"{module}/__init__.py"))
