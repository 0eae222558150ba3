"""The data that joining ranks needs of each rank: kilobytes, so that thousands of ranks fit where one trace does."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, numbered, summed
from diagnose.attribution.attribution import Attribution
from diagnose.attribution.causes import EXPOSED
from diagnose.ranks.collectives.calls import RankCalls, calls_of
from diagnose.ranks.host_work import HostWork, host_work_of
from diagnose.ranks.network.ports import Ports
from diagnose.ranks.sampled_work import NO_SAMPLES, SampledWork
from diagnose.roofline import owners
from diagnose.roofline.flops import counted
from diagnose.timeline import Timeline
from diagnose.trace import Trace
from diagnose.trace.arguments import tensor_elements
from diagnose.trace.distortion import NOT_TIMED, Overhead
from diagnose.trace.execution import SHAPES_OF
from diagnose.trace.readings import GpuClock
from diagnose.trace.record_setup import RankSettings
from diagnose.trace.refused import Refused
from diagnose.trace.vocabulary import OPS

OPERATOR = "operator"
_LARGEST_SUM = 1 << 62
Work = Mapping[str, tuple[float, float, float, float]]  # of families of kernels


class DigestSource(msgspec.Struct, frozen=True):
    """The trace of a digest, the part that could not be read, and the number of events left out on request.

    `shapes_of` is the execution trace that supplied its operators' shapes, "" if they have their own, or none.
    `process` is the one of an export that it is, in words.
    """

    path: str
    events: int
    bytes: int
    lost_events: int = 0
    lost_bytes: int = 0
    truncated: bool = False
    lost_kinds: tuple[str, ...] = ()
    left_out: int = 0
    shapes_of: str = ""
    process: str = ""


class Families(msgspec.Struct, frozen=True):
    """Kernels of each family that start in each counted step, shape (steps, names): time, number, and work.

    Without a GPU the one family is the operators that ran. `elements` adds up the sizes of the tensor arguments of the
    kernels' operators and `flops` their FLOPs, once for each kernel, 0 if shapes were not recorded: they only serve to
    compare ranks.
    """

    names: tuple[str, ...]
    ns: Ints
    count: Ints
    elements: Ints
    flops: Ints


class RankDigest(msgspec.Struct, frozen=True, dict=True, weakref=True):
    """One rank of a job, reduced to the data that the join and the report need.

    Times are nanoseconds of the rank's own clock; `base_ns + time` is its wall clock. Arrays over steps are in the
    order of `numbers`.

    Attributes:
        rank: its number in the job.
        source: the file it comes from.
        host: name of the machine, "" if not recorded.
        device: name of the GPU, "CPU" without one.
        world_size: ranks of the job as the trace states it, None if it does not.
        base_ns: wall clock at time 0.
        has_gpu: whether time is accounted on the device.
        capture_failed: whether kernels were launched and none was recorded.
        is_empty: whether nothing of the host was recorded either.
        step_source: how the steps are marked.
        numbers: numbers of the counted steps, by which ranks agree on a step.
        windows: the counted steps that time is accounted on, shape (steps, 2).
        host_ns: length of the counted steps on the host.
        device_ns: their length on the device.
        causes: causes of the attribution.
        cause_ns: nanoseconds by step and cause, shape (steps, causes); a row adds up to the step.
        exposed: the instants of exposed communication.
        calls: the collectives.
        spent: for each collective and cause, nanoseconds from the beginning of the first counted step until the rank
            reached it and until it left it, shape (calls, 2, causes).
        families: kernels by family.
        lost_share: kernel launches whose activity is missing, of all launches.
        sized_share: kernel time judged by the roofline, of all kernel time.
        listed_gpus: GPUs that the trace lists of its machine.
        host_work: functions, ranges and operators of the host with most time in the counted steps.
        unknown_device: events of a device that is neither CUDA's nor ROCm's, by category.
        uncounted_ns: length of the capture before the first counted step, on the clock that time is accounted on.
        overhead: the profiled step compared with the one without the profiler.
        clock: clock of the GPU while it worked; None if not recorded.
        refused: changes that the job refuses, by its record.
        cpu_ns_per_s: CPU time per second of the rank's process and its children; None if not recorded.
        ports: the ports of its host that NCCL would use between nodes; None if not known.
        settings: recorded settings and surroundings of the rank, by path; empty without a record.
        setup: what ranks of one job have in common, in words by name, as far as it is recorded.
        sampled: its stack samples that may show saving or evaluating.
        all_rows: a number made of the dataset, if its loader draws from all of its rows; 0 if not, or not known.
    """

    rank: int
    source: DigestSource
    host: str
    device: str
    world_size: int | None
    base_ns: int
    has_gpu: bool
    capture_failed: bool
    step_source: str
    numbers: tuple[int, ...]
    windows: Ints
    host_ns: int
    device_ns: int
    causes: tuple[str, ...]
    cause_ns: Ints
    exposed: iv.Intervals
    calls: RankCalls
    spent: Ints
    families: Families
    lost_share: float = 0.0
    is_empty: bool = False
    sized_share: float = 0.0
    listed_gpus: int = 0
    host_work: HostWork = msgspec.field(default_factory=HostWork)
    unknown_device: Mapping[str, int] = msgspec.field(default_factory=dict)
    uncounted_ns: int = 0
    overhead: Overhead = NOT_TIMED
    clock: GpuClock | None = None
    refused: tuple[Refused, ...] = ()
    cpu_ns_per_s: float | None = None
    ports: Ports | None = None
    settings: RankSettings = ()
    setup: Mapping[str, str] = msgspec.field(default_factory=dict)
    sampled: SampledWork = NO_SAMPLES
    all_rows: float = 0

    @property
    def total_ns(self) -> int:
        """Length of the counted steps that time is accounted on."""
        return int((self.windows[:, 1] - self.windows[:, 0]).sum())

    @property
    def steps(self) -> int:
        """Number of counted steps."""
        return len(self.windows)

    def work_per_step(self, numbers: Sequence[int] = ()) -> Work:
        """Time, number, elements and FLOPs of each family's kernels per given step; per any if it has none of these."""
        if (known := self._work.get(key := tuple(numbers))) is None:
            known = self._work[key] = self._work_in(key)
        return known

    @cached_property
    def _work(self) -> dict[tuple[int, ...], Work]:
        """Cache of the results so far: each late rank asks all the others."""
        return {}

    def _work_in(self, numbers: tuple[int, ...]) -> Work:
        of, chosen = self.families, np.isin(self.numbers, numbers)
        at = chosen if chosen.any() else np.ones(self.steps, bool)
        columns = (column[at].sum(axis=0) for column in (of.ns, of.count, of.elements, of.flops))
        sums = ((column / max(int(at.sum()), 1)).tolist() for column in columns)
        return dict(zip(of.names, zip(*sums, strict=True), strict=True))

    def ns(self) -> dict[str, int]:
        """Nanoseconds of each cause over the counted steps."""
        return {cause: int(n) for cause, n in zip(self.causes, self.cause_ns.sum(axis=0), strict=True)}


