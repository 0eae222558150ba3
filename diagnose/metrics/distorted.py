"""Facts of steps that the profiler makes much longer: no share of them is the job's own."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from msgspec.structs import replace

from diagnose.attribution.causes import WITHOUT_KERNELS
from diagnose.facts import HOST_STEP, STEP, Facts
from diagnose.metrics.causes import CAUSES_OF
from diagnose.metrics.run.cadence import RUN
from diagnose.ranks import Job, RankDigest
from diagnose.trace.distortion import distorted_by

STRETCHED = (STEP, HOST_STEP, RUN, "communication time", "all-gathers after the first of a step")
BY_UNPROFILED_STEPS = ("slow_phase_run_share",)
TOLD_BY_SHARES = ("recompute_pays_off", "unobserved_decides")
OF_LATE_RANKS = (
    "heavier_stage",
    "late_in_turn",
    "most_waited_rank_share",
    "straggler_alone",
    "straggler_cause",
    "straggler_host_code",
    "straggler_reason",
    "straggler_settings",
    "straggler_where",
    "waits_in_turn",
)
TOLD_BY_RANGES = {  # facts by their causes
    ("data-wait",): "data_wait_share",
    ("logging",): "logging_share",
    ("operator-optimizer", "optimizer-host"): "cpu_optimizer_share",
}


def undistorted(facts: Facts, job: Job, positions: Sequence[int]) -> Facts:
    """The facts of the ranks at the positions, without those that depend on distorted steps, if any are distorted.

    Those of what the device computes and copies are shares of the steps without the profiler, since it does not
    lengthen that. Without a GPU, some come from the ranges of these steps. Other facts of a step, such as MFU, are
    those of the step without it.
    """
    distortion = job.view.distortion
    if distortion is None:
        return facts
    ranks = [job.ranks[position] for position in positions]
    why, told = distorted_by(distortion), _shares_in_ranges(ranks) | _shares_on_device(ranks, job.together(positions))
    others = (*TOLD_BY_SHARES, *(OF_LATE_RANKS if len(job.ranks) > 1 else ()))
    stretched = [name for name, fact in facts.items() if fact.of in STRETCHED or name in others]
    stretched = [name for name in stretched if name not in BY_UNPROFILED_STEPS]
    return {**facts, **{name: replace(facts[name], value=told.get(name, why)) for name in stretched}}


def _shares_in_ranges(ranks: Sequence[RankDigest]) -> dict[str, float]:
    """Means over the ranks, if none has a GPU and each was timed; else empty."""
    each = [rank.overhead.shares_in_ranges for rank in ranks if not rank.has_gpu]
    alike = len(each) == len(ranks)
    known = {causes: [shares[causes] for shares in each if causes in shares] for causes in TOLD_BY_RANGES}
    return {TOLD_BY_RANGES[causes]: fmean(of) for causes, of in known.items() if alike and len(of) == len(each)}


def _shares_on_device(ranks: Sequence[RankDigest], ns: Mapping[str, int]) -> dict[str, float]:
    """Facts that are shares of the device's own work, of the breakdown without the profiler, if all have a GPU."""
    total = sum(ns.values())
    if not total or not all(rank.has_gpu for rank in ranks):
        return {}
    of_device = {name: causes for name, causes in CAUSES_OF.items() if not WITHOUT_KERNELS & {*causes}}
    return {name: sum(ns.get(cause, 0) for cause in causes) / total for name, causes in of_device.items()}
