"""One rank by itself: everything that can be analysed without the others."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from diagnose.arrays import Labels
from diagnose.attribution.attribution import Attribution, attribute
from diagnose.attribution.causes import UNTRACED
from diagnose.attribution.core_wait import with_core_wait
from diagnose.attribution.leading import NEAR
from diagnose.errors import WrongUsage
from diagnose.errors.defects import netted
from diagnose.hardware.named import properties_of
from diagnose.metrics.known_device import device_of
from diagnose.metrics.run.capture import lost_share
from diagnose.metrics.settings import Settings
from diagnose.ranks import RankDigest, digest_of
from diagnose.ranks.network.ports import ports_of
from diagnose.ranks.sampled_work import sampled_work
from diagnose.ranks.unlike import shared_setup
from diagnose.roofline import Roofline, roofline_of
from diagnose.series.phase import SlowPhase, slow_phase
from diagnose.timeline import Timeline, timeline_of
from diagnose.trace import Loading, Trace, load_all, ranks_of, with_shapes
from diagnose.trace.distortion import overhead_of
from diagnose.trace.readings import clock_of, process_tree_cpu_ns
from diagnose.trace.record import CaptureRecord, core_times, record_beside
from diagnose.trace.record_setup import ALL_ROWS, rank_settings
from diagnose.trace.refused import refused_by
from diagnose.trace.stacks import own_code_share, stack_samples
from diagnose.trace.vocabulary import ANNOTATIONS, EVAL, SAVE, STEP_MARKS

_TOLD = 0.5  # of the untraced time


class RankAnalysis(msgspec.Struct, frozen=True):
    """A rank's timeline, the record of its capture, and its step divided among causes.

    `roofline` is None if a defect kept it from being computed.
    """

    timeline: Timeline
    record: CaptureRecord
    roofline: Roofline | None
    attribution: Attribution

    @property
    def digest(self) -> RankDigest:
        """The rank's digest, which the join of all ranks needs."""
        return digest_of(
            self.timeline,
            self.attribution,
            host=self.record.text("host") or "",
            lost_share=lost_share(self.timeline),
            sized_share=self.roofline.judged_share if self.roofline is not None else 0.0,
            overhead=overhead_of(self.record),
            clock=clock_of(self.record),
            refused=refused_by(self.record),
            cpu_ns_per_s=process_tree_cpu_ns(self.record),
            ports=ports_of(self.record),
            settings=rank_settings(self.record),
            setup=shared_setup(self.record),
            sampled=sampled_work(stack_samples(self.record)),
            all_rows=self.record.number(ALL_ROWS) or 0,
        )


def analyses(files: Sequence[tuple[Path, int]], settings: Settings, loading: Loading) -> Iterator[RankAnalysis]:
    """Each rank of the files by itself; a file may hold several.

    Raises:
        UserError: a trace cannot be read.
    """
    traces = (_stated(trace, settings) for trace in load_all([path for path, _ in files], loading))
    for (_, rank), trace in zip(files, traces, strict=True):
        for number, part in parts_of(trace, rank).items():
            yield _analysis(timeline_of(with_shapes(part), number, settings.step_range), settings)


def _stated(trace: Trace, settings: Settings) -> Trace:
    """The trace with the device that the user states."""
    if settings.gpu is None:
        return trace
    return replace(trace, metadata={**trace.metadata, "deviceProperties": [properties_of(settings.gpu)]})


def parts_of(trace: Trace, rank: int) -> dict[int, Trace]:
    """The ranks that a file holds, by number; `rank` is the number expected of the file, or of an export's first."""
    first = rank if trace.of_nsight else 0
    return {first + at: part for at, part in ranks_of(trace).items()} or {stated_rank(trace, rank): trace}


def stated_rank(trace: Trace, otherwise: int) -> int:
    """The rank in the metadata of the trace; `otherwise` if there is no valid one."""
    stated = trace.distributed.rank if trace.distributed else None
    return otherwise if stated is None else stated


