"""`diagnose analyze`: traces in, diagnosis out."""

from pathlib import Path

import click

from diagnose import analysis
from diagnose.cli.ending import writing
from diagnose.cli.numbers import stated_options
from diagnose.cli.pages import (
    STDOUT,
    html_option,
    markdown_option,
    print_markdown,
    tables_option,
    write_html,
    write_markdown,
    write_tables,
)
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
@click.option("--kernels", metavar="N", type=click.IntRange(1), help="List the N longest kernels, too.")
@html_option
@markdown_option
@tables_option
@rules_option
@click.option("--run", metavar="NAME", help="Which run, when PATH holds the traces of several.")
@click.option("--rank", metavar="N", type=click.IntRange(0), help="Diagnose this rank of the job alone.")
@click.option("--no-cache", is_flag=True, help="Parse the traces anew, and keep nothing of them on disk.")
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1, 256),
    help="Parse N traces at once, each in a process of its own.  [default: by their size, 4 at most]",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Let the workers of a Dask cluster read the traces: tcp://host:port, or the scheduler's file.",
)
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
    kernels: int | None,
    html: Path | None,
    markdown: Path | None,
    tables: Path | None,
    rules_dirs: tuple[Path, ...],
    run: str | None,
    rank: int | None,
    no_cache: bool,
    jobs: int | None,
    scheduler: str | None,
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
    if as_json + details + quiet + (markdown == STDOUT) > 1:
        raise click.UsageError("Choose one of --json, --details, --quiet and --markdown -.")
    if kernels and (as_json or quiet or markdown == STDOUT):
        raise click.UsageError("--kernels adds to the printed report: leave --json, --quiet or --markdown - away.")
    with announced(Path(displayed(path)), wanted=not quiet) as watch:
        loading = Loading(cache=not no_cache, jobs=jobs, watch=watch)
        options = analysis.Options(
            rules_dirs=rules_dirs, run=run, loading=loading, scheduler=scheduler, rank=rank, **stated
        )
        diagnosis = analysis.analyze(path, options=options)
    with writing():
        if as_json:
            click.echo(to_json(diagnosis).encode())
        elif markdown == STDOUT:
            print_markdown(diagnosis, shown=displayed(path))
        elif quiet:
            render_brief(diagnosis, terminal())
        else:
            render(diagnosis, terminal(), details=details, kernels=kernels or 0)
    if html is not None:
        write_html(diagnosis, html, shown=displayed(path))
    if markdown is not None and markdown != STDOUT:
        write_markdown(diagnosis, markdown, shown=displayed(path))
    if tables is not None:
        write_tables(diagnosis, tables)
    if fail_on and _worst(diagnosis) >= _SEVERITIES.index(fail_on):
        click.get_current_context().exit(1)


def _worst(diagnosis: Diagnosis) -> int:
    return max((_SEVERITIES.index(finding.severity) for finding in diagnosis.findings), default=-1)
