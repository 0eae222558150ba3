"""Steps that become longer as the run goes on: how much, and at which line."""

from diagnose.facts import Unknown, Value, nothing_helps, spoken
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.cadence import RUN
from diagnose.metrics.unknowns import NO_RECORD
from diagnose.series.slowing import Slowing, grown_line, slowing

_NONE = Unknown("the steps of the run become no longer", nothing_helps("there is nothing that grows"))


@metric("factor", needs_gpu=False)
def slowing_factor(m: Measured) -> Value:
    """The last of the steps that were timed without the profiler over the first, where they drift; 1 if they do not."""
    found = m.once(_slowing)
    return found if isinstance(found, Unknown) else 1.0 if found is None else found.factor


@metric("share", RUN, needs_gpu=False)
def slowing_run_share(m: Measured) -> Value:
    """Time that these steps take beyond steps as short as the first ones; 0 if they do not drift."""
    found = m.once(_slowing)
    return found if isinstance(found, Unknown) else 0.0 if found is None else found.run_share


@metric("text", needs_gpu=False)
def slowing_times(m: Measured) -> Value:
    """The time of the first and of the last of these steps, with their numbers."""
    found = _drifting(m)
    if isinstance(found, Unknown):
        return found
    first, last = spoken(found.first_ns, "ns"), spoken(found.last_ns, "ns")
    return f"from {first} at step {found.number[0]:,} to {last} at step {found.number[-1]:,}"


@metric("count", needs_gpu=False)
def slowing_until_step(m: Measured) -> Value:
    """The last of these steps."""
    found = _drifting(m)
    return found if isinstance(found, Unknown) else int(found.number[-1])


@metric("text", needs_gpu=False)
def slowing_line(m: Measured) -> Value:
    """The line of the user's code that takes at least half of what was added; "" if the samples name none."""
    found = _drifting(m)
    return found if isinstance(found, Unknown) else grown_line(m.record, found)


def _slowing(m: Measured) -> Slowing | Unknown | None:
    return slowing(m.record) if m.record else NO_RECORD


def _drifting(m: Measured) -> Slowing | Unknown:
    found = m.once(_slowing)
    return _NONE if found is None else found
