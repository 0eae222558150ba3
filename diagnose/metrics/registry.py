"""The register of metrics, and what a metric may look at."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.attribution import Attribution
from diagnose.defects import netted
from diagnose.facts import (
    A_DEFECT,
    HOST_STEP,
    STEP,
    Fact,
    Facts,
    Scalar,
    Unknown,
    analysis_option,
    another_run,
    capture_setting,
)
from diagnose.hardware import Device, Gpu, resolve
from diagnose.ranks import JobView
from diagnose.ranks.collectives.messages import Messages, messages_of
from diagnose.roofline import Roofline, roofline_of
from diagnose.roofline.flops import CountedFlops, count
from diagnose.timeline import Timeline
from diagnose.trace.record import CaptureRecord

NO_GPU = Unknown("the trace has no GPU activity", capture_setting("ProfilerActivity.CUDA on the GPU machine"))
CAPTURE_FAILED = Unknown(
    "kernels were launched but no GPU activity was recorded (CUPTI failed or was taken by another tool)",
    another_run("capture again without Nsight or DCGM profiling attached, with at least one warm-up step"),
)
NO_PYTHON = Unknown("events of Python functions were left out to save memory", analysis_option("--python-functions"))
NO_SHAPES = Unknown("operator shapes were not recorded", capture_setting("record_shapes=True"))


@dataclass(frozen=True)
class Settings:
    """What the user states of the run.

    Attributes:
        flops_per_step: model FLOPs of one step on one rank.
        params: parameters that a token is multiplied with.
        seq_len: tokens of one sequence.
        tokens_per_step: tokens of one step on one rank, padding included.
        peak_tflops: dense half-precision peak of one device, TFLOP/s.
        hbm_gbs: memory bandwidth of one device, GB/s.
        step: number of the one step to count; None counts all that the window holds whole.
        gpu_hour_price: of one GPU, in any currency.
        network_gbs: of a node's network, all its cards together, one direction, GB/s.
    """

    flops_per_step: float | None = None
    params: float | None = None
    seq_len: float | None = None
    tokens_per_step: float | None = None
    peak_tflops: float | None = None
    hbm_gbs: float | None = None
    step: int | None = None
    gpu_hour_price: float | None = None
    network_gbs: float | None = None


def device_of(timeline: Timeline, settings: Settings, record: CaptureRecord) -> Device:
    """The device's peaks and bandwidth: as stated, as captured, then from the table."""
    properties = timeline.device_properties
    return resolve(properties, record, peak_tflops=settings.peak_tflops, hbm_gbs=settings.hbm_gbs)


@dataclass(frozen=True)
class Measured:
    """One rank as metrics see it. `judged` is its roofline where the attribution used it already."""

    timeline: Timeline
    attribution: Attribution
    job: JobView
    settings: Settings = field(default_factory=Settings)
    record: CaptureRecord = field(default_factory=CaptureRecord)
    judged: Roofline | None = None

    @cached_property
    def cause_ns(self) -> Mapping[str, int]:
        """Nanoseconds of each cause over the counted steps."""
        return self.attribution.ns()

    def share(self, *causes: str) -> float:
        """Share of the counted steps attributed to the causes."""
        return sum(self.cause_ns.get(c, 0) for c in causes) / max(self.attribution.total_ns, 1)

    def class_share(self, class_: str) -> float:
        """Share of the counted steps attributed to causes of a class."""
        causes = zip(self.attribution.causes, self.attribution.classes, strict=True)
        return self.share(*(cause for cause, own in causes if own == class_))

    @cached_property
    def without_gpu(self) -> Unknown | None:
        """Why facts of the GPU are unknown, None when they can be measured."""
        if self.timeline.has_gpu:
            return None
        return CAPTURE_FAILED if self.timeline.capture_failed else NO_GPU

    @cached_property
    def device(self) -> Device:
        """The device's peaks and bandwidth: as stated, as captured, then from the table."""
        return device_of(self.timeline, self.settings, self.record)

    @cached_property
    def gpu_info(self) -> Gpu | None:
        """The row of the peak table for this device."""
        return self.device.gpu

    @cached_property
    def flops(self) -> CountedFlops | None:
        """FLOPs counted from operator shapes."""
        return count(self.timeline)

    @cached_property
    def in_steps(self) -> Mask:
        """Mask of the GPU activities that start inside the counted steps."""
        windows, start = self.timeline.windows, self.timeline.gpu.start
        at = np.searchsorted(windows[:, 0], start, side="right") - 1
        return (at >= 0) & (start < windows[np.maximum(at, 0), 1])

    @cached_property
    def own_time(self) -> Ints:
        """For each GPU activity, its nanoseconds inside the counted steps (kernels of several streams may overlap)."""
        gpu = self.timeline.gpu
        return np.where(self.in_steps, gpu.end - gpu.start, 0)

    @cached_property
    def kernels(self) -> Mask:
        """Mask of the GPU activities in the counted steps that are neither collectives nor copies."""
        gpu = self.timeline.gpu
        return self.in_steps & ~gpu.is_communication & ~gpu.is_copy

    @cached_property
    def messages(self) -> Messages:
        """The collective kernels of the counted steps, and what they carry."""
        return messages_of(self.timeline, self.in_steps)

    @cached_property
    def operator(self) -> Ints:
        """For each GPU activity, the row of the innermost operator that launched it, -1 when it is not known.

        One operator may own many kernels.
        """
        return self.roofline.operator

    @cached_property
    def operators(self) -> Ints:
        """Rows of the operators that launched kernels in the counted steps, ascending."""
        rows = np.unique(self.operator[self.kernels])
        return rows[rows >= 0]

    @cached_property
    def roofline(self) -> Roofline:
        """What the kernels compute and move, against what the device can do."""
        return self.judged or roofline_of(self.timeline, self.device)


