"""The stack samples of a record: where Python was, in separate steps before the window."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from diagnose.decoding import entries
from diagnose.formulas.statistics import share_error
from diagnose.probes.frameworks import LOOP
from diagnose.trace.record import CaptureRecord

FEWEST_SAMPLES = 30  # a share of a half is then known to a fifth of the whole: two standard errors of a binomial
_AS_WELL_AS_A_HALF = share_error(FEWEST_SAMPLES // 2, FEWEST_SAMPLES)
WAITS = ("acquire", "barrier", "get", "join", "recv", "synchronize", "wait")


@dataclass(frozen=True)
class Frame:
    """A line of the user's code that ran or had called what ran, as `diagnose.probes.stacks.folding` names it."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Stack:
    """A stack that was seen in `samples` samples.

    Attributes:
        frames: the user's own frames, the outermost first; none if no code of the user was on the stack.
        doing: "loading", "backward", "forward", "optimizer" or "step"; "" if unknown.
        calls: the function of C or of a library that the innermost frame was calling, by the name in that line (`item`,
            `dumps`); "" if none or unknown.
        below: file and name of the libraries' functions that were running below the innermost frame, the outermost
            first; None in a record without them.
        by_step: the samples by the number of the step.
    """

    frames: tuple[Frame, ...]
    doing: str
    calls: str
    samples: int
    below: tuple[tuple[str, str], ...] | None = None
    by_step: tuple[tuple[int, int], ...] = ()

    def samples_in(self, steps: Collection[int]) -> int:
        """The samples in these steps."""
        return sum(samples for step, samples in self.by_step if step in steps)


@dataclass(frozen=True)
class StackSamples:
    """The samples of one rank's training thread.

    Attributes:
        samples: number of samples, of which `in_user_code` have a frame of the user's.
        steps: number of the job's steps in which they were taken.
        interval_ms: time between two samples.
        wall_ms: time in those steps, from the first sample's wait to the last one.
        cost_ms: CPU time of the sampling within `wall_ms`.
        stacks: the stacks, the most frequent first; their samples may be fewer than `samples`.
        workers: stacks of loader workers.
        why_none: why there are no samples; "" if there are.
        first_step: number of the first of the steps.
        step_ns: nanoseconds of each step from that on, None if it was not sampled; none in a record without them.
    """

    samples: int
    in_user_code: int
    steps: int
    interval_ms: float
    wall_ms: float
    cost_ms: float
    stacks: tuple[Stack, ...]
    workers: tuple[Stack, ...] = ()
    why_none: str = ""
    first_step: int = 0
    step_ns: tuple[float | None, ...] = ()

    @property
    def whole(self) -> int:
        """All samples, at least those of the stacks."""
        return max(self.samples, sum(stack.samples for stack in self.stacks))

    @property
    def are_enough(self) -> bool:
        """Whether they show what the thread does, in whatever code."""
        return self.samples >= FEWEST_SAMPLES or self.suffice

    @property
    def suffice(self) -> bool:
        """Whether they name a line: enough are in user code, or most of all are in one function, whose share is then
        known as well as a half among that many.
        """
        inside: Counter[tuple[str, str]] = Counter()
        for stack in self.stacks:
            if stack.frames:
                inside[stack.frames[-1].file, stack.frames[-1].function] += stack.samples
        most = max(inside.values(), default=0)
        agreed = 2 * most > self.whole and share_error(most, self.whole) <= _AS_WELL_AS_A_HALF
        return agreed or inside.total() >= FEWEST_SAMPLES

    @property
    def times(self) -> dict[int, float]:
        """Nanoseconds of the sampled steps by number."""
        return {self.first_step + at: ns for at, ns in enumerate(self.step_ns) if ns}


def of_steps(samples: StackSamples, chosen: Collection[int], others: bool = False) -> StackSamples:
    """The samples of the chosen steps, or of all `others`."""
    times = {step: ns for step, ns in samples.times.items() if (step in chosen) != others}
    counted = ((s, s.samples - s.samples_in(chosen) if others else s.samples_in(chosen)) for s in samples.stacks)
    stacks = tuple(replace(stack, samples=count, by_step=()) for stack, count in counted if count)
    taken = sum(stack.samples for stack in stacks)
    return replace(
        samples,
        stacks=stacks,
        samples=taken,
        in_user_code=sum(stack.samples for stack in stacks if stack.frames),
        steps=len(times),
        wall_ms=sum(times.values()) / 1e6,
    )


def by_line(stacks: Iterable[Stack]) -> Counter[str]:
    """Samples at each line of the user's, the innermost of a stack, with what it calls."""
    counts = Counter[str]()
    for stack in stacks:
        if stack.frames:
            innermost = stack.frames[-1]
            called = f", which calls {stack.calls}" if stack.calls else ""
            counts[f"{innermost.file}:{innermost.line}{called}"] += stack.samples
    return counts


def own_code_share(samples: StackSamples | None) -> float:
    """Share of the samples in code of the user's that is no part of loading, of the model or of the optimizer, and
    that calls nothing which waits for another thread or process; 0.0 if too few were taken.
    """
    if samples is None or not samples.are_enough:
        return 0.0
    own = (s.samples for s in samples.stacks if s.frames and s.doing in ("step", LOOP) and s.calls not in WAITS)
    return sum(own) / samples.samples


def stack_samples(record: CaptureRecord) -> StackSamples | None:
    """The samples in the record; None if it has no such field, like records of other versions."""
    found = record.get("stack_samples")
    if not isinstance(found, Mapping):
        return None
    workers = found.get("workers")
    return StackSamples(
        samples=found.get("samples") or 0,
        in_user_code=found.get("in_user_code") or 0,
        steps=found.get("steps") or 0,
        interval_ms=float(found.get("interval_ms") or 0),
        wall_ms=float(found.get("wall_ms") or 0),
        cost_ms=float(found.get("cost_ms") or 0),
        stacks=_stacks(found),
        workers=_stacks(workers) if isinstance(workers, Mapping) else (),
        why_none=found.get("why_none") or "",
        first_step=found.get("first_step") or 0,
        step_ns=tuple(found.get("step_ns") or ()),
    )


def _stacks(found: Mapping[str, Any]) -> tuple[Stack, ...]:
    """The stacks whose frames and number of samples are valid, the most frequent first."""
    whole = (each for each in entries(found.get("stacks")) if each.get("frames") is not None and each.get("samples"))
    stacks = (
        Stack(
            tuple(Frame(file, line, function) for file, line, function in each["frames"]),
            each.get("doing") or "",
            each.get("calls") or "",
            each["samples"],
            None if each.get("below") is None else tuple((file, function) for file, function in each["below"]),
            tuple((step, samples) for step, samples in each.get("by_step") or ()),
        )
        for each in whole
    )
    return tuple(sorted(stacks, key=lambda stack: -stack.samples))
