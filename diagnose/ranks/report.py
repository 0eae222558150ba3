"""The joined job as the Diagnosis holds it."""

from collections.abc import Sequence

from diagnose.postmortem import Postmortem
from diagnose.ranks.job import Job
from diagnose.ranks.straggler_report import missing_ranks, passing_of


def postmortem_of(job: Job, measured_ranks: Sequence[int]) -> Postmortem | None:
    """What is known of the job beyond its ledger; None for a single rank."""
    if len(job.ranks) < 2:
        return None
    return Postmortem(
        matched=sum(len(group.call) for group in job.match),
        missing_ranks=missing_ranks(job),
        measured_ranks=tuple(measured_ranks),
        passing=passing_of(job),
    )
