"""Command: compare two runs; which is faster, by how much, and why."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from diagnose import analysis
from diagnose.cli.announcing import announced
from diagnose.cli.command import Command, is_given, refuse_given
from diagnose.cli.forms import STDOUT, annotations_option, html_option, json_option, markdown_option, out_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.loading import OF_TRACES, limited, loading_of, loading_options
from diagnose.cli.numbers import SHARE, STATED_OF_COMPARED, compared_options
from diagnose.commands.compare.answer import Changed, Comparison
from diagnose.commands.compare.comparing import compare as compared
from diagnose.commands.compare.configuration import VERSIONS
from diagnose.commands.compare.forecasts import side_of_forecast
from diagnose.commands.compare.markdown import comparison_markdown
from diagnose.commands.compare.regression import regression
from diagnose.commands.compare.side import Side, side_of, side_of_log
from diagnose.commands.compare.text import render
from diagnose.commands.compare.views import headline
from diagnose.commands.ledger.option import ledger_option, record
from diagnose.diagnosis import Diagnosis
from diagnose.errors import shown_path
from diagnose.predict.planned_run import PlannedRun, planned_run
from diagnose.probes.apply.allowed import ALLOWED
from diagnose.report.annotations import command_line
from diagnose.series import Series, read_without_traces
from diagnose.trace import displayed, is_stream

if TYPE_CHECKING:
    from diagnose.report.views.summary import About

noise_option: Callable[[Any], Any] = click.option(
    "--noise",
    metavar="SHARE",
    type=SHARE,
    help="State how much repeats of a run differ on your machines.  [default: 1.5% with GPUs, 5% without]",
)


@click.command(cls=Command, epilog="Example:  diagnose compare runs/before/ runs/after/ --fail-on-regression 5%")
@click.argument("before", metavar="A", type=click.Path(readable=False))
@click.argument("after", metavar="B", type=click.Path(readable=False))
@json_option("the comparison")
@annotations_option
@html_option
@markdown_option
@out_option("Write the output to FILE instead of printing it.", "-o", metavar="FILE", stands_in=True)
@click.option(
    "--fail-on-regression",
    metavar="SHARE",
    type=SHARE,
    help="Exit with 1 if B is slower by more than this, beyond the noise, or cannot be compared.",
)
@noise_option
@ledger_option("Do not record in the ledger how a patch's prediction came true, if B is A with a patch.")
@compared_options
@loading_options
def compare(before: str, after: str, **given: Any) -> None:
    """Show which of two runs is faster, how certain that is, and what changed.

    A and B are each a trace, a folder with one trace per rank, a bundle of `diagnose run`, a diagnosis (the output of
    analyze --json), a log of steps as `diagnose series` reads it, or a forecast (the output of fit --json).

    \b
    Exit codes:
      0    the runs were compared, whatever came out
      1    --fail-on-regression was hit
      2    wrong usage
      3    the input cannot be used, or the output not written
      70   a bug in diagnose
      130  interrupted
    """
    refuse_two_forms(given, ("as_json", "annotations"))
    if is_stream(before) or is_stream(after):
        raise click.UsageError("A and B are compared from files: write what comes through a pipe to one first.")
    refuse_of_traces(before, after)
    one, other = run_given(before, given), run_given(after, given)
    comparison = compared(side_of_run(one, before), side_of_run(other, after), floor_share=given["noise"])
    if isinstance(other, Diagnosis) and is_patch_alone(comparison) and not given["no_ledger"]:
        record(replace(other, applied=comparison.promise and comparison.promise.applied), "compare", comparison.speedup)
    tolerance = given["fail_on_regression"]
    why = "" if tolerance is None else regression(comparison, tolerance)
    give(comparison, forms_of(comparison, why), given, displayed(before), displayed(after))
    if why:
        click.echo(f"regression: {why}", err=True)
        click.get_current_context().exit(1)


def refuse_two_forms(given: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse more than one form of output.

    Raises:
        UsageError: two of the flags `names` are given, or one together with `--markdown -`.
    """
    if sum(given[name] for name in names) + (given["markdown"] == STDOUT) > 1:
        listed = ", ".join(f"--{name.removeprefix('as_')}" for name in names)
        raise click.UsageError(f"Choose one of {listed} and --markdown -.")


def refuse_of_traces(*paths: str) -> None:
    """Refuse options for the analysis of traces if none of the paths holds any.

    Raises:
        UsageError: such an option is given.
        UserError: a path cannot be read.
    """
    context, names = click.get_current_context(), (*STATED_OF_COMPARED, *OF_TRACES)
    if any(is_given(context, name) for name in names) and all(run_without_traces(path) is not None for path in paths):
        refuse_given(names, "has no effect on a kept diagnosis or a log: give it to the command that reads the traces.")