def digest_of(
    timeline: Timeline,
    attribution: Attribution,
    *,
    host: str = "",
    lost_share: float = 0.0,
    sized_share: float = 0.0,
    overhead: Overhead = NOT_TIMED,
    clock: GpuClock | None = None,
    refused: tuple[Refused, ...] = (),
    cpu_ns_per_s: float | None = None,
    ports: Ports | None = None,
    settings: RankSettings = (),
    setup: Mapping[str, str] | None = None,
    sampled: SampledWork = NO_SAMPLES,
    all_rows: float = 0,
) -> RankDigest:
    """The digest of one rank, from its undivided attribution."""
    calls, steps, stated = calls_of(timeline), timeline.steps, timeline.trace.distributed
    by_step, spent = _spent(attribution, calls)
    return RankDigest(
        rank=timeline.rank,
        source=_source(timeline),
        host=host,
        device=timeline.device_name,
        world_size=stated.world_size if stated else None,
        base_ns=timeline.trace.base_ns,
        has_gpu=timeline.has_gpu,
        capture_failed=timeline.capture_failed,
        step_source=steps.source,
        numbers=steps.numbers,
        windows=timeline.windows,
        host_ns=int((steps.host[:, 1] - steps.host[:, 0]).sum()),
        device_ns=int((steps.device[:, 1] - steps.device[:, 0]).sum()),
        causes=attribution.causes,
        cause_ns=by_step,
        exposed=attribution.pieces(EXPOSED),
        calls=calls,
        spent=spent,
        families=families_of(timeline),
        lost_share=lost_share,
        is_empty=timeline.is_empty,
        sized_share=sized_share,
        listed_gpus=_listed_gpus(timeline),
        host_work=host_work_of(timeline),
        unknown_device=timeline.unknown_device,
        uncounted_ns=iv.total(steps.uncounted),
        overhead=overhead,
        clock=clock,
        refused=refused,
        cpu_ns_per_s=cpu_ns_per_s,
        ports=ports,
        settings=settings,
        setup=setup or {},
        sampled=sampled,
        all_rows=all_rows,
    )


def families_of(timeline: Timeline) -> Families:
    """Kernels of each family in each counted step, without collectives and copies."""
    trace, gpu = timeline.trace, timeline.gpu
    if not timeline.has_gpu:
        rows = np.flatnonzero(trace.rows_of(*OPS))
        work = (_elements(trace, rows), _flops(timeline, rows))
        ran = FamilyWork(np.zeros(len(rows), np.int64), trace.ts[rows], trace.dur[rows], *work)
        return _families((OPERATOR,), ran, timeline.windows)
    kernels = ~gpu.is_communication & ~gpu.is_copy
    names = tuple(dict.fromkeys(kind.family for kind in gpu.kinds))
    family = np.array([names.index(kind.family) for kind in gpu.kinds], np.int64)[gpu.kind]
    rows = owners.operators(timeline)[kernels]
    work = (_elements(trace, rows), _flops(timeline, rows))
    ran = FamilyWork(family[kernels], gpu.start[kernels], (gpu.end - gpu.start)[kernels], *work)
    return _families(names, ran, timeline.windows)


