"""A job whose steps the profiler makes much longer: the part of its breakdown that is still known for unprofiled steps.

The profiler lengthens what the host does, most of all if it calls small operators, and never what the device computes.
So kernels and copies keep their time; without a GPU, ranges in steps without the profiler give some of it. The rest of
the step without the profiler is not divided by cause.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from diagnose.attribution.causes import DISTORTED, WITHOUT_KERNELS
from diagnose.ranks.digest import RankDigest
from diagnose.trace.distortion import Overhead, is_distorted


def distortion_of(ranks: Sequence[RankDigest]) -> float | None:
    """Profiled over unprofiled step time of the median rank; None if shares of its steps can be trusted.

    None, too, if the device's activity is unknown, since there are no shares then.
    """
    if any(rank.capture_failed for rank in ranks):
        return None
    factors = [rank.overhead.factor for rank in ranks if rank.overhead.factor is not None]
    factor = median(factors) if factors else None
    return factor if is_distorted(factor) else None


def undistorted_ns(rank: RankDigest, distortion: float) -> int:
    """Length of as many steps as the rank counts, without the profiler."""
    if not rank.steps:
        return 0
    return round(rank.overhead.undistorted_ns(rank.total_ns / rank.steps, distortion) * rank.steps)


def undistorted(rank: RankDigest, distortion: float) -> dict[str, int]:
    """Nanoseconds by cause of the steps without the profiler; they add up to `undistorted_ns`."""
    total = undistorted_ns(rank, distortion)
    told = _on_device(rank.ns()) if rank.has_gpu else _on_host(rank.overhead, total)
    fits = min(total / max(sum(told.values()), 1), 1.0)
    parts = {cause: int(ns * fits) for cause, ns in told.items()}
    return {**parts, DISTORTED: total - sum(parts.values())}


def _on_host(overhead: Overhead, total: int) -> dict[str, int]:
    """Nanoseconds by cause from the ranges without the profiler; causes of ranges that combine several are left out."""
    return {causes[0]: int(share * total) for causes, share in overhead.shares_in_ranges.items() if len(causes) == 1}


def _on_device(cause_ns: Mapping[str, int]) -> dict[str, int]:
    """Nanoseconds of kernels and copies; not of collectives, which also wait for ranks that the profiler delays."""
    return {cause: ns for cause, ns in cause_ns.items() if ns and cause not in WITHOUT_KERNELS}
