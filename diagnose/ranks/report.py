"""The joined job as the Diagnosis holds it."""

from collections.abc import Sequence

from diagnose.postmortem import Excess, Postmortem, Straggler
from diagnose.ranks.blame import Blame
from diagnose.ranks.clocks import align, clocks_of, torn_hosts
from diagnose.ranks.job import Job
from diagnose.ranks.mismatches import mismatches_of
from diagnose.ranks.missing import missing_ranks
from diagnose.ranks.transfer import AGREE, agreement


def stragglers_of(job: Job) -> tuple[Straggler, ...]:
    """The ranks that stand out, worst first."""
    return tuple(_straggler(blame, job) for blame in job.stragglers)


def _straggler(blame: Blame, job: Job) -> Straggler:
    own = next(rank for rank in job.ranks if rank.rank == blame.rank)
    excess = sorted(blame.excess.items(), key=lambda e: -e[1])
    return Straggler(
        rank=blame.rank,
        host=own.host,
        cause=blame.cause,
        waiting_ns_caused=blame.caused_ns,
        share=blame.share,
        excess=tuple(Excess(cause=cause, ns=ns // max(own.steps, 1)) for cause, ns in excess),
    )


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
    )
