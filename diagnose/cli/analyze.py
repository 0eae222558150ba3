"""`diagnose analyze`: traces in, diagnosis out."""

import contextlib
import resource
from pathlib import Path

import click

from diagnose import analysis
from diagnose.cli.ending import writing
from diagnose.cli.numbers import MEMORY, stated_options
from diagnose.cli.rules import rules_option
from diagnose.cli.terminal import announced, terminal
from diagnose.diagnosis import Diagnosis, to_json
from diagnose.report.text import render, render_brief
from diagnose.trace import Loading, displayed

_SEVERITIES = ("info", "warning", "critical")


@click.command(epilog="Example:  diagnose analyze runs/llama/ --flops-per-step 4.2e15 --fail-on critical")
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print the diagnosis as one JSON object on stdout.")
@click.option("--details", is_flag=True, help="Print everything: all findings, causes, ranks and reasons.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the verdict and the next change.")
@rules_option
@click.option("--run", metavar="NAME", help="Which run, when PATH holds the traces of several.")
@click.option("--no-cache", is_flag=True, help="Parse the traces anew, and keep nothing of them on disk.")
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1, 256),
    help="Parse with N processes: a trace each, or a share each of one.  [default: by size and idle cores, 4 at most]",
)
@click.option(
    "--low-memory",
    "memory",
    metavar="BYTES",
    type=MEMORY,
    help="Take at most so much memory, such as 4G, 256M at least: columns go to disk, Python functions are left out.",
)
@click.option("--python-functions", is_flag=True, help="With --low-memory, keep the events of Python functions.")
@stated_options
@click.option(
    "--fail-on",
    type=click.Choice(_SEVERITIES[::-1]),
    help="Exit with 1 when a finding is this severe or more.",
)
def analyze(
    path: str,
    as_json: bool,
    details: bool,
    quiet: bool,
    rules_dirs: tuple[Path, ...],
    run: str | None,
    no_cache: bool,
    jobs: int | None,
    memory: float | None,
    python_functions: bool,
    fail_on: str | None,
    **stated: float | None,
) -> None:
    """Say why a training job is slow and what to change next.

    PATH is a trace of torch.profiler (.json, .json.gz or .json.zst) or a folder with one trace per rank, here
    or at a URL (s3://, gs://, hf://, ssh://, http://).

    \b
    Exit codes:
      0    the analysis ran
      1    --fail-on was hit
      2    wrong usage
      3    the input cannot be used, or the output not written
      70   a defect of diagnose
      130  interrupted
    """
    if as_json + details + quiet > 1:
        raise click.UsageError("Choose one of --json, --details and --quiet.")
    with announced(Path(displayed(path)), wanted=not quiet) as watch:
        loading = Loading(not no_cache, jobs, watch, _limited(memory), python_functions)
        options = analysis.Options(rules_dirs=rules_dirs, run=run, loading=loading, **stated)
        diagnosis = analysis.analyze(path, options=options)
    with writing():
        if as_json:
            click.echo(to_json(diagnosis).encode())
        elif quiet:
            render_brief(diagnosis, terminal())
        else:
            render(diagnosis, terminal(), details=details)
    if fail_on and _worst(diagnosis) >= _SEVERITIES.index(fail_on):
        click.get_current_context().exit(1)


def _limited(memory: float | None) -> int | None:
    """The bytes that the process may take for itself, from now on: what would take more ends with an error."""
    if memory is None:
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (int(memory), hard))
    return int(memory)


def _worst(diagnosis: Diagnosis) -> int:
    return max((_SEVERITIES.index(finding.severity) for finding in diagnosis.findings), default=-1)
