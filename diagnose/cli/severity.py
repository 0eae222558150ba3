"""The severity from which a finding sets the exit code."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diagnose.diagnosis import Diagnosis

SEVERITIES = ("info", "warning", "critical")


def is_as_severe(diagnosis: "Diagnosis", severity: str) -> bool:
    """Whether a finding is at least so severe."""
    least = SEVERITIES.index(severity)
    return any(SEVERITIES.index(finding.severity) >= least for finding in diagnosis.findings)
