"""`diagnose series`: from step times over a job to its stalls and changes."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from diagnose.cli.command import Command
from diagnose.cli.forms import json_option
from diagnose.cli.giving import Forms, give
from diagnose.commands.series.judge import judged
from diagnose.commands.series.text import render
from diagnose.series import read_runs


@click.command(cls=Command, epilog="Example:  diagnose series runs/llama/train.log")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@json_option("the findings")
@click.option(
    "--unit",
    type=click.Choice(["s", "ms", "us", "ns"]),
    help="State the unit of a time column that has none (default: s).",
)
@click.option(
    "--step-column", metavar="NAME", help="Name the column of a log with the step number (default: recognised by name)."
)
@click.option(
    "--time-column",
    metavar="NAME",
    help="Name the column of a log with times: seconds of a step, a clock, or steps per second (default: recognised by"
    " name).",
)
@click.option(
    "--samples-per-step",
    type=click.IntRange(min=2),
    metavar="N",
    help="State that the log counts samples, N in an optimizer step (default: it counts steps, unless it has a column"
    " global_batch_size that says otherwise).",
)
def series(
    paths: tuple[Path, ...],
    unit: str | None,
    step_column: str | None,
    time_column: str | None,
    samples_per_step: int | None,
    **given: Any,
) -> None:
    """Find stalls and slowdowns in the step times of a whole run.

    PATH is a log of steps (.csv, .tsv, .jsonl), the text log of a training loop (torchtitan, Megatron-LM, NeMo,
    DeepSpeed, MLPerf's MLLOG), a trainer_state.json of transformers, a TensorBoard export, a capture-rank<R>.json, or
    a folder with one of them or with the traces of several windows of a run. Several paths are runs of one job.
    """
    report = judged(read_runs(paths, unit, step_column, time_column, samples_per_step))
    give(report, Forms(text=partial(render, report)), given)
