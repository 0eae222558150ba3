"""The joined job as the Diagnosis holds it."""

from collections.abc import Sequence

from diagnose.postmortem import Postmortem
from diagnose.ranks.clocks import align, clocks_of, torn_hosts
from diagnose.ranks.job import Job
from diagnose.ranks.mismatches import mismatches_of
from diagnose.ranks.missing import missing_ranks
from diagnose.ranks.straggler_report import passing_of
from diagnose.ranks.transfer import AGREE, agreement


def postmortem_of(job: Job, measured_ranks: Sequence[int]) -> Postmortem | None:
    """What is known of the job beyond its ledger; None for a single rank."""
    if len(job.ranks) < 2:
        return None
    alignment = align(job.ranks, job.match)
    agreed = agreement(job.ranks, job.match, alignment)
    return Postmortem(
        matched=sum(len(group.call) for group in job.match),
        missing_ranks=missing_ranks(job.ranks),
        measured_ranks=tuple(measured_ranks),
        clocks=clocks_of(job.ranks, alignment),
        clocks_agree=None if agreed is None else agreed >= AGREE,
        mismatches=(*mismatches_of(job.ranks), *torn_hosts(job.ranks, alignment)),
        passing=passing_of(job),
    )
