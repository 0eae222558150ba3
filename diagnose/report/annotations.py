"""Findings as annotations of a GitHub workflow: lines that its runner shows next to the code."""

from collections.abc import Callable
from itertools import islice

from diagnose.diagnosis import Diagnosis
from diagnose.report.views.brief import brief
from diagnose.report.views.changes import Full, findings_view
from diagnose.report.views.plain import plain

MOST_OF_A_LEVEL = 10  # of one step; the runner shows no more
_LEVELS = {"critical": "error", "warning": "warning", "info": "notice"}


def annotations(diagnosis: Diagnosis, here: Callable[[str], str]) -> list[str]:
    """A notice with the verdict, then each finding at its line of code; critical ones are errors.

    Args:
        diagnosis: the diagnosis to annotate.
        here: maps a file of the job to its path in the checkout, "" if it is not there.
    """
    found = [_annotation(full, here) for full in findings_view(diagnosis)]
    lines = [command_line("notice", "diagnose", brief(diagnosis))]
    for level in _LEVELS.values():
        lines += islice((line for line in found if line.startswith(f"::{level} ")), MOST_OF_A_LEVEL)
    return lines


def _annotation(full: Full, here: Callable[[str], str]) -> str:
    finding = full.finding
    at = next(((file, code.line) for code in finding.where if (file := here(code.file))), None)
    text = f"{finding.says} {full.headline.line}".strip()
    return command_line(_LEVELS[finding.severity], f"diagnose: {finding.rule}", text, at)


def command_line(level: str, title: str, text: str, at: tuple[str, int] | None = None) -> str:
    """The workflow command that shows `text` at a file and a line.

    Args:
        level: "error", "warning" or "notice".
    """
    place = f"file={_property(at[0])},line={at[1]}," if at else ""
    return f"::{level} {place}title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    """The text on one line, escaped so that nothing in it is another command."""
    return plain(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
