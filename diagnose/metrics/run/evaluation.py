"""Work of an evaluation beyond the model's: keeping outputs, and metrics in the user's own code."""

from collections.abc import Callable

from diagnose.facts import Unknown, Value, another_run, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.probes.protocol import EVAL_RANGE
from diagnose.trace.light_steps import every_step
from diagnose.trace.stacks import Stack, StackSamples, by_line, of_steps

EVALUATIONS = "the evaluations"
_MOSTLY = 0.5  # of a step is evaluation: its samples are the evaluation's
_KEEPS = "transformers/trainer_pt_utils.py"  # where the Trainer joins the outputs of a batch to those before it
_JOINS = {"add", "nested_concat", "nested_numpify", "to_cpu_and_numpy", "torch_pad_and_concatenate"}
_NONE = Unknown("no evaluation ran in the steps that were timed", nothing_helps("there is none to make shorter"))
_TOO_FEW = Unknown(
    "too few samples of the stack were taken in evaluations",
    another_run("capture with diagnose run in a run of more evaluations after the window"),
)


@metric("share", EVALUATIONS, needs_gpu=False)
def kept_outputs_share(m: Measured) -> Value:
    """Samples of the stack in which the Trainer joins outputs of the model to all that it keeps of earlier batches."""
    return _share(m, _is_kept)


@metric("share", EVALUATIONS, needs_gpu=False)
def metric_code_share(m: Measured) -> Value:
    """Samples of the stack in the user's own code, outside of loading and of the model, such as metrics."""
    return _share(m, _is_own)


@metric("text", needs_gpu=False)
def metric_line(m: Measured) -> Value:
    """The line at which most of this own code is, with what it calls; "" if there is none."""
    sampled = m.once(_sampled)
    if isinstance(sampled, Unknown):
        return sampled
    lines = by_line(filter(_is_own, sampled.stacks))
    return max(lines, key=lines.__getitem__, default="")


def _share(m: Measured, chosen: Callable[[Stack], bool]) -> Value:
    sampled = m.once(_sampled)
    if isinstance(sampled, Unknown):
        return sampled
    return sum(stack.samples for stack in sampled.stacks if chosen(stack)) / sampled.samples


def _sampled(m: Measured) -> StackSamples | Unknown:
    """The samples of steps that are mostly evaluation."""
    every, samples = every_step(m.record), m.user_code.samples
    within = None if every is None else every.ranges_ns.get(EVAL_RANGE)
    if every is None or within is None or not (within > 0).any():
        return _NONE
    if samples is None:
        return _TOO_FEW
    found = of_steps(samples, set(every.number[within > _MOSTLY * every.ns].tolist()))
    return found if found.samples and found.are_enough else _TOO_FEW


def _is_kept(stack: Stack) -> bool:
    return any(file.endswith(_KEEPS) and function in _JOINS for file, function in stack.below or ())


def _is_own(stack: Stack) -> bool:
    return len(stack.frames) > 1 and stack.doing == "step"
