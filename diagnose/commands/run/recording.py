"""Options of `diagnose run` that limit the recording: its size, and its ranks."""

from typing import Any

import click

from diagnose.cli.command import Option
from diagnose.cli.numbers import POSITIVE
from diagnose.probes import protocol
from diagnose.probes.limits.chosen_ranks import MOST_BY_DEFAULT, parsed


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
    help="Largest trace of one rank, as text before compression (default: "
    f"{protocol.BUDGET_BYTES // 1_000_000}M). A larger window loses shapes, then steps; step times are kept.",
)
ranks_option = click.option(
    "--ranks",
    cls=Option,
    idle_with=_WITHOUT_TORCH,
    metavar="RANKS",
    type=_Ranks(),
    default=None,
    help="Ranks that record: 0,8,16, one-per-node or all; the others keep step times (default: all, up to "
    f"{MOST_BY_DEFAULT}; of more, {MOST_BY_DEFAULT} spread evenly).",
)
