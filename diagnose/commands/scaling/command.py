"""`diagnose scaling`: from runs of a job at several sizes to other sizes, the network wall and GPU counts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from diagnose import analysis
from diagnose.cli.announcing import announced
from diagnose.cli.command import Command, is_given, refuse_given
from diagnose.cli.forms import json_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.loading import OF_TRACES, limited, loading_of, loading_options
from diagnose.cli.numbers import POSITIVE, check_purposes, cost_options, purpose_options
from diagnose.commands.scaling.judge import report_of
from diagnose.commands.scaling.question import ScalingQuestion
from diagnose.commands.scaling.table import RowChoice, is_table_of_runs, read_table
from diagnose.commands.scaling.text import render
from diagnose.errors import UserError, printable, shown_path
from diagnose.predict.costs import Tariff
from diagnose.predict.growth import RUN_NOISE
from diagnose.predict.job_run import MOST_GPUS, JobRun, JobRuns
from diagnose.predict.planned_run import planned_runs
from diagnose.predict.run_of_diagnosis import run_of
from diagnose.series import Series, read_without_traces

_STATED = re.compile(r"(\d{1,7})=(.+)", re.DOTALL)


@click.command(
    cls=Command, epilog="Example:  diagnose scaling ladder.csv --deadline 12h --tokens 10B --gpu-hour-price 2"
)
@click.argument("runs", metavar="[N=]RUN...", nargs=-1, required=True)
@json_option()
@click.option("--up-to", metavar="N", type=click.IntRange(2, MOST_GPUS), help="Look at up to N GPUs.")
@purpose_options
@click.option("--tokens-per-step-per-gpu", metavar="F", type=POSITIVE, help="State the tokens in a step of one GPU.")
@click.option(
    "--global-tokens-per-step", metavar="F", type=POSITIVE, help="State the tokens in a step of the whole job."
)
@click.option(
    "--where", metavar="COLUMN=TEXT", multiple=True, help="Use only rows of a table that hold TEXT in COLUMN."
)
@click.option(
    "--by",
    metavar="COLUMN",
    multiple=True,
    help="Take rows with another value in this column of a table as another job (default: in any setting).",
)
@cost_options
@loading_options
def scaling(runs: Sequence[str], **given: Any) -> None:
    """Show how speed and cost change with the number of GPUs.

    RUN is a diagnosis (the output of analyze --json), a folder of traces, a log of steps as `diagnose series` reads it,
    a CSV with a run in each row, or a forecast (the output of fit --json). N= states the GPUs of a run that does not
    say: 8=steps.csv.
    """
    question = _question(given)
    _refuse_idle(runs)
    report = report_of(*_read(runs, given), question)
    give(report, Forms(text=partial(render, report)), given)


def _question(given: Mapping[str, Any]) -> ScalingQuestion:
    """The question; refuses an option that lacks its other half."""
    check_purposes(given)
    if given["tokens_per_step_per_gpu"] is not None and given["global_tokens_per_step"] is not None:
        raise click.UsageError("Choose one of --tokens-per-step-per-gpu and --global-tokens-per-step.")
    return ScalingQuestion(
        tariff=Tariff.of(given),
        tokens=given["tokens"],
        deadline_h=given["deadline"],
        budget=given["budget"],
        up_to=given["up_to"],
        tokens_per_step=given["global_tokens_per_step"],
        tokens_per_step_per_gpu=given["tokens_per_step_per_gpu"],
    )


def _refuse_idle(runs: Sequence[str]) -> None:
    """Refuse options of tables if none is read, and of traces if none is analysed."""
    paths = [_gpus_and_path(stated)[1] for stated in runs]
    tables = [_is_table(path) for path in paths]
    if not any(tables):
        refuse_given(("where", "by"), "has no effect: none of the runs is a table with a run in each row.")
    context = click.get_current_context()
    if any(is_given(context, name) for name in OF_TRACES) and all(
        is_table or planned_runs(path) or read_without_traces(path) is not None
        for path, is_table in zip(paths, tables, strict=True)
    ):
        refuse_given(OF_TRACES, "has no effect: none of the runs holds traces.")


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv") and path.is_file() and is_table_of_runs(path)


def _read(runs: Sequence[str], given: Mapping[str, Any]) -> tuple[list[JobRuns], list[str], list[str]]:
    """The ladders, the files that were read, and notes on omissions."""
    choice = RowChoice(_where(given["where"]), tuple(given["by"]))
    single: list[JobRun] = []
    jobs: list[JobRuns] = []
    sources: list[str] = []
    notes: list[str] = []
    for stated in runs:
        gpus, path = _gpus_and_path(stated)
        sources.append(shown_path(path))
        if _is_table(path):
            found, told = read_table(path, choice)
            jobs += found
            notes += told
        elif planned := planned_runs(path):
            single += [_as_stated(each.job_run(shown_path(path)), gpus, path) for each in planned]
            notes.append(f"{shown_path(path)} is a forecast of diagnose fit: its sizes were not run")
        else:
            single.append(read_run(path, gpus) or _of_traces(path, gpus, given))
    if single:
        jobs.insert(0, JobRuns("", tuple(single)))
    return jobs, sources, notes


def _where(conditions: Sequence[str]) -> dict[str, str]:
    pairs = [condition.partition("=") for condition in conditions]
    for name, equals, _ in pairs:
        if not equals:
            raise click.UsageError(f"--where takes COLUMN=TEXT, not {name!r}.")
    return {name.strip(): text.strip() for name, _, text in pairs}


def _gpus_and_path(stated: str) -> tuple[int | None, Path]:
    """`8=runs/a` as 8 and runs/a; a file of exactly that name takes precedence."""
    named = _STATED.fullmatch(stated)
    if named is None or Path(stated).exists():
        return None, Path(stated)
    if int(named[1]) < 1:
        raise click.UsageError(f"A run has one GPU at least: {stated}")
    return int(named[1]), Path(named[2])


def _as_stated(run: JobRun, gpus: int | None, path: Path) -> JobRun:
    if gpus not in (None, run.gpus):
        raise UserError("the forecast is of other GPUs", where=path, why=f"it is of {run.gpus}", do="leave out N=")
    return run


def _of_traces(path: Path, gpus: int | None, given: Mapping[str, Any]) -> JobRun:
    with announced(path) as watch:
        loading = loading_of(given, watch)
        options = analysis.Options(
            loading=loading, scheduler=given["scheduler"], tokens_per_step=given["tokens_per_step_per_gpu"]
        )
        with limited(loading.memory_bytes):
            diagnosis = analysis.analyze(path, options=options)
    return with_gpus(run_of(diagnosis, shown_path(path)), gpus)


# One run from a file or folder: a diagnosis as JSON, or a log of steps. Traces are left to the analysis.


def read_run(path: Path, gpus: int | None) -> JobRun | None:
    """The run at `path`; None if it holds traces, or nothing that can be distinguished from them.

    Args:
        path: a file or folder.
        gpus: of the run, if the user states them.

    Raises:
        UserError: it cannot be read, or its GPUs are unknown.
    """
    told = read_without_traces(path)
    if isinstance(told, Series):
        return _of_log(told, path, gpus)
    return None if told is None else with_gpus(run_of(told, shown_path(path)), gpus)


def with_gpus(run: JobRun, gpus: int | None) -> JobRun:
    """The run with the user's number of GPUs; tokens per step are those of each GPU."""
    if gpus is None or gpus == run.gpus:
        return run
    tokens = None if run.tokens_per_step is None else run.tokens_per_step / run.gpus * gpus
    return replace(run, gpus=gpus, tokens_per_step=tokens)


def _of_log(series: Series, path: Path, gpus: int | None) -> JobRun:
    """The median step of a log, over the medians of its ranks.

    Raises:
        UserError: there are no step times, or the GPUs are unknown.
    """
    if not series.tracks:
        because = series.unknown.because if series.unknown else ""
        raise UserError("no step times in the log", where=path, why=because, do="log the time of every step")
    ranks = {track.rank for track in series.tracks if track.rank is not None}
    if gpus is None and not ranks:
        raise UserError("nothing tells the GPUs of the run", where=path, do=f"state them: 8={printable(str(path))}")
    medians = [float(np.median(track.seconds)) for track in series.tracks]
    return JobRun(shown_path(path), gpus or len(ranks), step_s=float(np.median(medians)), noise_share=RUN_NOISE)
