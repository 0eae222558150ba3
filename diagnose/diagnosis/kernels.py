"""What the device ran, by kernel, family and operator, and what bounds it."""

import msgspec

from diagnose.diagnosis.terms import Bound, Nanoseconds, Share, SliceClass


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """GPU activities of one name on a typical rank, per step; the last row sums up `names` others and has no name.

    `ns` counts the whole of each activity that begins in the counted steps, so rows of streams that run together can
    add up to more than the step; `share` is of the step. `operator` launched most of the time, "" when not known.
    `above_roof_ns` is time above max(FLOPs / peak, bytes / bandwidth), null where that is unknown.

    `occupancy` are the warps that a multiprocessor holds at once, of those that it can hold, `waves` how often the
    blocks fill the device, and `tail_share` is the share of its time in which the last wave leaves multiprocessors
    idle. They are of the launches that Kineto describes, null where there are none.
    """

    name: str
    names: int = 1
    family: str
    class_: SliceClass = msgspec.field(name="class")
    bound: Bound
    operator: str
    count: float
    ns: Nanoseconds
    share: Share
    mean_ns: Nanoseconds
    above_roof_ns: int | None
    occupancy: Share | None = None
    waves: float | None = None
    tail_share: Share | None = None


class OperatorRow(msgspec.Struct, frozen=True, kw_only=True):
    """Operators of one name on a typical rank without a GPU, per step; the last row sums up `names` others.

    `ns` is their own time, without the operators that they call, on all threads of the process: so rows can add up to
    more than the step, of which `share` is one. `shapes` are the sizes of the inputs that took most of it, such as
    "512x1024, 1024x4096", "" where they were not recorded.
    """

    name: str
    names: int = 1
    count: float
    ns: Nanoseconds
    share: Share
    mean_ns: Nanoseconds
    shapes: str


class RooflineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one family, direction and precision on the first rank, per step; or of one operator, by its sizes.

    `intensity` (FLOP per byte) is an upper bound and `gbs` a lower one: `bytes` is the least that has to move.
    `above_roof_ns` is time above max(FLOPs / peak, bytes / bandwidth). A figure is null where shapes or peaks are
    unknown; rates are over the part of the time whose cost is known.
    """

    family: str
    direction: str
    precision: str
    ns: Nanoseconds
    kernels: float
    flops: float | None
    bytes: float | None
    intensity: float | None
    tflops: float | None
    gbs: float | None
    bound: Bound
    above_roof_ns: int | None
    note: str


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Dense FLOP/s that the device does at most in one precision, and who says so."""

    precision: str
    flops_per_s: float
    source: str


class Roofs(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the kernels of `roofline`; `hbm_bytes_per_s` is null, and `hbm_source` the reason, when unknown."""

    hbm_bytes_per_s: float | None
    hbm_source: str
    peaks: tuple[Peak, ...]
