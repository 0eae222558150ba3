"""`diagnose series`: step times over a job in, the changes out."""

from pathlib import Path

import click

from diagnose.cli.exit_status import writing
from diagnose.cli.terminal import terminal
from diagnose.report.text.series import render
from diagnose.series import judged, read_series, to_json


@click.command(epilog="Example:  diagnose series runs/llama/steps.csv")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object on stdout.")
@click.option(
    "--unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Unit of times whose column states none (default: s)."
)
@click.option("--step-column", metavar="NAME", help="Column of a log that counts the steps (default: told by name).")
@click.option(
    "--time-column",
    metavar="NAME",
    help="Column of a log that tells their times: of one step, a clock, or steps per second (default: told by name).",
)
def series(path: Path, as_json: bool, unit: str | None, step_column: str | None, time_column: str | None) -> None:
    """Say since which step a job is slower, and which steps to look at.

    PATH is a log of steps (.csv, .tsv, .jsonl), a trainer_state.json of transformers, a capture-rank<R>.json, or a
    folder with one of them or with the traces of several windows of a run.
    """
    report = judged(read_series(path, unit, step_column, time_column))
    with writing():
        if as_json:
            click.echo(to_json(report).encode())
        else:
            render(report, terminal())
