"""The input pipeline."""

import numpy as np

from diagnose.facts import Unknown, another_run, nothing_helps
from diagnose.metrics.registry import Measured, Value, metric


@metric("text", needs_gpu=False)
def loader_workers(m: Measured) -> Value:
    """Whether the DataLoader has worker processes: "none" or "some"."""
    count = m.record.number("dataloader.num_workers")
    if count is not None:
        return "some" if count else "none"
    names = " ".join(n for n in m.timeline.trace.names if n.startswith("enumerate(DataLoader)#"))
    if "_MultiProcessing" in names:
        return "some"
    if "_SingleProcess" in names:
        return "none"
    return Unknown(
        "no DataLoader range in the trace",
        another_run("feed batches through torch.utils.data.DataLoader, or name the fetch with diagnose.probes.range"),
    )


@metric("share", "bytes copied to the device")
def pageable_copy_share(m: Measured) -> Value:
    """Host-to-device bytes copied from memory that is not pinned; such copies hold the host."""
    gpu, trace = m.timeline.gpu, m.timeline.trace
    down = np.array([k.sub == "HtoD" for k in gpu.kinds], bool)[gpu.kind] & m.in_steps
    pageable = np.array(["Pageable" in n for n in trace.names], bool)[trace.name[gpu.row]]
    size = np.maximum(trace.bytes[gpu.row], 0)
    total = int(size[down].sum())
    if not total:
        return Unknown("no copy to the device with a size", nothing_helps("the step copies no input"))
    return int(size[down & pageable].sum()) / total