def side_from(path: str, given: Mapping[str, Any]) -> Side:
    """The run at `path`, read and analysed as the options of the command state."""
    return side_of_run(run_given(path, given), path)


def run_given(path: str, given: Mapping[str, Any]) -> Diagnosis | Series | PlannedRun:
    """The diagnosis or log of the run at `path`, read and analysed as the options of the command state."""
    with announced(Path(displayed(path))) as watch:
        loading = loading_of(given, watch)
        stated = {name: given[name] for name in ("scheduler", *STATED_OF_COMPARED)}
        with limited(loading.memory_bytes):
            return run_at(path, analysis.Options(loading=loading, **stated))


def forms_of(comparison: Comparison, why: str) -> Forms:
    """The forms of the comparison; `why` it is a regression, else ""."""
    return Forms(
        text=partial(render, comparison),
        page=partial(_page, comparison),
        markdown=partial(comparison_markdown, comparison),
        annotations=lambda: (compared_annotation(comparison, why),),
    )


def _page(comparison: Comparison, about: "About") -> str:
    from diagnose.commands.compare.html import comparison_page  # its libraries load when a page is asked for

    return comparison_page(comparison, about)


# A comparison as an annotation of a GitHub workflow.

_LEVELS = {"better": "notice", "no_difference": "notice", "worse": "warning", "not_comparable": "warning"}


def compared_annotation(comparison: Comparison, regression: str) -> str:
    """The headline of a comparison; an error if `regression` gives the reason why it is one."""
    level = "error" if regression else _LEVELS[comparison.verdict]
    text = ". ".join(filter(None, (headline(comparison), regression and f"Regression: {regression}")))
    return command_line(level, "diagnose", text)


# Whether a comparison tests a prediction: one run is the other plus the patch of the prediction.

_MACHINE = ("device", "ranks")
_SETTABLE = frozenset(key for keys in ALLOWED.values() for key in keys)


def is_patch_alone(comparison: Comparison) -> bool:
    """Whether run B is run A plus a patch, as far as both records show, and the speed-up is measured.

    Other versions, another machine, or a setting with another value that the patch does not set are further changes.
    """
    prediction = comparison.promise
    if prediction is None or prediction.patched != "after" or prediction.measured is None:
        return False
    own = {key for patch in prediction.applied.patches for key in patch.set}
    machine = any(changed.what in _MACHINE for changed in comparison.work)
    return not machine and not any(_is_further(changed, own) for changed in comparison.configuration)


def _is_further(changed: Changed, own: set[str]) -> bool:
    key = changed.what.rpartition(".")[2]
    other_value = changed.before is not None and changed.after is not None
    return changed.what.startswith(VERSIONS) or (other_value and key in _SETTABLE and key not in own)


# Read a side from a path: a diagnosis as JSON, a log of steps, or traces.


def run_at(path: str, options: analysis.Options | None = None) -> Diagnosis | Series | PlannedRun:
    """The diagnosis of a file, a folder or a URL of traces; of a log, its step times alone.

    Args:
        path: a trace, a folder with one for each rank, a bundle of `diagnose run`, the output of `analyze --json`, or a
            log of steps as `diagnose series` reads it.
        options: for the analysis of traces.

    Raises:
        UserError: it cannot be read, or holds no step.
    """
    told = run_without_traces(path)
    return analysis.analyze(path, options=options) if told is None else told


def run_without_traces(path: str) -> Diagnosis | Series | PlannedRun | None:
    """The diagnosis, log or forecast at `path` if no trace has to be analysed for it; None for traces.

    Raises:
        UserError: it cannot be read.
    """
    if "://" in path or path == "-":
        return None
    return planned_run(Path(path)) or read_without_traces(Path(path))


def side_of_run(told: Diagnosis | Series | PlannedRun, path: str) -> Side:
    """The side of the diagnosis or log read from `path`.

    Raises:
        UserError: its times are impossible.
    """
    shown = shown_path(displayed(path))
    if isinstance(told, PlannedRun):
        return side_of_forecast(told, shown)
    return side_of_log(told, shown) if isinstance(told, Series) else side_of(told, shown)


def side_at(path: str, options: analysis.Options | None = None) -> Side:
    """The run at `path`, as `run_at` reads it.

    Raises:
        UserError: it cannot be read, or holds no step.
    """
    return side_of_run(run_at(path, options), path)
