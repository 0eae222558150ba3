"""The work of a step on a CPU that finds its caches cold, behind a wait or other code, and what it would take warm."""

from diagnose.attribution.causes import WORK_BESIDE_PYTHON
from diagnose.facts import Unknown, Value
from diagnose.metrics.lines.own_python import own_python_share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.usual import usual_step_ns

COLD_S = 1e-3  # at most: measured, steps of 0.5 to 13 ms take 0.4 to 1.1 ms longer behind 8 to 33 ms of anything
COLD_SHARE = 0.6  # of the work, at most: measured, 2.2 to 2.9 times as long for 0.5 ms, 1.4 to 1.9 times for 1 ms
COLD_FOR = 0.25  # of what passes before it, at most: measured, 2 ms of Python cost 0.1 ms, 4 ms cost 1 ms
LEAST_COLD = 0.1  # of the work: less is below what other assumptions leave open


def warm_factor(m: Measured, work_s: float, before_s: float) -> float:
    """Time of work over that of now, at best, if nothing passed before it; 1 with a GPU.

    Args:
        m: the rank.
        work_s: seconds that the work takes now.
        before_s: seconds of a wait, or of other code, before it.
    """
    if m.timeline.has_gpu or work_s <= 0:
        return 1.0
    lost = min(COLD_S / work_s, COLD_FOR * before_s / work_s, COLD_SHARE)
    return 1.0 if lost < LEAST_COLD else 1 - lost


@metric("factor", needs_gpu=False)
def least_time_beside_python_factor(m: Measured) -> Value:
    """Time of a step's other work on the host without your own Python over that of now, at best. On a CPU the first
    millisecond that follows other code runs with cold caches.
    """
    own, step_s = own_python_share(m), usual_step_ns(m) / 1e9
    if isinstance(own, Unknown):
        return own
    return warm_factor(m, m.share(*WORK_BESIDE_PYTHON) * step_s, float(own) * m.share("python") * step_s)
