"""The work of the device by kernel, family and operator, and the bound of each."""

import msgspec

from diagnose.diagnosis.terms import Bound, Nanoseconds, Share, SliceClass


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """GPU activities of one name on a typical rank, per step; the last row sums up `names` others and has no name.

    `ns` counts the whole of each activity that begins in the counted steps, so rows of streams that run together can
    add up to more than the step; `share` is of the step. `operator` is the one that launched most of the time, "" if
    not known. `above_roof_ns` is time above max(FLOPs / peak, bytes / bandwidth), null if that is unknown.

    `occupancy` is the share of a multiprocessor's warps that are resident at once, `waves` how many times the blocks
    fill the device, and `tail_share` the share of the time in which the last wave leaves multiprocessors idle. They
    cover the launches that Kineto describes, and are null if there are none.
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

    `ns` is their own time, without the operators that they call, on all threads of the process, so rows can add up to
    more than the step; `share` is of the step. `kind` says what they do, such as "matrix products", "random numbers" or
    "indexing", "" of the row for the others. `shapes` are the sizes of the inputs that took most of it, such as
    "512x1024, 1024x4096", "" if they were not recorded.
    """

    name: str
    names: int = 1
    count: float
    ns: Nanoseconds
    share: Share
    mean_ns: Nanoseconds
    shapes: str
    kind: str = ""


class RooflineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one family, direction and precision on the first rank, per step; or those of one operator and size.

    `intensity` (FLOP per byte) is an upper bound and `gbs` a lower one: `bytes` is the least that has to move.
    `above_roof_ns` is time above max(FLOPs / peak, bytes / bandwidth). A figure is null if shapes or peaks are unknown;
    rates are over the part of the time whose cost is known.
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
    """The highest dense FLOP/s of the device in one precision, and the source of that figure."""

    precision: str
    flops_per_s: float
    source: str


class Roofs(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the kernels in `roofline`; if `hbm_bytes_per_s` is null, `hbm_source` is the reason."""

    hbm_bytes_per_s: float | None
    hbm_source: str
    peaks: tuple[Peak, ...]
