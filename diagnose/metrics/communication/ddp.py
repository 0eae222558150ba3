"""DistributedDataParallel: its settings, and what its bookkeeping costs."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.attribution.causes import EXPOSED, IDLE
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.kernel_groups.phases import COPY_BACK, gradient_copies
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import ANNOTATIONS, OPS

SEARCH = r".*reducer::search_unused_parameters"


@metric("flag", needs_gpu=False)
def searches_unused_parameters(m: Measured) -> Value:
    """Whether DDP walks the autograd graph for unused parameters in every step (find_unused_parameters=True)."""
    recorded = m.record.flag("ddp.find_unused_parameters")
    if recorded is not None:
        return recorded
    names = m.timeline.trace.names
    if any("search_unused_parameters" in n for n in names):
        return True
    if not any("DistributedDataParallel" in n or "reducer" in n for n in names):
        return Unknown(
            "no DistributedDataParallel range in the trace", nothing_helps("the model is not wrapped in DDP")
        )
    return False


@metric("flag", needs_gpu=False)
def uses_ddp(m: Measured) -> Value:
    """Whether the model is wrapped in DistributedDataParallel."""
    if m.record.get("ddp") is not None:
        return True
    return any("DistributedDataParallel" in n or "distributed.ddp.reducer" in n for n in m.timeline.trace.names)


@metric("share", STEP)
def gradient_copy_share(m: Measured) -> Value:
    """Copies of reduced gradients from DDP's buckets back to the parameters, which bucket views do without."""
    return m.share_of(gradient_copies(m))


@metric("flag", needs_gpu=False)
def gradients_are_bucket_views(m: Measured) -> Value:
    """Whether DDP's gradients live in its buckets (gradient_as_bucket_view): by the record, else no copies back."""
    recorded = m.record.flag("ddp.gradient_as_bucket_view")
    if recorded is not None:
        return recorded
    if bool(m.timeline.matching(COPY_BACK, *ANNOTATIONS).any()):
        return False
    return Unknown("the trace shows no copies of gradients, and no capture record says", DIAGNOSE_RUN)


@metric("flag", needs_gpu=False)
def static_graph(m: Measured) -> Value:
    """Whether DDP is told that the graph never changes (static_graph)."""
    recorded = m.record.flag("ddp.static_graph")
    why = Unknown("no capture record says whether DDP's graph is static", DIAGNOSE_RUN)
    return why if recorded is None else recorded


@metric("share", STEP)
def unused_search_share(m: Measured) -> Value:
    """The device idles while DDP walks the graph for unused parameters, or reduces the map of those it found."""
    sent = m.messages
    maps = sent.when((sent.kind == "allreduce") & (sent.dtype == "int"))
    idle = iv.intersect(m.attribution.pieces(*IDLE), m.ranges(SEARCH))
    return m.pieces_share(iv.union(idle, iv.intersect(m.attribution.pieces(EXPOSED), maps)))


@metric("flag", needs_gpu=False)
def steps_repeat(m: Measured) -> Value:
    """Whether every counted step calls the same operators equally often."""
    windows, trace = m.timeline.steps.host, m.timeline.trace
    rows = np.flatnonzero(trace.rows_of(*OPS))
    if len(windows) < 2 or not len(rows):
        return Unknown(
            "two steps with operators are needed to compare them", another_run("capture three steps or more")
        )
    at = np.searchsorted(windows[:, 0], trace.ts[rows], side="right") - 1
    inside = (at >= 0) & (trace.ts[rows] < windows[np.maximum(at, 0), 1])
    return _alike(at[inside], trace.name[rows[inside]].astype(np.int64), len(windows), len(trace.names))


def _alike(step: Ints, name: Ints, steps: int, names: int) -> bool:
    """Whether each of the steps holds the same names equally often; a table of both would grow with their product."""
    pairs, counts = np.unique(step * names + name, return_counts=True)
    if len(pairs) % steps:
        return False
    of_step, of_name = (each.reshape(steps, -1) for each in np.divmod(pairs, names))
    counts = counts.reshape(steps, -1)
    in_order = (of_step == np.arange(steps)[:, None]).all()
    return bool(in_order and (of_name == of_name[0]).all() and (counts == counts[0]).all())
