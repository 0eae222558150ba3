"""The input of metrics: one rank with its ledger, its roofline and its record.

The user's code of one rank, by what there is of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask, rows_in
from diagnose.attribution.attribution import Attribution
from diagnose.facts import Scalar, Unknown, Value
from diagnose.hardware import Device, Gpu
from diagnose.metrics.known_device import device_of
from diagnose.metrics.lines.recorded import recorded
from diagnose.metrics.lines.sampled import sampled
from diagnose.metrics.lines.user_code import ThreadWork
from diagnose.metrics.settings import Settings
from diagnose.metrics.unknowns import (
    CAPTURE_FAILED,
    NO_GPU,
    NO_RECORD,
    NOT_RECORDED,
    NOT_WATCHED,
    NOTHING_RECORDED,
    ON_THE_CPU,
    UNKNOWN_DEVICE,
)
from diagnose.ranks import JobView
from diagnose.ranks.collectives.messages import Messages, messages_of
from diagnose.roofline import Roofline, roofline_of
from diagnose.roofline.flops import CountedFlops, count
from diagnose.series.phase import NONE as NO_PHASE
from diagnose.series.phase import SlowPhase, slow_phase
from diagnose.timeline import Timeline
from diagnose.timeline.derived import Derived
from diagnose.timeline.gpu_record import GpuRecord
from diagnose.trace.distortion import overhead_of
from diagnose.trace.record import CaptureRecord
from diagnose.trace.stacks import StackSamples, of_steps, stack_samples
from diagnose.trace.vocabulary import ANNOTATIONS

_UNSEEN: Mapping[GpuRecord, Unknown] = {
    "all lost": CAPTURE_FAILED,
    "cut off": CAPTURE_FAILED,
    "unknown device": UNKNOWN_DEVICE,
    "nothing recorded": NOTHING_RECORDED,
}
_WITHOUT_GPU: Mapping[GpuRecord, Unknown] = {"unused GPU": ON_THE_CPU, "not recorded": NOT_WATCHED}


class RankCode(msgspec.Struct, frozen=True):
    """The user's code on one rank, as far as known.

    Attributes:
        training: the training thread's code, Unknown with the reason, or None if nothing ever looked for it.
        samples: the record's samples, None if it has none.
        usual, usual_samples: the same without the steps of a slow phase, which the counted steps leave out.
        slow: the same of the steps of that phase; None without one.
        recorded: the calls that a second window recorded with stacks; None without one.
    """

    training: ThreadWork | Unknown | None = None
    samples: StackSamples | None = None
    usual: ThreadWork | Unknown | None = None
    usual_samples: StackSamples | None = None
    slow: ThreadWork | Unknown | None = None
    recorded: ThreadWork | None = None

    @property
    def cost_share(self) -> float | None:
        """CPU time of the sampling over the sampled steps; None if none was done."""
        if self.samples is None or not self.samples.samples or not self.samples.wall_ms:
            return None
        return min(self.samples.cost_ms / self.samples.wall_ms, 1.0)


def code_of(
    timeline: Timeline,
    record: CaptureRecord,
    phase: SlowPhase | Unknown = NO_PHASE,
    second: ThreadWork | None = None,
) -> RankCode:
    """The user's code by the samples of the record, else by the calls of the trace or those of the `second` window,
    else the record's reason.
    """
    samples = stack_samples(record)
    by_samples = sampled(samples) if samples is not None else None
    training = by_samples if isinstance(by_samples, ThreadWork) else recorded(timeline) or second or by_samples
    if isinstance(training, Unknown) and isinstance(by_samples, Unknown):
        training = by_samples
    if samples is None or isinstance(phase, Unknown):
        return RankCode(training, samples, training, samples, recorded=second)
    usual = of_steps(samples, phase.steps, others=True)
    slow = sampled(of_steps(samples, phase.steps))
    return RankCode(training, samples, sampled(usual), usual, slow, recorded=second)


@dataclass(frozen=True)
class Measured(Derived):
    """One rank as metrics see it.

    `judged` is its roofline if the attribution has already computed it. `judged_ns` are the nanoseconds by cause of the
    ledger that the verdict is based on, of all ranks or the requested one; None if that is the rank's own. `second` is
    the code that a second window recorded with stacks. `waits_in_phase`: in the slow steps that come again it waits for
    a rank that works there.
    """

    timeline: Timeline
    attribution: Attribution
    job: JobView
    settings: Settings = field(default_factory=Settings)
    record: CaptureRecord = field(default_factory=CaptureRecord)
    judged: Roofline | None = None
    judged_ns: Mapping[str, int] | None = None
    second: ThreadWork | None = None
    waits_in_phase: bool = False

    @cached_property
    def cause_ns(self) -> Mapping[str, int]:
        """Nanoseconds of each cause over the counted steps."""
        return self.attribution.ns()

    def share(self, *causes: str) -> float:
        """Share of the counted steps attributed to the causes."""
        return self.attribution.share(sum(self.cause_ns.get(c, 0) for c in causes))

    def class_share(self, class_: str) -> float:
        """Share of the counted steps attributed to causes of a class."""
        causes = zip(self.attribution.causes, self.attribution.classes, strict=True)
        return self.share(*(cause for cause, of_cause in causes if of_cause == class_))

    def share_of(self, activities: Mask | Unknown) -> float | Unknown:
        """Time in which any of a group of kernels runs, of the counted steps: on several streams they overlap."""
        if isinstance(activities, Unknown):
            return activities
        run = activities & self.in_steps
        return self.pieces_share(iv.intervals(self.timeline.gpu.start[run], self.timeline.gpu.end[run]))

    def running_share(self, rows: Ints) -> float:
        """Time in which any of these events of the host runs, of the counted steps."""
        trace = self.timeline.trace
        return self.counted_share(iv.intervals(trace.ts[rows], trace.ends(rows)))

    def in_steps_of_host(self, rows: Ints) -> Ints:
        """The events of the host among these rows that begin in the counted steps."""
        return rows[iv.which_holds(self.timeline.steps.host, self.timeline.trace.ts[rows]) >= 0]

    def operators_share(self, rows: Ints) -> float | Unknown:
        """Kernels launched in these operators or, without a GPU, the operators themselves, of the counted steps."""
        if not self.timeline.has_gpu:
            return self.device_unseen or self.running_share(rows)
        trace = self.timeline.trace
        return self.share_of(self.timeline.launched_in(iv.intervals(trace.ts[rows], trace.ends(rows))) & self.kernels)

    def counted_share(self, instants: iv.Intervals) -> float:
        """The part of these instants that lies in counted steps, of the counted steps."""
        return self.pieces_share(iv.intersect(instants, self.attribution.counted))

    def pieces_share(self, pieces: iv.Intervals) -> float:
        """The pieces of time, of the counted steps."""
        return min(self.attribution.share(iv.total(pieces)), 1.0)

    @cached_property
    def user_code(self) -> RankCode:
        """The lines of the user's code in which the time goes."""
        return code_of(self.timeline, self.record, self.slow_phase, self.second)

    @cached_property
    def slow_phase(self) -> SlowPhase | Unknown:
        """The phase that comes every so many steps."""
        return slow_phase(self.record)

    @property
    def step_s(self) -> float:
        """Mean seconds of a counted step; without the profiler if that distorts the steps."""
        profiled_ns = self.timeline.steps.each(max(self.attribution.total_ns, 1))
        if self.job.distortion is None:
            return profiled_ns / 1e9
        return overhead_of(self.record).undistorted_ns(profiled_ns, self.job.distortion) / 1e9

    @property
    def accounted_ns(self) -> float:
        """Length of as many of these steps as are counted: what shares of the step are shares of."""
        if self.job.distortion is None:
            return max(self.attribution.total_ns, 1)
        return self.step_s * max(self.timeline.steps.count, 1) * 1e9

    def ranges(self, pattern: str) -> iv.Intervals:
        """The instants on the host at which a range whose name matches is open; nested ones are one."""
        trace, rows = self.timeline.trace, self.timeline.rows_matching(pattern, *ANNOTATIONS)
        return iv.intervals(trace.ts[rows], trace.ends(rows))

    def recorded(self, value: Scalar | None) -> Value:
        """The setting that the record holds, or why it is not known."""
        return self.unrecorded if value is None else value

    @property
    def unrecorded(self) -> Unknown:
        """The reason why a setting is not known."""
        return NOT_RECORDED if self.record else NO_RECORD

    @cached_property
    def without_gpu(self) -> Unknown | None:
        """The reason why facts of the GPU are unknown, None if they can be measured."""
        if self.timeline.has_gpu:
            return None
        return self.device_unseen or _WITHOUT_GPU.get(self.timeline.gpu_record, NO_GPU)

    @property
    def device_unseen(self) -> Unknown | None:
        """The reason why nothing is known of the device that the job ran on, or of anything; None if it is known or
        there is none.
        """
        return _UNSEEN.get(self.timeline.gpu_record)

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
        return iv.which_holds(self.timeline.windows, self.timeline.gpu.start) >= 0

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
        """For each GPU activity, the row of the innermost operator that launched it, -1 if it is not known.

        One operator may launch many kernels.
        """
        return self.roofline.operator

    @cached_property
    def operators(self) -> Ints:
        """Rows of the operators that launched kernels in the counted steps, ascending."""
        rows, there = self.operator[self.kernels], np.zeros(len(self.timeline.trace), bool)
        there[rows[rows >= 0]] = True
        return rows_in(np.flatnonzero(there), len(there))

    @cached_property
    def roofline(self) -> Roofline:
        """The work and bytes of the kernels, compared with the peaks of the device."""
        return self.judged or roofline_of(self.timeline, self.device)
