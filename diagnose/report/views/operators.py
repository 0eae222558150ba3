"""The longest operators of a job without GPU activity, in a line."""

from diagnose.diagnosis import Diagnosis, OperatorRow
from diagnose.facts import spoken
from diagnose.report.views.breakdown import basis
from diagnose.report.views.plain import plain

NAMED = 3
LEAST_SHARE = 0.05  # of the step: a shorter operator explains nothing


def longest_operators(diagnosis: Diagnosis) -> list[str]:
    """The longest operators with their share of the step; none that takes less than a twentieth of it."""
    longest = [row for row in diagnosis.host_operators if row.name and row.share >= LEAST_SHARE][:NAMED]
    return list(map(_spelled, longest))


def longest_operators_line(diagnosis: Diagnosis) -> str:
    """The same in a sentence with what the shares are of, "" if there are none."""
    longest = longest_operators(diagnosis)
    return f"longest: {', '.join(longest)} of the {basis(diagnosis).name}" if longest else ""


def _spelled(row: OperatorRow) -> str:
    what = f" ({row.kind})" if row.kind else ""
    return f"{plain(row.name)}{what} {spoken(row.share, 'share')}"
