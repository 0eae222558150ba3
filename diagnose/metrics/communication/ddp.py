"""DistributedDataParallel: its settings, and what its bookkeeping costs."""

from collections.abc import Callable

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask, among, counted
from diagnose.attribution.causes import EXPOSED, IDLE
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.kernel_groups.phases import COPY_BACK, gradient_copies
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.arguments import listed, tensor_sizes
from diagnose.trace.columns import Json
from diagnose.trace.record import profiler_factor
from diagnose.trace.vocabulary import ANNOTATIONS, COMMUNICATION_RANGES, OPS

SEARCH = r".*reducer::search_unused_parameters"
_OF_MAPS = "int"  # the type of a map of parameters; gradients are of no such type
_HIDDEN_BY_ORDER = 0.1  # of exposed communication, an estimate
_ENTRY, _ON_ENTRY = r"aten::select$", r"aten::(fill_|item)$"  # an entry of a map, and operators that mark and read it


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


@metric("bytes", needs_gpu=False)
def bucket_cap_bytes(m: Measured) -> Value:
    """Most that DDP puts into a bucket of gradients (bucket_cap_mb), as recorded."""
    recorded = m.record.number("ddp.bucket_cap_mb")
    return recorded * 2**20 if recorded is not None else Unknown("no DDP module was recorded", DIAGNOSE_RUN)


@metric("flag", needs_gpu=False)
def gradients_are_bucket_views(m: Measured) -> Value:
    """Whether DDP's gradients live in its buckets (gradient_as_bucket_view): by the record, else no copies back."""
    recorded = m.record.flag("ddp.gradient_as_bucket_view")
    if recorded is not None:
        return recorded
    if len(m.timeline.rows_matching(COPY_BACK, *ANNOTATIONS)):
        return False
    return Unknown("the trace shows no copies of gradients, and no capture record says", DIAGNOSE_RUN)


@metric("flag", needs_gpu=False)
def static_graph(m: Measured) -> Value:
    """Whether DDP is set to assume that the graph never changes (static_graph)."""
    recorded = m.record.flag("ddp.static_graph")
    why = Unknown("no capture record says whether DDP's graph is static", DIAGNOSE_RUN)
    return why if recorded is None else recorded


@metric("bytes", needs_gpu=False)
def unused_parameter_bytes(m: Measured) -> Value:
    """Bytes of the parameters that got no gradient on this rank in the last step that DDP looked at, as recorded.

    DDP looks only where it searches: in its first ten steps and each hundredth.
    """
    recorded = m.record.number("ddp.unused_parameter_bytes")
    why = Unknown("no capture record says whether all parameters get a gradient", DIAGNOSE_RUN)
    return why if recorded is None else recorded


@metric("share", STEP, needs_gpu=False)
def unused_search_share(m: Measured) -> Value:
    """Nothing runs but DDP's walk over the graph for unused parameters, or the reduction of the map of those found."""
    if m.device_unseen:
        return m.device_unseen
    if m.timeline.has_gpu:
        sent = m.messages
        maps = sent.when((sent.kind == "allreduce") & (sent.dtype == _OF_MAPS))
    else:
        maps = iv.subtract(*_reductions_on_host(m))
    idle = iv.intersect(m.attribution.pieces(*IDLE), m.ranges(SEARCH))
    return m.pieces_share(iv.union(idle, iv.intersect(m.attribution.pieces(EXPOSED), maps)))


@metric("share", STEP, needs_gpu=False)
def unused_map_share(m: Measured) -> Value:
    """Exposed communication without a GPU in which DDP's map of unused parameters is reduced at the same time as
    gradients.

    The trace does not show whether the gradients wait for the map or the map for them.
    """
    if m.device_unseen:
        return m.device_unseen
    if m.timeline.has_gpu:
        return Unknown("a GPU reduces one after the other", nothing_helps("the map is never beside gradients"))
    both = iv.intersect(*_reductions_on_host(m))
    return m.pieces_share(iv.intersect(m.attribution.pieces(EXPOSED), both))


@metric("share", STEP, needs_gpu=False)
def unused_mark_share(m: Measured) -> Value:
    """Operators on single entries of DDP's map of unused parameters, without a GPU: one is marked as each gradient
    comes, and read as the gradient is copied back.
    """
    if m.device_unseen:
        return m.device_unseen
    if m.timeline.has_gpu:
        return Unknown("no device waits for it by itself", nothing_helps("it passes beside what the device does"))
    trace = m.timeline.trace
    size_of = {shape: _map_size(*trace.shapes[shape][:2]) for shape in set(trace.shape[_reduces(m)].tolist())}
    taken = _with_shapes(m, _ENTRY, lambda sizes, types: _map_size(sizes, types) in {*size_of.values()} - {None})
    used = _with_shapes(m, _ON_ENTRY, lambda sizes, types: listed(types)[:1] == [_OF_MAPS] and not tensor_sizes(sizes))
    rows = taken | used if taken.any() else taken
    return m.counted_share(iv.intervals(trace.ts[rows], trace.ends(rows)))


