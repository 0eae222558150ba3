"""Options of time in the command line that a page quotes: typed again they mean the same."""

import click
import pytest

from diagnose.cli.numbers import HOURS
from diagnose.cli.typed import options_typed


@click.command()
@click.option("--budget", type=HOURS)
@click.pass_context
def tells(context: click.Context, budget: float) -> None:
    click.echo(" ".join(options_typed(context)))


@pytest.mark.parametrize(
    ("given", "typed"),
    [("240s", "4m"), ("90s", "90s"), ("30m", "30m"), ("2h", "2h"), ("36h", "36h"), ("3d", "3d"), ("2", "2h"),
     ("0.1s", "2.77778e-05")],
)  # fmt: skip
def test_a_time_is_given_back_in_its_largest_whole_unit(given: str, typed: str) -> None:
    from click.testing import CliRunner

    assert CliRunner().invoke(tells, ["--budget", given]).output.strip() == f"--budget {typed}"
    assert HOURS.convert(typed, None, None) == pytest.approx(HOURS.convert(given, None, None), rel=1e-5)
