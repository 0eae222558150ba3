"""The reason why sizes of operators are unknown, if recording shapes, or doing so again, would not make them known."""

import numpy as np

from diagnose.facts import Capture, Unknown, Value, another_run, nothing_helps
from diagnose.formulas import share
from diagnose.metrics.measured import Measured
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.trace.vocabulary import GRAPH_LAUNCH

_REPLAYED = 0.1  # of the kernel time of the steps: less does not explain missing shapes
_WITHOUT_GRAPHS = another_run("capture some steps without CUDA graphs, with record_shapes=True")
_OTHERS = nothing_helps("shapes recorded again would tell no more")


def where_recorded(value: Value, m: Measured) -> Value:
    """The value; what is unknown for want of shapes that no capture like this one has, with its reason and remedy."""
    if not isinstance(value, Unknown) or not _asks_for_shapes(value.capture):
        return value
    or_else = value.capture.or_else if value.capture else None
    replayed = m.once(_replayed_share)
    if replayed >= _REPLAYED:
        because = f"CUDA graphs replay {100 * replayed:.0f} % of the kernel time, and no operator is called then"
        return Unknown(because, or_else or _WITHOUT_GRAPHS)
    if not m.once(_has_shapes):
        return value
    because = "shapes were recorded, but none that tell the work of the operators that launch these kernels"
    return Unknown(because if value == NO_SHAPES else value.because, or_else or _OTHERS)


def _asks_for_shapes(capture: Capture | None) -> bool:
    return capture is not None and NO_SHAPES.capture is not None and capture.what == NO_SHAPES.capture.what


def _has_shapes(m: Measured) -> bool:
    return bool((m.timeline.trace.shape >= 0).any())


def _replayed_share(m: Measured) -> float:
    """Share of the kernel time in the counted steps that graph launches started."""
    gpu, trace = m.timeline.gpu, m.timeline.trace
    of_graphs = np.zeros(len(trace) + 1, bool)
    of_graphs[m.timeline.rows_matching(GRAPH_LAUNCH, "cuda_runtime", "cuda_driver", "runtime")] = True
    time = m.own_time[m.kernels]
    return share(time[of_graphs[gpu.launch[m.kernels]]].sum(), time.sum()) or 0.0
