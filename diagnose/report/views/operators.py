"""The longest operators of a job without GPU activity, in a line."""

from diagnose.diagnosis import Diagnosis, OperatorRow
from diagnose.facts import spoken
from diagnose.report.views.breakdown import basis
from diagnose.report.views.plain import plain

NAMED = 3
LEAST_SHARE = 0.05  # of the step: a shorter operator explains nothing


def longest_operators_line(diagnosis: Diagnosis) -> str:
    """The longest operators with their share of the step, "" if none takes a twentieth of it."""
    longest = [row for row in diagnosis.host_operators if row.name and row.share >= LEAST_SHARE][:NAMED]
    if not longest:
        return ""
    return f"longest: {', '.join(map(_spelled, longest))} of the {basis(diagnosis).name}"


def _spelled(row: OperatorRow) -> str:
    what = f" ({row.kind})" if row.kind else ""
    return f"{plain(row.name)}{what} {spoken(row.share, 'share')}"
