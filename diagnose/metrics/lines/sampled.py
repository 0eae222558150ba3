"""The user's code by the samples that `diagnose run` took of the stack, after its window."""

from math import ceil

from diagnose.facts import Capture, Unknown, another_run, capture_setting
from diagnose.metrics.lines.user_code import SAMPLES, Spent, ThreadWork
from diagnose.trace.python_frames import DOINGS
from diagnose.trace.stacks import FEWEST_SAMPLES, Stack, StackSamples

_ENOUGH = 2 * FEWEST_SAMPLES
_MOST_STEPS = 1000
WITH_STACK = another_run("record a few steps with torch.profiler and with_stack=True, in a run of its own")


def sampled(samples: StackSamples) -> ThreadWork | Unknown:
    """The training thread's code, or why its lines are unknown."""
    if samples.why_none:
        sampling = capture_setting("diagnose run without --no-sampling, in a run of more steps", WITH_STACK)
        return Unknown(f"the stack was not sampled: {samples.why_none}", sampling)
    whole = samples.whole
    if not samples.suffice:
        in_user_code = sum(stack.samples for stack in samples.stacks if stack.frames)
        text = f"{in_user_code} of {whole} samples of the training thread in {samples.steps} steps show your code"
        because = f"{text}: fewer than {FEWEST_SAMPLES} are too few to name a line"
        return Unknown(because, _more(samples.steps, in_user_code, whole))
    return ThreadWork(
        stacks=spent(samples),
        whole=whole,
        of=f"{whole:,} samples of the training thread",
        source=SAMPLES,
        step_ns=samples.wall_ms * 1e6 / max(samples.steps, 1),
    )


def spent(samples: StackSamples) -> tuple[Spent, ...]:
    """The samples that show the user's code."""
    return tuple(Spent(s.frames, _doing(s), s.calls, s.samples, s.below) for s in samples.stacks if s.frames)


def _doing(stack: Stack) -> str:
    return stack.doing if stack.doing in DOINGS else DOINGS[-1]


def _more(steps: int, in_user_code: int, whole: int) -> Capture:
    """The capture to advise: more steps if there were few samples; recorded calls if many samples show other code."""
    if whole >= _ENOUGH:
        return WITH_STACK
    wanted = min(ceil(_ENOUGH * max(steps, 1) / max(in_user_code, 1)), _MOST_STEPS)
    return another_run(f"capture with diagnose run in a run of at least {wanted} steps after the window")
