"""Findings and comparisons as annotations of a GitHub workflow: lines that its runner shows beside the code."""

from collections.abc import Callable
from itertools import islice

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.comparison import Comparison
from diagnose.report.views.brief import brief
from diagnose.report.views.changes import Full, findings_view
from diagnose.report.views.comparison import headline
from diagnose.report.views.plain import plain

MOST_OF_A_LEVEL = 10  # of one step; the runner shows no more
_LEVELS = {"critical": "error", "warning": "warning", "info": "notice"}
_OF_VERDICTS = {"better": "notice", "no_difference": "notice", "worse": "warning", "not_comparable": "warning"}


def annotations(diagnosis: Diagnosis, here: Callable[[str], str]) -> list[str]:
    """A notice with the verdict, then each finding at its line of code; critical ones are errors.

    Args:
        diagnosis: what is told.
        here: a file of the job by its path in the checkout, "" where it is not there.
    """
    found = [_annotation(full, here) for full in findings_view(diagnosis)]
    lines = [_command("notice", "diagnose", brief(diagnosis))]
    for level in _LEVELS.values():
        lines += islice((line for line in found if line.startswith(f"::{level} ")), MOST_OF_A_LEVEL)
    return lines


def compared_annotation(comparison: Comparison, regression: str) -> str:
    """The headline of a comparison; an error where `regression` says why it is one."""
    level = "error" if regression else _OF_VERDICTS[comparison.verdict]
    told = ". ".join(filter(None, (headline(comparison), regression and f"Regression: {regression}")))
    return _command(level, "diagnose", told)


def _annotation(full: Full, here: Callable[[str], str]) -> str:
    finding = full.finding
    at = next(((file, code.line) for code in finding.where if (file := here(code.file))), None)
    told = f"{finding.says} {full.headline.line}".strip()
    return _command(_LEVELS[finding.severity], f"diagnose: {finding.rule}", told, at)


def _command(level: str, title: str, text: str, at: tuple[str, int] | None = None) -> str:
    place = f"file={_property(at[0])},line={at[1]}," if at else ""
    return f"::{level} {place}title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    """On one line, in which nothing is another command."""
    return plain(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
