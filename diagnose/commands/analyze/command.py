"""`diagnose analyze`: traces in, diagnosis out."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from diagnose import analysis
from diagnose.cli.announcing import announced
from diagnose.cli.command import Command, Option
from diagnose.cli.exit_status import writing
from diagnose.cli.forms import STDOUT, annotations_option, fail_on_option, json_option, page_options
from diagnose.cli.giving import Forms, show, write_files
from diagnose.cli.loading import limited, loading_of, loading_options
from diagnose.cli.numbers import STATED, stated_options
from diagnose.cli.rule_files import rules_option
from diagnose.cli.severity import is_as_severe
from diagnose.commands.annotate.option import annotate_option, annotated
from diagnose.commands.armed.arming import is_armed, show_armed
from diagnose.commands.hta.option import critical_path_at, refuse_without_hta
from diagnose.commands.ledger.option import ledger_option, with_track_records
from diagnose.diagnosis import Diagnosis
from diagnose.trace import Loading, displayed, is_stream

if TYPE_CHECKING:
    from rich.console import Console

    from diagnose.report.tables import CapacityTable
    from diagnose.report.views.summary import About


@click.command(cls=Command, epilog="Example:  diagnose analyze runs/llama/ --flops-per-step 4.2e15 --fail-on critical")
@click.argument("path", type=click.Path(readable=False))
@json_option("the diagnosis")
@click.option("--details", is_flag=True, help="Print everything: every row, finding, reason and stack.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the verdict, its reason, the next change and its gain.")
@click.option("--kernels", metavar="N", type=click.IntRange(1), help="Also list the N longest kernels.")
@click.option("--critical-path", is_flag=True, help="Also print the critical path of one step; needs the extra hta.")
@annotations_option
@page_options
@annotate_option
@click.option(
    "--run",
    metavar="NAME",
    help="Choose a run or a window, if PATH has several (default: the last window).",
)
@click.option("--rank", metavar="N", type=click.IntRange(0), help="Diagnose only this rank of the job.")
@click.option(
    "--step",
    cls=Option,
    idle_with={"critical_path": "--critical-path is that of a typical step"},
    metavar="K",
    type=click.IntRange(0),
    help="Count only this step, by its number.",
)
@rules_option
@stated_options
@click.option(
    "--metrics",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read GPU readings kept by a monitor: the output of DCGM's exporter, or an answer of Prometheus as JSON.",
)
@click.option(
    "--torch-trace",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Read the folder that TORCH_TRACE wrote, for graph breaks and recompilations of torch.compile.",
)
@loading_options
@ledger_option("Do not quote earlier predictions (see diagnose ledger).")
@fail_on_option
def analyze(path: str, fail_on: str | None, **given: Any) -> None:
    """Explain why a training job is slow, from its trace, and what to change first.

    PATH is a trace of torch.profiler (.json, .json.gz or .json.zst), an Nsight Systems export (.sqlite), a folder
    with one trace per rank, a pipe, or - for standard input. Traces and folders may be at a URL (s3://, gs://, hf://,
    ssh://, http://). For the folder of `diagnose run --arm` the report has the step times and each
    window; RUN/step-K is one of its windows.

    \b
    Exit codes:
      0    the analysis ran
      1    --fail-on was hit
      2    wrong usage
      3    the input cannot be used, or the output not written
      70   a bug in diagnose
      130  interrupted
    """
    _check(given)
    if given["run"] is None and is_armed(path):
        code = show_armed(path, {**given, "fail_on": fail_on}, options_of(given, loading_of(given, None)))
        click.get_current_context().exit(code)
    if given["critical_path"]:
        if is_stream(path):
            raise click.UsageError("--critical-path reads the traces twice: write them to a file first.")
        refuse_without_hta()
    with announced(Path(displayed(path)), wanted=not given["quiet"]) as watch:
        loading = loading_of(given, watch)
        with limited(loading.memory_bytes):
            diagnosis = with_track_records(_diagnosed(path, given, loading), given["no_ledger"])
    forms = _forms(diagnosis, given)
    show(diagnosis, forms, given, displayed(path))
    if given["critical_path"]:
        _show_critical_path(diagnosis, path, given, loading)
    write_files(forms, given, displayed(path), reads=[Path(file) for file in _files_of(diagnosis)])
    if fail_on and is_as_severe(diagnosis, fail_on):
        click.get_current_context().exit(1)


def _files_of(diagnosis: Diagnosis) -> list[str]:
    """The traces that were read, of all windows."""
    return [*diagnosis.trace.files, *(file for window in diagnosis.windows for file in window.files)]


def _check(given: Mapping[str, Any]) -> None:
    """Refuses options that contradict each other, before anything is read."""
    to_stdout = given["markdown"] == STDOUT
    if given["as_json"] + given["details"] + given["quiet"] + given["annotations"] + to_stdout > 1:
        raise click.UsageError("Choose one of --json, --details, --quiet, --annotations and --markdown -.")
    if given["as_json"] or given["quiet"] or given["annotations"] or to_stdout:
        for name in ("kernels", "critical_path"):
            if given[name]:
                option = "--" + name.replace("_", "-")
                raise click.UsageError(
                    f"{option} adds to the printed report: leave out --json, --quiet, --annotations and --markdown -."
                )


def _diagnosed(path: str, given: Mapping[str, Any], loading: Loading) -> Diagnosis:
    options = options_of(given, loading)
    if given["annotate"] is not None:
        return annotated(path, options, given["annotate"])
    return analysis.analyze(path, options=options)


def options_of(given: Mapping[str, Any], loading: Loading) -> analysis.Options:
    """The analysis options that the command's options state."""
    from diagnose.cli.measured_machines import measured_machines

    names = ("rules_dirs", "run", "rank", "step", "scheduler", *STATED)
    beside: dict[str, Any] = {
        "measured": measured_machines(),
        "monitored": _monitored(given["metrics"]) if given["metrics"] is not None else None,
        "torch_traces": _torch_traces(given["torch_trace"]) if given["torch_trace"] is not None else None,
    }
    return analysis.Options(loading=loading, **beside, **{name: given[name] for name in names})


def _monitored(metrics: Path) -> Any:
    from diagnose.trace.exported import monitored

    return monitored(metrics)


def _torch_traces(folder: Path) -> Any:
    from diagnose.trace.torch_trace import torch_traces

    return torch_traces(folder)


def _forms(diagnosis: Diagnosis, given: Mapping[str, Any]) -> Forms:
    return Forms(
        text=partial(_print, diagnosis, given),
        page=partial(_page, diagnosis),
        markdown=partial(_markdown, diagnosis),
        annotations=partial(_annotations, diagnosis),
        tables=partial(_tables, diagnosis),
    )


def _print(diagnosis: Diagnosis, given: Mapping[str, Any], console: "Console") -> None:
    from diagnose.report.text import render, render_brief

    if given["quiet"]:
        render_brief(diagnosis, console)
    else:
        render(diagnosis, console, details=given["details"], kernels=given["kernels"] or 0)


def _page(diagnosis: Diagnosis, about: "About") -> str:
    from diagnose.report.html import page

    return page(diagnosis, about)


def _markdown(diagnosis: Diagnosis, about: "About") -> str:
    from diagnose.report.markdown import markdown

    return markdown(diagnosis, about)


def _annotations(diagnosis: Diagnosis) -> list[str]:
    from diagnose.report.annotations import annotations

    return annotations(diagnosis, here)


def _tables(diagnosis: Diagnosis) -> "Mapping[str, CapacityTable]":
    from diagnose.report.tables import tables_of

    return tables_of(diagnosis)


def _show_critical_path(diagnosis: Diagnosis, path: str, given: Mapping[str, Any], loading: Loading) -> None:
    from diagnose.cli.terminal import terminal
    from diagnose.commands.hta.text import render_critical_path, render_no_critical_path

    distortion = diagnosis.steps.distortion
    if distortion is not None:
        with writing():
            render_no_critical_path(distortion, terminal())
        return
    found = critical_path_at(path, given["run"], loading, given["rank"])
    with writing():
        render_critical_path(found, terminal())


# Annotations that a GitHub workflow shows next to the code of a pull request, at its file and line.


def here(file: str) -> str:
    """The longest end of a path of the training's machine that is a file below the working folder, "" without one."""
    parts = PurePosixPath(file.replace("\\", "/")).parts
    if ".." in parts or "\0" in file:
        return ""
    ends = (PurePosixPath(*parts[i:]) for i in range(len(parts)) if parts[i] != "/")
    return next((str(end) for end in ends if os.path.isfile(end)), "")
