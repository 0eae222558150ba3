"""The joined job as the Diagnosis holds it."""

from collections.abc import Sequence

from diagnose.postmortem import Excess, Postmortem, Straggler
from diagnose.ranks.blame import Blame
from diagnose.ranks.changes import changes_of
from diagnose.ranks.job import Job
from diagnose.ranks.topology import topology_of
from diagnose.ranks.traffic import traffic_of


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


def postmortem_of(job: Job, measured_ranks: Sequence[int], network_gbs: float | None = None) -> Postmortem | None:
    """What is known of the job beyond its ledger; None for a single rank.

    Args:
        job: the joined ranks.
        measured_ranks: those on which the rules were judged.
        network_gbs: stated rate of a node's network, one direction, GB/s.
    """
    if len(job.ranks) < 2:
        return None
    topology = topology_of(job.ranks, network_gbs)
    changes = changes_of(job.ranks, job.match, _late(job), topology)
    return Postmortem(
        matched=sum(len(group.call) for group in job.match),
        missing_ranks=_missing(job),
        traffic=traffic_of(job.ranks, job.match, topology),
        changes=changes.changes,
        changes_error=changes.error,
        no_changes_because=changes.because,
        measured_ranks=tuple(measured_ranks),
    )


def _late(job: Job) -> tuple[int, ...]:
    """Positions of the ranks that stand out."""
    late = {blame.rank for blame in job.stragglers}
    return tuple(p for p, rank in enumerate(job.ranks) if rank.rank in late)


def _missing(job: Job) -> tuple[int, ...]:
    """Ranks below the stated size of the job without a trace."""
    size = max((rank.world_size or 0 for rank in job.ranks), default=0)
    return tuple(sorted(set(range(size)) - {rank.rank for rank in job.ranks}))
