"""Facts of steps that the profiler makes much longer: no share of them is the job's own."""

from collections.abc import Sequence
from statistics import fmean

from msgspec.structs import replace

from diagnose.facts import HOST_STEP, STEP, Facts
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

    Without a GPU, some come from the ranges of steps without the profiler. Other facts of a step, such as MFU, are
    those of the step without it.
    """
    distortion = job.view.distortion
    if distortion is None:
        return facts
    why, told = distorted_by(distortion), _shares_in_ranges([job.ranks[position] for position in positions])
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
