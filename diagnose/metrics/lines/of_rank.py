"""The user's code of one rank, by what there is of it."""

import msgspec

from diagnose.facts import Unknown
from diagnose.metrics.lines.recorded import recorded
from diagnose.metrics.lines.sampled import sampled
from diagnose.metrics.lines.user_code import ThreadWork
from diagnose.timeline import Timeline
from diagnose.trace.record import CaptureRecord
from diagnose.trace.stacks import StackSamples, stack_samples


class RankCode(msgspec.Struct, frozen=True):
    """The user's code on one rank, as far as known.

    Attributes:
        training: the training thread's code, Unknown with the reason, or None if nothing ever looked for it.
        samples: the record's samples, None if it has none.
    """

    training: ThreadWork | Unknown | None = None
    samples: StackSamples | None = None

    @property
    def cost_share(self) -> float | None:
        """CPU time of the sampling over the sampled steps; None if none was done."""
        if self.samples is None or not self.samples.samples or not self.samples.wall_ms:
            return None
        return min(self.samples.cost_ms / self.samples.wall_ms, 1.0)


def code_of(timeline: Timeline, record: CaptureRecord) -> RankCode:
    """The user's code by the samples of the record, else by the calls of the trace, else the record's reason."""
    samples = stack_samples(record)
    by_samples = sampled(samples) if samples is not None else None
    training = by_samples if isinstance(by_samples, ThreadWork) else recorded(timeline) or by_samples
    if isinstance(training, Unknown) and isinstance(by_samples, Unknown):
        training = by_samples
    return RankCode(training, samples)