def _analysis(timeline: Timeline, settings: Settings) -> RankAnalysis:
    if settings.step is not None:
        timeline = _only(timeline, settings.step)
    record = record_beside(Path(timeline.trace.path), timeline.rank)
    if settings.monitored is not None:
        record = settings.monitored.beside(record, _captured_s(timeline))
    if settings.torch_traces is not None:
        record = settings.torch_traces.beside(record, timeline.rank)
    for kind in record.lost:
        timeline.trace.loss.count(kind)
    timeline = _of_usual_steps(timeline, record) if settings.step is None else timeline
    roofline = netted("roofline", lambda: roofline_of(timeline, device_of(timeline, settings, record)), _unjudged)
    attribution = _attributed(timeline, roofline)
    analysis = RankAnalysis(timeline, record, roofline, _with_core_wait(timeline, record, attribution))
    return as_python(analysis) if _samples_tell(record, attribution, timeline.has_gpu) else analysis


def as_python(analysis: RankAnalysis) -> RankAnalysis:
    """The rank with its untraced time as Python, since samples of the stack show the user's code there."""
    timeline = replace(analysis.timeline, python_is_sampled=True)
    attribution = _attributed(timeline, analysis.roofline)
    return RankAnalysis(
        timeline, analysis.record, analysis.roofline, _with_core_wait(timeline, analysis.record, attribution)
    )


def _attributed(timeline: Timeline, roofline: Roofline | None) -> Attribution:
    class_ = Labels.all_alike("", len(timeline.gpu)) if roofline is None else roofline.class_
    return attribute(timeline, class_)


def _with_core_wait(timeline: Timeline, record: CaptureRecord, attribution: Attribution) -> Attribution:
    """The attribution with the kernel's count of waiting for cores, if the record has it for the counted steps."""
    if timeline.steps.source not in STEP_MARKS or timeline.capture_failed:
        return attribution
    return with_core_wait(
        attribution,
        core_times(record, timeline.steps.numbers),
        on_host=not timeline.has_gpu,
        loads_itself=record.number("dataloader.num_workers") == 0,
    )


def _samples_tell(record: CaptureRecord, attribution: Attribution, has_gpu: bool) -> bool:
    """Whether the stack samples of steps without the profiler account for half of the untraced time, or more, as code
    of the user's loop.

    Without a GPU any samples say that the training thread runs Python there.
    """
    ns, samples = attribution.ns(), stack_samples(record)
    untraced = attribution.share(sum(ns.get(cause, 0) for cause in UNTRACED))
    if not has_gpu:
        return untraced > 0 and samples is not None and samples.are_enough
    return untraced > NEAR and own_code_share(samples) >= _TOLD * untraced


def _captured_s(timeline: Timeline) -> tuple[float, float] | None:
    """Begin and end of the counted steps in seconds since 1970; None if the trace has no absolute time."""
    base_ns, steps = timeline.trace.base_ns, timeline.steps.host
    if not base_ns or not len(steps):
        return None
    return (base_ns + int(steps[0, 0])) / 1e9, (base_ns + int(steps[-1, 1])) / 1e9


def _unjudged(because: str) -> Roofline | None:
    """Return no roofline after a defect; each metric that needs one then fails and reports the defect itself."""
    return None


def _of_usual_steps(timeline: Timeline, record: CaptureRecord) -> Timeline:
    """The timeline without the steps of a slow phase, which a window holds too often or not at all.

    All ranks of a job have to count the same steps, so only a job of one rank leaves them out. Evaluations and
    checkpoints have rules of their own, which are about what the window holds of them.
    """
    phase = slow_phase(record) if record.number("world_size") == 1 else None
    if not isinstance(phase, SlowPhase) or len(timeline.rows_matching(f"{EVAL}|{SAVE}", *ANNOTATIONS)):
        return timeline
    left_out = [number for number in timeline.steps.numbers if phase.holds(number)]
    return replace(timeline, steps=timeline.steps.without(left_out)) if left_out else timeline


def _only(timeline: Timeline, step: int) -> Timeline:
    """The timeline with only one step counted."""
    steps = timeline.steps.only(step)
    if not steps.count:
        counted = ", ".join(str(number) for number in timeline.steps.numbers)
        do = f"choose one of the counted steps: {counted}"
        raise WrongUsage(f"no step {step} is counted", where=timeline.trace.path, do=do)
    return replace(timeline, steps=steps)