class FamilyWork(msgspec.Struct, frozen=True):
    """Kernels or operators: number of the family, start, duration, elements of the operator's tensors, its FLOPs."""

    family: Ints
    start: Ints
    ns: Ints
    elements: Ints
    flops: Ints


def _families(names: tuple[str, ...], ran: FamilyWork, windows: Ints) -> Families:
    step = iv.which_holds(windows, ran.start)
    inside = step >= 0
    shape = len(windows), len(names)
    cell = step[inside] * len(names) + ran.family[inside]
    each = (ran.ns, np.ones(len(step), np.int64), ran.elements, ran.flops)
    sums = (summed(cell, _summable(values[inside]), shape[0] * shape[1]).reshape(shape) for values in each)
    return Families(names, *sums)


def _summable(values: Ints) -> Ints:
    """The values, capped if their sum would not fit 63 bits, as with sizes that were misread."""
    fits = values.sum(dtype=np.float64) < _LARGEST_SUM
    return values if fits else np.minimum(values, _LARGEST_SUM // len(values))


def _flops(timeline: Timeline, operators: Ints) -> Ints:
    """FLOPs of the operators in these rows, 0 if they are not counted."""
    priced = counted(timeline)
    if priced is None or not len(priced.rows):
        return np.zeros(len(operators), np.int64)
    at = np.minimum(np.searchsorted(priced.rows, operators), len(priced.rows) - 1)
    return np.where(priced.rows[at] == operators, priced.flops[at], 0).astype(np.int64)


def _elements(trace: Trace, operators: Ints) -> Ints:
    """Elements of the tensor arguments of the operators in these rows, 0 if they are not recorded."""
    shape = np.where(operators >= 0, trace.shape[operators], -1) if len(trace) else operators
    used, which = numbered(shape)
    size = np.array([tensor_elements(trace.shapes[s][0]) if s >= 0 else 0 for s in used.tolist()], np.int64)
    return size[which] if len(shape) else np.zeros(0, np.int64)


def _spent(attribution: Attribution, calls: RankCalls) -> tuple[Ints, Ints]:
    """Nanoseconds by cause in each counted step, and from the first on until each collective begins and until it ends.

    All instants are looked up in one pass over the pieces.
    """
    times = (*attribution.windows.T, calls.start, calls.end)
    spent = spent_before(attribution, np.concatenate(times))
    begin, end, begun, ended = np.split(spent, np.cumsum([len(each) for each in times])[:-1])
    return np.maximum(end - begin, 0), np.stack((begun, ended), axis=1)


def _source(timeline: Timeline) -> DigestSource:
    trace, loss = timeline.trace, timeline.trace.loss
    return DigestSource(
        path=trace.path,
        events=len(trace),
        bytes=trace.size,
        lost_events=loss.events,
        lost_bytes=loss.bytes,
        truncated=loss.truncated,
        lost_kinds=tuple(sorted(loss.kinds)),
        left_out=sum(trace.left_out.values()),
        shapes_of=str(trace.metadata.get(SHAPES_OF, "")),
        process=trace.recorded_process,
    )


def _listed_gpus(timeline: Timeline) -> int:
    listed = timeline.trace.metadata.get("deviceProperties")
    return len(listed) if isinstance(listed, list) else 0


# Time that a rank has spent on each cause up to given instants.


def spent_before(attribution: Attribution, times: Ints) -> Ints:
    """Nanoseconds of each cause before each of the times, shape (times, causes).

    The pieces are disjoint, so of those that began before a time only the last can still run. Each is booked whole at
    the first time behind its start, and what it has still to run is taken off there: one pass serves all causes.
    """
    order, causes = np.argsort(times, kind="stable"), len(attribution.causes)
    until, start, end, cause = times[order], attribution.start, attribution.end, attribution.cause
    before = np.diff(np.searchsorted(start, until, side="left"), prepend=0, append=len(start))
    place = np.repeat(np.arange(len(times) + 1) * causes, before) + cause
    booked = summed(place, end - start, (len(times) + 1) * causes)
    by_time = np.cumsum(booked.reshape(len(times) + 1, causes)[:-1], axis=0)
    last = np.searchsorted(start, until, side="left") - 1
    begun = np.flatnonzero(last >= 0)
    last = last[begun]
    by_time[begun, cause[last]] -= np.maximum(end[last] - until[begun], 0)
    spent = np.empty_like(by_time)
    spent[order] = by_time
    return spent
