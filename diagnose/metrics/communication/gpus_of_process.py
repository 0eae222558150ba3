"""Several GPUs that one process drives, which take turns or exchange what each process for itself would keep."""

from diagnose import intervals as iv
from diagnose.attribution.causes import IDLE
from diagnose.facts import STEP, Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric


@metric("count")
def gpus_of_process(m: Measured) -> Value:
    """GPUs that work for the process: as many as do at least a twentieth of what the busiest does."""
    return 1 + m.timeline.other_gpus.count


@metric("share", STEP)
def other_gpu_share(m: Measured) -> Value:
    """The busiest GPU of the process idles while another one works."""
    return m.pieces_share(iv.intersect(m.attribution.pieces(*IDLE), m.timeline.other_gpus.busy))
