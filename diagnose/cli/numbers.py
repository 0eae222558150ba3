"""Numbers on the command line, and the options with which users state what a trace does not hold."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

_SUFFIXES = {"K": 3, "M": 6, "B": 9, "G": 9, "T": 12}


class _Positive(click.FloatRange):
    """A number above zero that is finite, such as 4.2e15 or 1.2B: "inf" and "nan" pass a plain range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, str) and value[-1:].upper() in _SUFFIXES:
            value = f"{value[:-1]}e{_SUFFIXES[value[-1].upper()]}"
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


POSITIVE = _Positive(min=0, min_open=True)
MEMORY = _Positive(min=256e6)  # bytes; the modules alone take a third of it

_STATED = (
    ("--flops-per-step", "Model FLOPs of one step on one GPU, for MFU."),
    ("--params", "Parameters that a token is multiplied with, for MFU by 6 FLOPs per parameter and token."),
    ("--seq-len", "Tokens of one sequence, for MFU, when neither trace nor capture tells."),
    ("--tokens-per-step", "Tokens of one step on one GPU, for MFU, when neither trace nor capture tells."),
    ("--peak-tflops", "Peak of one device in TFLOP/s, for MFU, when the device is unknown."),
    ("--hbm-gbs", "Memory bandwidth of one device in GB/s, when the device is unknown or its memory is another."),
    ("--gpu-hour-price", "Price of a GPU-hour, to put a price on stragglers."),
    ("--network-gbs", "Network of one node in GB/s, all its cards in one direction, for collectives between nodes."),
)
STATED = tuple(name.removeprefix("--").replace("-", "_") for name, _ in _STATED)
Command = TypeVar("Command", bound=Callable[..., Any])


def stated_options(command: Command) -> Command:
    """Adds the options whose values are the fields of `Settings`; all are positive numbers."""
    for name, text in reversed(_STATED):
        command = click.option(name, metavar="F", type=POSITIVE, help=text)(command)
    return command
