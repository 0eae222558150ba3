"""The named ranges of the code: what the host and the device do while they are open."""

from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Nanoseconds, Share

OpenedBy = Literal["code", "torch", "diagnose"]


class RangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """Ranges of one name on a typical rank, per step; the last row sums up `names` others and has no name.

    `ns` is the time of the host's step in which one of them is open on any thread, `share` of that step. `gpu_ns` is
    the time of the GPU activities launched meanwhile, `idle_ns` the part of it in which the device is idle,
    `idle_share` of the step that the ledger divides; null without GPU activity. Ranges nest, so rows can add up to more
    than the step. `by` is who opens them: torch, the capture, or code of the job.
    """

    name: str
    names: int = 1
    by: OpenedBy
    count: float
    ns: Nanoseconds
    share: Share
    gpu_ns: Nanoseconds | None = None
    idle_ns: Nanoseconds | None = None
    idle_share: Share | None = None
