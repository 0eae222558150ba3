"""Share of the Python outside of operators that is at lines of the user's own."""

from collections.abc import Sequence

from diagnose.facts import Unknown, Value, capture_setting, nothing_helps
from diagnose.formulas.statistics import share_error
from diagnose.metrics.lines.sampled import spent
from diagnose.metrics.lines.user_code import Spent, ThreadWork
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.stacks import FEWEST_SAMPLES

LINES_ARE_UNKNOWN = Unknown("where the step's Python code is was not recorded", capture_setting("diagnose run"))
NO_PYTHON_WAITED_FOR = Unknown("nothing waits for Python outside of operators", nothing_helps("there is none to move"))
ERRORS = 2
TRAINS = ("forward", "backward", "optimizer")


@metric("share", "the Python outside of operators", needs_gpu=False)
def own_python_share(m: Measured) -> Value:
    """Time at lines of the user's code that are no part of loading, of the model or of the optimizer, of what waits for
    Python, at most all of it.

    What a line calls in a library counts for the line, but for the library's training loop, and torch's own code around
    the model. In a record that does not separate them, a line that the model or the optimizer runs under, as
    `trainer.train()`, calls the training itself: what else it takes is the library's.
    """
    own, python = _own(m), m.share("python")
    if isinstance(own, Unknown) or not python:
        return own if isinstance(own, Unknown) else NO_PYTHON_WAITED_FOR
    return min(own[0] / own[1] / python, 1.0)


@metric("share", "the Python outside of operators", needs_gpu=False)
def most_own_python_share(m: Measured) -> Value:
    """The same at most: two standard errors above the share of the samples."""
    own, python = _own(m), m.share("python")
    if isinstance(own, Unknown) or not python or m.user_code.samples is None:
        return own_python_share(m)
    return min((own[0] / own[1] + ERRORS * share_error(round(own[0]), round(own[1]))) / python, 1.0)


@metric("flag", needs_gpu=False)
def stack_samples_suffice(m: Measured) -> Value:
    """Whether where the step's Python code is can be judged: true of a capture that sampled no stack and recorded no
    call, whose Python may be anywhere; unknown if a capture sampled too few.
    """
    seen = _seen(m)
    return seen if isinstance(seen, Unknown) and m.user_code.samples is not None else True


def _own(m: Measured) -> tuple[float, float] | Unknown:
    """Samples, or nanoseconds, at such lines, and the total they are of."""
    seen = _seen(m)
    if isinstance(seen, Unknown):
        return seen
    stacks, whole = seen
    training = {stack.frames[-1] for stack in stacks if stack.doing in TRAINS and stack.below is None}
    return sum(s.weight for s in stacks if s.doing == "step" and s.frames[-1] not in training), whole


def _seen(m: Measured) -> tuple[Sequence[Spent], float] | Unknown:
    """The stacks of the training thread in the user's code, and the total they are of; accepts fewer samples than
    elsewhere, since libraries may have the rest.
    """
    code, samples = m.user_code.usual, m.user_code.usual_samples
    if isinstance(code, ThreadWork):
        return code.stacks, code.whole
    if samples is not None and samples.samples >= 2 * FEWEST_SAMPLES:
        return spent(samples), float(samples.samples)
    return code if isinstance(code, Unknown) else LINES_ARE_UNKNOWN
