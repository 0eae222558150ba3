"""Steps that become longer as the run goes on: how much, over which steps, and in which lines of the training thread.

The step times are those of the whole run without the profiler, as for a phase; which of them drift, `change_points`
decides, as for a log.
"""

import msgspec

from diagnose.arrays import Floats, Ints
from diagnose.facts import Unknown
from diagnose.series.change_points import Shift, search
from diagnose.series.phase import NOT_TIMED, steps_and_sampled
from diagnose.series.tracks import Track
from diagnose.trace.record import CaptureRecord
from diagnose.trace.stacks import StackSamples, by_line, of_steps, stack_samples

FEWEST_STEPS = 40  # two changes of level with enough steps on either side
_PART = 4  # the first and last quarter of these steps show what became longer


class Slowing(msgspec.Struct, frozen=True):
    """The timed steps from the first that drifts to the last.

    Attributes:
        number, ns: of these steps.
        first_ns, last_ns: time of the first and last of them, by their median or the line through them.
    """

    number: Ints
    ns: Floats
    first_ns: float
    last_ns: float

    @property
    def factor(self) -> float:
        """How many times as long the last steps are."""
        return self.last_ns / self.first_ns

    @property
    def run_share(self) -> float:
        """Time beyond steps as short as the first ones, of these steps."""
        return max(0.0, 1.0 - self.first_ns / float(self.ns.mean()))


def slowing(record: CaptureRecord) -> Slowing | Unknown | None:
    """The steps that become longer and longer; None if none do, Unknown if too few were timed."""
    number, ns = steps_and_sampled(record, stack_samples(record))
    if len(number) < FEWEST_STEPS:
        return NOT_TIMED
    found = search(Track(rank=None, host="", step=number, seconds=ns / 1e9))
    shifts = found.shifts
    if not _goes_on(shifts):
        return None
    begin, end = shifts[0].begin, shifts[-1].end
    track = found.track
    return Slowing(
        track.step[begin:end], track.seconds[begin:end] * 1e9, shifts[0].before_s * 1e9, shifts[-1].after_s * 1e9
    )


def _goes_on(shifts: tuple[Shift, ...]) -> bool:
    """Whether the steps become longer more than once, and never shorter: one change of level is something else."""
    grows = all(shift.after_s > shift.before_s for shift in shifts)
    return grows and (len(shifts) > 1 or any(shift.kind == "drift" for shift in shifts))


def grown_line(record: CaptureRecord, steps: Slowing) -> str:
    """The line of the user's code that takes most of what was added, with what it calls; "" if the samples name none.

    That is at least half of it, by the samples of the first and of the last steps.
    """
    samples = stack_samples(record)
    if samples is None or not samples.are_enough:
        return ""
    sampled = [step for step in sorted(samples.times) if steps.number[0] <= step <= steps.number[-1]]
    part = max(len(sampled) // _PART, 1)
    early, late = (_ns_by_line(of_steps(samples, which)) for which in (sampled[:part], sampled[-part:]))
    grew = {line: ns - early.get(line, 0.0) for line, ns in late.items()}
    line = max(grew, key=grew.__getitem__, default="")
    added = sum(late.values()) - sum(early.values())
    return line if line and grew[line] > 0.5 * added > 0 else ""


def _ns_by_line(samples: StackSamples) -> dict[str, float]:
    """Nanoseconds of a step at each line, by the samples of these steps."""
    step_ns = samples.wall_ms * 1e6 / max(samples.steps, 1)
    return {line: count / max(samples.whole, 1) * step_ns for line, count in by_line(samples.stacks).items()}
