"""`--fail-on`: how severe a finding has to be for the exit code to say so."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from diagnose.diagnosis import Diagnosis

_SEVERITIES = ("info", "warning", "critical")
fail_on_option: Callable[[Any], Any] = click.option(
    "--fail-on",
    type=click.Choice(_SEVERITIES[::-1]),
    help="Exit with 1 if a finding is at least this severe; of an armed run, a finding of any window.",
)


def is_as_severe(diagnosis: "Diagnosis", severity: str) -> bool:
    """Whether a finding is at least so severe."""
    least = _SEVERITIES.index(severity)
    return any(_SEVERITIES.index(finding.severity) >= least for finding in diagnosis.findings)
