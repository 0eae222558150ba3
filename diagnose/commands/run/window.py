"""Options of `diagnose run` for the steps that are recorded or sampled."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

from diagnose.cli.command import Option
from diagnose.probes import protocol

SETTLED = "--at-step records whether or not step times have settled, so that --skip has no effect"


def window_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options above those that the command has."""
    options = (
        click.option(
            "--steps",
            metavar="N",
            type=click.IntRange(min=1),
            default=None,
            help=f"Record N steps (default {protocol.STEPS}, or {protocol.STEPS_OF_RANKS} of each of several ranks); "
            "the first of three or more is not counted.",
        ),
        click.option(
            "--warmup",
            metavar="N",
            type=click.IntRange(min=1),
            default=protocol.WARMUP,
            help="Run N steps with the profiler on before those, at least one: without any the start of torch's "
            f"profiler would be in the first recorded step (default: {protocol.WARMUP}).",
        ),
        click.option(
            "--skip",
            cls=Option,
            idle_with={"at_steps": SETTLED, "arm": "--skip is of a run with one window, and --arm opens many"},
            metavar="N",
            type=click.IntRange(min=0),
            default=protocol.SKIP,
            help=f"Wait at most N steps for step times to settle (default: {protocol.SKIP}).",
        ),
        click.option(
            "--at-step",
            "at_steps",
            metavar="K",
            multiple=True,
            type=click.IntRange(min=1),
            help="Record from step K on, settled or not. May be repeated with --arm.",
        ),
        click.option(
            "--step-on",
            type=click.Choice((protocol.BY_OPTIMIZER, protocol.BY_BACKWARD)),
            default=protocol.BY_OPTIMIZER,
            help="Let this end a step: the optimizer or the trainer (default), or each backward pass, for loops that "
            "update their parameters themselves. A loop that makes no optimizer of torch needs no option.",
        ),
        click.option(
            "--sample-steps",
            cls=Option,
            idle_with={"no_sampling": ""},
            metavar="N",
            default=None,
            type=click.IntRange(min=0),
            help="Sample the stack of the training thread in at most N steps after the window (default: for two "
            "seconds, which are 200 samples).",
        ),
    )
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)