Value = Scalar | Unknown


@dataclass(frozen=True)
class Metric:
    """A named measurement; `of` is the denominator of a share, where STEP is the host step of a job without a GPU."""

    name: str
    unit: str
    of: str
    doc: str
    needs_gpu: bool
    function: Callable[[Measured], Value]

    def measure(self, measured: Measured) -> Fact:
        """The fact for one rank."""
        blocked = measured.without_gpu if self.needs_gpu else None
        value = blocked if blocked is not None else netted(self.name, lambda: self._measured(measured), _not_judged)
        on_host = self.of == STEP and not self.needs_gpu and not measured.timeline.has_gpu
        return Fact(self.name, value, self.unit, HOST_STEP if on_host else self.of)

    def _measured(self, measured: Measured) -> Value:
        value = _plain(self.function(measured))
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no measurement")
        return value


REGISTRY: dict[str, Metric] = {}


def metric(
    unit: str, of: str = "", *, needs_gpu: bool = True
) -> Callable[[Callable[[Measured], Value]], Callable[[Measured], Value]]:
    """Registers a function as the metric of its name; its docstring is the metric's page."""

    def register(function: Callable[[Measured], Value]) -> Callable[[Measured], Value]:
        name = function.__name__
        doc = " ".join((function.__doc__ or "").split())
        REGISTRY[name] = Metric(name, unit, of, doc, needs_gpu, function)
        return function

    return register


def measure(measured: Measured) -> Facts:
    """Every registered metric of one rank."""
    return {name: metric.measure(measured) for name, metric in REGISTRY.items()}


def merged(ranks: Sequence[Facts], weights: Sequence[float] | None = None) -> Facts:
    """Facts of the job: numbers are means over the ranks that know them, flags hold if any rank's does.

    Args:
        ranks: the facts of each.
        weights: the time accounted on each, by which shares of the step are weighted, as the ledger's are.
    """
    if len(ranks) == 1:
        return ranks[0]
    by_time = list(weights or [1.0] * len(ranks))
    return {name: _merged_fact([facts[name] for facts in ranks], by_time) for name in ranks[0]}


def _merged_fact(facts: Sequence[Fact], by_time: Sequence[float]) -> Fact:
    first = facts[0]
    values = [f.value for f in facts if not isinstance(f.value, Unknown)]
    if not values:
        return first
    if all(isinstance(v, bool) for v in values):
        return Fact(first.name, any(values), first.unit, first.of)
    if any(isinstance(v, str) for v in values):
        return Fact(first.name, Counter(values).most_common(1)[0][0], first.unit, first.of)
    weights = by_time if first.of in (STEP, HOST_STEP) else [1.0] * len(facts)
    known = [(float(f.value), w) for f, w in zip(facts, weights, strict=True) if not isinstance(f.value, Unknown)]
    mean = sum(value * weight for value, weight in known) / max(sum(weight for _, weight in known), 1e-9)
    return Fact(first.name, mean, first.unit, first.of)


def _not_judged(because: str) -> Unknown:
    return Unknown(because, A_DEFECT)


def _plain(value: Value) -> Value:
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    return float(value) if isinstance(value, np.floating) else value
