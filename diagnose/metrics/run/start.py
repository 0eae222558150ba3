"""The part of the capture before the first counted step, and its largest cause."""

from dataclasses import replace

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Labels
from diagnose.attribution.attribution import attribute
from diagnose.attribution.causes import CAUSES
from diagnose.facts import Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import OPS

MOST = 0.5
SEARCH = "the search for the fastest convolutions"
_SEARCHES = r"aten::(cudnn|miopen)_(depthwise_)?convolution|aten::convolution_backward"
_SEARCHING = 10  # times what the call takes in the counted steps
_TOLD_APART = ("compile", "allocation")  # of what a first convolution also brings
_COUNTED = Unknown("most of the capture is counted", nothing_helps("its causes are those of the steps"))


@metric("share", "the capture", needs_gpu=False)
def start_of_capture_share(m: Measured) -> Value:
    """Share of the capture, up to the end of the last counted step, that comes before the first one."""
    return _share(m)


@metric("text", needs_gpu=False)
def start_of_capture_cause(m: Measured) -> Value:
    """The largest cause of the time before the first counted step, if that is most of the capture."""
    if _share(m) <= MOST:
        return _COUNTED
    if m.device_unseen:
        return m.device_unseen
    uncounted, searches = m.timeline.steps.uncounted, _searches(m)
    steps = replace(m.timeline.steps, host=uncounted, device=uncounted)
    start = attribute(replace(m.timeline, steps=steps), Labels.all_alike("", len(m.timeline.gpu)))
    spent = dict.fromkeys((SEARCH,), 0)
    for cause in start.causes:
        pieces = start.pieces(cause)
        found = 0 if cause in _TOLD_APART else iv.total(iv.intersect(pieces, searches))
        spent[SEARCH] += found
        spent[CAUSES[cause].spoken] = iv.total(pieces) - found
    return max(spent, key=lambda cause: spent[cause])


def _share(m: Measured) -> float:
    windows, before = m.timeline.windows, iv.total(m.timeline.steps.uncounted)
    return before / max(before + int(windows[-1, 1] - windows[0, 0]), 1)


def _searches(m: Measured) -> iv.Intervals:
    """The instants of convolutions before the counted steps that last far longer than the same calls in these."""
    trace, begin = m.timeline.trace, int(m.timeline.steps.host[0, 0])
    rows = m.timeline.rows_matching(_SEARCHES, *OPS)
    slow = [np.zeros(0, np.int64)]
    for name in np.unique(trace.name[rows]):
        calls = rows[trace.name[rows] == name]
        later = trace.dur[calls[trace.ts[calls] >= begin]]
        if len(later):
            slow.append(calls[(trace.ts[calls] < begin) & (trace.dur[calls] > _SEARCHING * np.median(later))])
    found = np.concatenate(slow)
    return iv.intervals(trace.ts[found], trace.ends(found))
