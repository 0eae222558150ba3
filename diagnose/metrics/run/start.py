"""What of the capture lies before the first counted step, and what it went into."""

from dataclasses import replace

import numpy as np

from diagnose.attribution.attribution import attribute
from diagnose.attribution.causes import CAUSES
from diagnose.facts import Unknown, Value, nothing_helps
from diagnose.intervals import total
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

MOST = 0.5
_COUNTED = Unknown("most of the capture is counted", nothing_helps("its causes are those of the steps"))


@metric("share", "the capture", needs_gpu=False)
def start_of_capture_share(m: Measured) -> Value:
    """What of the capture lies before the first counted step, of all until the last one ends."""
    return _share(m)


@metric("text", needs_gpu=False)
def start_of_capture_cause(m: Measured) -> Value:
    """The largest cause of the time before the first counted step, where that is most of the capture."""
    if _share(m) <= MOST:
        return _COUNTED
    if m.device_unseen:
        return m.device_unseen
    uncounted = m.timeline.steps.uncounted
    steps = replace(m.timeline.steps, host=uncounted, device=uncounted)
    spent = attribute(replace(m.timeline, steps=steps), np.full(len(m.timeline.gpu), "", object)).ns()
    return CAUSES[max(spent, key=lambda cause: spent[cause])].spoken


def _share(m: Measured) -> float:
    windows, before = m.timeline.windows, total(m.timeline.steps.uncounted)
    return before / max(before + int(windows[-1, 1] - windows[0, 0]), 1)