@metric("share", STEP, needs_gpu=False)
def least_unused_search_share(m: Measured) -> Value:
    """Share of the step that disappears at least without the search for unused parameters: the walk over the graph,
    the reduction of the map where nothing else is reduced, and the marks on the map.
    """
    walk = unused_search_share(m)
    return walk if isinstance(walk, Unknown) else float(walk) + _or_none(unused_mark_share(m))


@metric("share", STEP, needs_gpu=False)
def most_unused_search_share(m: Measured) -> Value:
    """Share of the step that disappears at best without the search for unused parameters: the graph walk, everything
    reduced at the same time as the map (at least a tenth of the exposed communication, since buckets then follow the
    order of the gradients), and the marks. The profiler is taken to lengthen the step, but not the walk and the map.
    """
    walk, beside, marks = unused_search_share(m), unused_map_share(m), unused_mark_share(m)
    if isinstance(walk, Unknown):
        return walk
    in_map = max(_or_none(beside), _HIDDEN_BY_ORDER * m.share(EXPOSED))
    gone = min(float(walk) + in_map, 1.0)
    longer = gone * max(profiler_factor(m.record) or 1.0, 1.0)
    return min((longer + _or_none(marks)) / max(longer + 1 - gone, 1e-9), 1.0)


def _or_none(share: Value) -> float:
    return 0.0 if isinstance(share, Unknown) else float(share)


def _map_size(sizes: Json, types: Json) -> int | None:
    """Elements of the map that is the first argument; None if that is no map."""
    first = tensor_sizes(sizes)[:1]
    return first[0][0] if first and len(first[0]) == 1 and listed(types)[:1] == [_OF_MAPS] else None


def _with_shapes(m: Measured, pattern: str, fits: Callable[[Json, Json], bool]) -> Mask:
    """The operators of that name whose sizes and types of arguments fit."""
    trace, mask = m.timeline.trace, m.timeline.matching(pattern, *OPS)
    known = {shape: bool(fits(*trace.shapes[shape][:2])) for shape in set(trace.shape[mask].tolist()) - {-1}}
    fitting = np.array([shape for shape, fit in known.items() if fit], np.int64)
    return mask & among(trace.shape, fitting)


def _reduces(m: Measured) -> Mask:
    """The reductions by backends of the host whose arguments are known."""
    return m.timeline.matching(COMMUNICATION_RANGES, *ANNOTATIONS) & (m.timeline.trace.shape >= 0)


def _reductions_on_host(m: Measured) -> tuple[iv.Intervals, iv.Intervals]:
    """The instants at which maps are reduced, and those at which anything else is, by backends of the host."""
    trace = m.timeline.trace
    reduces = m.timeline.matching(COMMUNICATION_RANGES, *ANNOTATIONS)
    is_map = np.array([*(_OF_MAPS in listed(types) for _, types, _ in trace.shapes), False])[trace.shape]
    maps, others = reduces & is_map, reduces & ~is_map
    return iv.intervals(trace.ts[maps], trace.ends(maps)), iv.intervals(trace.ts[others], trace.ends(others))


@metric("flag", needs_gpu=False)
def steps_repeat(m: Measured) -> Value:
    """Whether every counted step calls the same operators equally often."""
    windows, trace = m.timeline.steps.host, m.timeline.trace
    rows = np.flatnonzero(trace.rows_of(*OPS))
    if len(windows) < 2 or not len(rows):
        return Unknown(
            "two steps with operators are needed to compare them", another_run("capture three steps or more")
        )
    step = iv.which_holds(windows, trace.ts[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    return _alike(step, trace.name[rows].astype(np.int64), len(windows), len(trace.names))


def _alike(step: Ints, name: Ints, steps: int, names: int) -> bool:
    """Whether each of the steps holds the same names equally often; a table of both would grow with their product."""
    pairs, counts = counted(step * names + name)
    if len(pairs) % steps:
        return False
    of_step, of_name = (each.reshape(steps, -1) for each in np.divmod(pairs, names))
    counts = counts.reshape(steps, -1)
    in_order = (of_step == np.arange(steps)[:, None]).all()
    return bool(in_order and (of_name == of_name[0]).all() and (counts == counts[0]).all())
