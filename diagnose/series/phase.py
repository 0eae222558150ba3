"""A phase of the job that comes every so many steps: a rollout, an evaluation, the start of an epoch.

The step times are those of the whole run, as far as it was timed without the profiler; the samples of the slow steps
say what the phase does. Which slow steps are periodic, `periodic` decides, as for the log of an armed run. Batches that
come late now and then count as such a phase, at their mean distance.
"""

from collections.abc import Callable
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Floats, Ints
from diagnose.facts import Unknown, capture_setting, nothing_helps
from diagnose.probes.protocol import DATA_WAIT_RANGE
from diagnose.series.late_batches import late_batches
from diagnose.series.periodic import Beat, beats
from diagnose.series.tracks import Track
from diagnose.trace.light_steps import every_step, grown
from diagnose.trace.record import CaptureRecord, timed_steps
from diagnose.trace.stacks import WAITS, Stack, StackSamples, stack_samples

_AS_MUCH = 0.8  # of the time of late batches: then the regular distance is theirs
FEWEST_STEPS = 20  # four slow steps, five apart: with fewer none is told from chance
_WAITS_FOR_DEVICE = ("item", "cpu", "tolist", "synchronize", "to", "numpy")
NOT_TIMED = Unknown(
    "too few steps of the run were timed to find some that come again and again",
    capture_setting("diagnose run, in a run of more steps"),
)
BEHIND_THE_HOST = Unknown(
    "the slow steps of the host wait for the device, which runs behind it: they are no phase of the job",
    nothing_helps("the host's clock alone times single steps"),
)
NONE = Unknown("no step of the run is slow at a regular distance", nothing_helps("there is no such phase"))


class SlowPhase(msgspec.Struct, frozen=True, dict=True):
    """The slow steps that come every `every` steps, with the time of all steps that were timed.

    Attributes:
        number, ns: of the timed steps.
        slow: the rows of the slow ones among them.
        extra_ns: what each of these takes beyond its neighbours.
        grew: the range of the training thread that explains what they take beyond the others, "" if none does.
        waits: most samples of the slow steps show a backward pass, or a call that waits: other ranks may keep this one.
        irregular: the numbers of the slow steps if they come at no regular distance, of which `every` is the mean.
    """

    every: int
    number: Ints
    ns: Floats
    slow: Ints
    extra_ns: Floats
    grew: str = ""
    waits: bool = False
    irregular: frozenset[int] = frozenset()

    @cached_property
    def steps(self) -> frozenset[int]:
        """The numbers of the slow steps."""
        return frozenset(self.number[self.slow].tolist())

    def holds(self, step: int) -> bool:
        """Whether the step is one of them, timed or not, by the commonest place in the period if there is one."""
        if self.irregular:
            return step in self.irregular
        places, count = np.unique(self.number[self.slow] % self.every, return_counts=True)
        return step % self.every == int(places[np.argmax(count)])

    @property
    def slow_ns(self) -> float:
        """The usual time of a slow step."""
        return float(np.median(self.ns[self.slow]))

    @property
    def more_ns(self) -> float:
        """The usual time of a slow step beyond its neighbours."""
        return float(np.median(self.extra_ns))

    @property
    def usual_ns(self) -> float:
        """The usual time of the other steps."""
        return float(np.median(np.delete(self.ns, self.slow)))

    @property
    def others_mean_ns(self) -> float:
        """The mean time of the other steps."""
        return float(np.delete(self.ns, self.slow).mean())

    @property
    def run_share(self) -> float:
        """The part of a whole period that its slow step takes beyond the other steps."""
        extra = float(self.extra_ns.mean())
        return extra / (extra + self.every * self.others_mean_ns)


def slow_phase(record: CaptureRecord) -> SlowPhase | Unknown:
    """The phase with most of the run's time; Unknown if there is none."""
    regular, late = _regular(record), _late(record)
    if late is None or (isinstance(regular, SlowPhase) and regular.run_share >= _AS_MUCH * late.run_share):
        return regular
    return late


def _late(record: CaptureRecord) -> SlowPhase | None:
    """The batches that come late now and then."""
    found = late_batches(every_step(record), record.number("dataloader.num_workers") or 0)
    if found is None or len(found.number) < FEWEST_STEPS:
        return None
    every = round(len(found.number) / len(found.slow))
    return SlowPhase(
        every, found.number, found.ns, found.slow, found.extra_ns, grew=DATA_WAIT_RANGE, irregular=found.held
    )


def _regular(record: CaptureRecord) -> SlowPhase | Unknown:
    """The phase that comes at a regular distance."""
    samples = stack_samples(record)
    number, ns = steps_and_sampled(record, samples)
    if len(number) < FEWEST_STEPS:
        return NOT_TIMED
    track = Track(rank=None, host="", step=number, seconds=ns / 1e9)
    found = max(beats(track), key=_extra, default=None)
    if found is None:
        return NONE
    hits = _one_of_each_period(found)
    rows, extra_ns = found.rows[hits], found.extra_s[hits] * 1e9
    phase = SlowPhase(found.every, number, ns, rows, extra_ns, _grew(record, number[rows]))
    phase = replace(phase, waits=not phase.grew and _mostly(samples, phase, _waits_for_a_rank))
    if record.text("steps.clock") == "device" and not (phase.grew or _works(samples, phase)):
        return BEHIND_THE_HOST
    return phase


def _one_of_each_period(beat: Beat) -> Ints:
    """Places of the slowest sample of each period: the step beside it may be a little slow, too."""
    slowest_first = np.argsort(-beat.extra_s, kind="stable")
    period = (beat.samples.step - beat.first + beat.every // 2) // beat.every
    _, first = np.unique(period[slowest_first], return_index=True)
    return np.sort(slowest_first[first])


def _grew(record: CaptureRecord, steps: Ints) -> str:
    every = every_step(record)
    rows = np.flatnonzero(np.isin(every.number, steps)) if every is not None else None
    return grown(every, rows)[0] if every is not None and rows is not None and len(rows) else ""


def _extra(beat: Beat) -> float:
    return float(beat.extra_s.sum())


def steps_and_sampled(record: CaptureRecord, samples: StackSamples | None) -> tuple[Ints, Floats]:
    """Numbers and nanoseconds of the steps without the profiler, with those whose stacks were sampled."""
    number, ns = timed_steps(record)
    sampled = samples.times if samples is not None else {}
    times = {**dict(zip(number.tolist(), ns.tolist(), strict=True)), **sampled}
    steps = sorted(times)
    return np.array(steps, np.int64), np.array([times[step] for step in steps], np.float64)


def _works(samples: StackSamples | None, phase: SlowPhase) -> bool:
    """Whether most samples of the slow steps show work, and no wait for the device."""
    return samples is not None and not _mostly(samples, phase, lambda stack: stack.calls in _WAITS_FOR_DEVICE)


def _waits_for_a_rank(stack: Stack) -> bool:
    return stack.doing == "backward" or stack.calls in WAITS


def _mostly(samples: StackSamples | None, phase: SlowPhase, chosen: Callable[[Stack], bool]) -> bool:
    """Whether half of the samples of the slow steps, or more, are of such stacks; False without any."""
    seen = [(stack, stack.samples_in(phase.steps)) for stack in (samples.stacks if samples is not None else ())]
    return 2 * sum(count for stack, count in seen if chosen(stack)) >= sum(count for _, count in seen) > 0
