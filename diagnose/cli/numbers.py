"""Numbers on the command line, and the options with which users state what a trace does not hold."""

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diagnose.cli.names import gpus
from diagnose.decoding import LEAST_STATED, MOST_STATED
from diagnose.formulas.critical_batch import CriticalBatch
from diagnose.formulas.mfu_conventions import MFU_AS

if TYPE_CHECKING:
    from diagnose.hardware import Gpu

_MOST_HOURS = 1e12  # results computed from them stay finite
_SUFFIXES = {"K": 3, "M": 6, "B": 9, "G": 9, "T": 12}


class Number(click.FloatRange):
    """A number of a range that is finite, such as 4.2e15 or 1.2B: a plain range lets "inf" and "nan" pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; an invalid one, or one out of range, is wrong usage."""
        if isinstance(value, str) and value[-1:].upper() in _SUFFIXES:
            value = f"{value[:-1]}e{_SUFFIXES[value[-1].upper()]}"
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class _Stated(Number):
    """A number whose products with several others are finite, too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not LEAST_STATED <= number <= MOST_STATED:
            self.fail(f"{value} is not between {LEAST_STATED:g} and {MOST_STATED:g}.", param, ctx)
        return number


class _Hours(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """A time such as 90m, 12h or 3d, in hours; a number alone is hours."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip().lower()
        factor = _IN_HOURS.get(text[-1:], 1.0)
        number = _FINITE.convert(text[:-1] if text[-1:] in _IN_HOURS else text, param, ctx)
        if number * factor > _MOST_HOURS:
            self.fail(f"{value} is longer than {_MOST_HOURS:g} hours.", param, ctx)
        return number * factor

    def typed(self, hours: float) -> str:
        """Hours as they are typed, in the largest unit of which they are a whole number."""
        for letter, factor in sorted(_IN_HOURS.items(), key=lambda unit: -unit[1]):
            if math.isclose(round(hours / factor) * factor, hours, abs_tol=0.0):
                return f"{round(hours / factor)}{letter}"
        return f"{hours:g}"


