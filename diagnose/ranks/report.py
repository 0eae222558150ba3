"""The joined job as the Diagnosis holds it."""

from collections.abc import Sequence

from diagnose.diagnosis.postmortem import Postmortem
from diagnose.ranks.collectives.aligned_waits import AGREE, agreement
from diagnose.ranks.collectives.clocks import align, clocks_of, torn_hosts
from diagnose.ranks.collectives.mismatches import mismatches_of
from diagnose.ranks.job import Job
from diagnose.ranks.missing import missing_ranks
from diagnose.ranks.network.topology import topology_of
from diagnose.ranks.network.traffic import traffic_of
from diagnose.ranks.stragglers.straggler_report import possible_stragglers_of, transient_stragglers_of


def postmortem_of(job: Job, measured_ranks: Sequence[int], network_gbs: float | None = None) -> Postmortem | None:
    """The results on the job beyond its breakdown; None for a single rank.

    If the profiler distorts steps, they include no waiting and no traffic, since ranks wait for those that it delays.

    Args:
        job: the joined ranks.
        measured_ranks: those on which the rules were judged.
        network_gbs: stated rate of a node's network, one direction, GB/s.
    """
    if len(job.ranks) < 2:
        return None
    alignment = align(job.ranks, job.match)
    agreed = agreement(job.ranks, job.match, alignment)
    topology = topology_of(job.ranks, network_gbs)
    return Postmortem(
        matched=sum(len(group.call) for group in job.match),
        missing_ranks=missing_ranks(job.ranks),
        measured_ranks=tuple(measured_ranks),
        clocks=clocks_of(job.ranks, alignment),
        clocks_agree=None if agreed is None else agreed >= AGREE,
        mismatches=(*mismatches_of(job.ranks), *torn_hosts(job.ranks, alignment)),
        passing=transient_stragglers_of(job),
        suspected=possible_stragglers_of(job),
        traffic=traffic_of(job.ranks, job.match, topology) if job.view.distortion is None else (),
        changes=job.changes.changes,
        changes_error=job.changes.error,
        no_changes_because=job.changes.because,
    )