class _Share(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """A share such as 5% or 0.05, also of 100% and more; from 1 on a number without a percent sign is ambiguous."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        number = _AT_LEAST_ZERO.convert(text.removesuffix("%").strip(), param, ctx)
        if text.endswith("%"):
            return number / 100
        if number >= 1:
            self.fail(f"{value} may mean a share or percent: write 5% or 0.05, 100% for all of it.", param, ctx)
        return number


class _Batch(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """A batch such as 2M tokens, or 512seq: a number alone is tokens."""

    name = "batch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> CriticalBatch:
        if isinstance(value, CriticalBatch):
            return value
        text = str(value).strip().lower()
        counts_sequences = text.endswith("seq")
        size = _AT_LEAST_ONE.convert(text.removesuffix("seq").strip(), param, ctx)
        return CriticalBatch(size, "sequences" if counts_sequences else "tokens")


class _Board(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """A GPU of the table, by key, name or words of them."""

    name = "gpu"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Gpu":
        from diagnose.hardware import Gpu
        from diagnose.hardware.named import gpu_named

        return value if isinstance(value, Gpu) else gpu_named(str(value))


class _Pattern(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """A regular expression."""

    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        try:
            return re.compile(value)
        except (re.error, RecursionError, OverflowError) as error:
            self.fail(f"{value} is not a regular expression: {error}.", param, ctx)


_IN_HOURS = {"s": 1 / 3600, "m": 1 / 60, "h": 1.0, "d": 24.0}
_FINITE = Number(min=0, min_open=True)
POSITIVE = _Stated(min=0, min_open=True)
HOURS = _Hours()
SHARE = _Share()
_AT_LEAST_ZERO = Number(min=0)
_AT_LEAST_ONE = _Stated(min=1)
BOARD = _Board()
PATTERN = _Pattern()
_GPU = "State the GPU, one of `diagnose hardware`, if the trace does not name it: H100, A100-SXM4-80GB."
_STEP_RANGE = "Take the NVTX or profiler ranges with names that match as steps: 'iteration \\d+'."
_MTBF = _Stated(min=0, min_open=True, max=1e9)
BATCH = _Batch()
MEMORY = Number(min=256e6)  # bytes; the modules alone take a third of it

_STATED = (
    ("--flops-per-step", "State the model FLOPs of one step on one GPU, for MFU."),
    ("--params", "State the parameters that each token passes through, for MFU at 6 FLOPs per parameter and token."),
    ("--seq-len", "State the tokens in a sequence, for MFU, if neither trace nor capture has them."),
    ("--tokens-per-step", "State the tokens in a step on one GPU, for MFU, if neither trace nor capture has them."),
    ("--peak-tflops", "State the peak of one device in TFLOP/s, for MFU, if the device is unknown."),
    (
        "--hbm-gbs",
        "State the memory bandwidth of one device in GB/s, if the device is unknown or has other memory than listed.",
    ),
    (
        "--network-gbs",
        "State the network bandwidth of a node in GB/s, all cards in one direction, instead of its recorded ports.",
    ),
)
_COSTS = (
    (
        "--gpu-hour-price",
        "State the price of a GPU-hour in any currency, for the cost of training and of late ranks.",
        POSITIVE,
    ),
    (
        "--power-w",
        "State the power of one GPU in watts, plus its part of the host if you count that (default: as captured).",
        POSITIVE,
    ),
    (
        "--pue",
        "State the power usage effectiveness: energy of the data centre over that of its computers (default: 1).",
        _Stated(min=1),
    ),
    ("--kg-per-kwh", "State the kilograms of CO2e per kilowatt-hour, for emissions.", POSITIVE),
    (
        "--tokens",
        "State the tokens to train on, such as 10e9 or 10B, for the time and the cost of the training.",
        POSITIVE,
    ),
)
_NOT_COMPARED = ("--flops-per-step", "--params", "--seq-len", "--network-gbs")  # they change MFU and advice alone
_COMPARED = tuple(stated for stated in _STATED if stated[0] not in _NOT_COMPARED)
STATED_OF_COMPARED = (*(name.removeprefix("--").replace("-", "_") for name, _ in _COMPARED), "gpu", "step_range")
_OF_TRAINING = (
    (
        "--critical-batch",
        "State the critical batch, above which a larger one gains little, in tokens (2M) or sequences (512seq).",
        BATCH,
    ),
    (
        "--mtbf-hours",
        "State the hours between failures of the whole job, for how often to save (default: published rates).",
        _MTBF,
    ),
)
_OF_THE_TRACE = ("gpu", "step_range")
_ALL = (*_STATED, *_COSTS, *_OF_TRAINING)
STATED = (*(name.removeprefix("--").replace("-", "_") for name, *_ in _ALL), *_OF_THE_TRACE, "mfu_as")
Command = TypeVar("Command", bound=Callable[..., Any])


def stated_options(command: Command) -> Command:
    """Adds the options whose values are the fields of `Settings`."""
    for name, text, kind in reversed(_OF_TRAINING):
        command = click.option(name, metavar="F", type=kind, help=text)(command)
    return _with_stated(_STATED, mfu_as_option(cost_options(command)))


def compared_options(command: Command) -> Command:
    """Add those options that change what a comparison shows: tokens, the roofline, the hardware, what a step is."""
    return _with_stated(_COMPARED, command)


def _with_stated(options: tuple[tuple[str, str], ...], command: Command) -> Command:
    command = click.option("--step-range", metavar="REGEX", type=PATTERN, help=_STEP_RANGE)(command)
    command = click.option("--gpu", metavar="NAME", type=BOARD, shell_complete=gpus, help=_GPU)(command)
    for name, text in reversed(options):
        command = click.option(name, metavar="F", type=POSITIVE, help=text)(command)
    return command


def mfu_as_option(command: Command) -> Command:
    """Add the option for the project whose count of model FLOPs defines MFU."""
    return click.option("--mfu-as", type=click.Choice(tuple(MFU_AS)), help="Count FLOPs for MFU as this project does.")(
        command
    )


def purpose_options(command: Command) -> Command:
    """Add the options for the time and the money within which a number of GPUs is to be chosen."""
    deadline = "Find the GPUs needed to train on --tokens within 90m, 12h or 3d."
    budget = "Find the GPUs that this budget pays for, at --gpu-hour-price."
    command = click.option("--budget", metavar="F", type=POSITIVE, help=budget)(command)
    return click.option("--deadline", metavar="TIME", type=HOURS, help=deadline)(command)


def check_purposes(given: Mapping[str, Any]) -> None:
    """Refuse a deadline or a budget that lacks its other half.

    Raises:
        UsageError: it does.
    """
    if given["deadline"] is not None and given["tokens"] is None:
        raise click.UsageError("--deadline needs --tokens: how much is to be trained by then.")
    if given["budget"] is not None and given["gpu_hour_price"] is None:
        raise click.UsageError("--budget needs --gpu-hour-price.")


def cost_options(command: Command) -> Command:
    """Add the options for the price of a GPU-hour and for how much is to be trained."""
    for name, text, kind in reversed(_COSTS):
        command = click.option(name, metavar="F", type=kind, help=text)(command)
    return command
