"""DeepSpeed's ZeRO: what it divides and offloads, what its hooks cost, and the cores of an update on the host."""

from collections.abc import Mapping
from typing import Any

from diagnose import intervals as iv
from diagnose.attribution.causes import IDLE
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, nothing_helps
from diagnose.metrics.communication.reducers import reduced_by_engine
from diagnose.metrics.data.cores import cores_per_rank
from diagnose.metrics.kernels.optimizer_on_cpu import cpu_optimizer_share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.environment import cpu_threads
from diagnose.trace.vocabulary import ACCUMULATES, BACKWARD_CALL, COLLECTIVE_RANGES, OPTIMIZER_STEP

_OF_STAGE_3 = ("LinearFunctionForZeroStage3", "PreBackwardFunctionForModule")
_HOOKED = rf"({BACKWARD_CALL})?{ACCUMULATES}"
_NO_ENGINE = Unknown("ZeRO is not in use", nothing_helps("nothing is divided by it"))
_NOT_TOLD = Unknown("the trace does not hold the engine's configuration", DIAGNOSE_RUN)


@metric("count", needs_gpu=False)
def zero_stage(m: Measured) -> Value:
    """DeepSpeed's ZeRO stage: 1 divides optimizer states among the ranks, 2 gradients, too, 3 also parameters."""
    told = _of_engine(m, "stage")
    shown = any(name.startswith(_OF_STAGE_3) for name in m.timeline.trace.names)
    return 3 if isinstance(told, Unknown) and shown else told


@metric("flag", needs_gpu=False)
def uses_zero(m: Measured) -> Value:
    """Whether DeepSpeed divides the training state among the ranks, in any stage."""
    if not reduced_by_engine(m):
        return False
    stage = zero_stage(m)
    return stage if isinstance(stage, Unknown) else int(stage) > 0


@metric("flag", needs_gpu=False)
def offloads_optimizer(m: Measured) -> Value:
    """Whether DeepSpeed keeps the optimizer's states on the host or on disk, and updates there (offload_optimizer)."""
    if not reduced_by_engine(m):
        return False
    told = _of_engine(m, "offload_optimizer")
    return told if isinstance(told, Unknown) else told != "none"


@metric("count", needs_gpu=False)
def secondary_shard_ranks(m: Measured) -> Value:
    """Ranks over which ZeRO++ divides a second copy of the parameters (zero_hpz_partition_size); 1 without one."""
    if not reduced_by_engine(m):
        return 1
    return _of_engine(m, "zero_hpz_partition_size")


@metric("share", STEP, needs_gpu=False)
def gradient_hook_share(m: Measured) -> Value:
    """Time in which nothing runs but what follows each parameter's gradient: hooks in Python, such as ZeRO's.

    Where there is a GPU it idles meanwhile. Without one, collectives are left out, and operators that hooks call are
    not.
    """
    if m.device_unseen:
        return m.device_unseen
    hooks = iv.intersect(m.ranges(_HOOKED), m.timeline.windows)
    if m.timeline.has_gpu:
        return m.pieces_share(iv.intersect(m.attribution.pieces(*IDLE), hooks))
    return m.pieces_share(iv.subtract(hooks, m.ranges(COLLECTIVE_RANGES)))


@metric("share", STEP, needs_gpu=False)
def host_update_share(m: Measured) -> Value:
    """The optimizer's step on the host: the device idles meanwhile, or it is a part of the step without a GPU."""
    if not m.timeline.has_gpu:
        return cpu_optimizer_share(m)
    return m.pieces_share(iv.intersect(m.attribution.pieces(*IDLE), m.ranges(OPTIMIZER_STEP)))


@metric("flag", needs_gpu=False)
def shares_its_cores(m: Measured) -> Value:
    """Whether the rank may run on more than its part of the host's cores, so that ranks of the host share cores."""
    usable, ranks = m.record.number("cores.usable"), m.record.number("cores.local_ranks")
    own = cores_per_rank(m)
    if usable is None or ranks is None or isinstance(own, Unknown):
        return own if isinstance(own, Unknown) else m.unrecorded
    return ranks > 1 and usable > float(own)


@metric("factor", needs_gpu=False)
def thread_per_core_factor(m: Measured) -> Value:
    """Threads of an operator on the CPU over the cores of the rank; 1 is one for each."""
    threads, cores = cpu_threads(m), cores_per_rank(m)
    if isinstance(threads, Unknown) or isinstance(cores, Unknown):
        return threads if isinstance(threads, Unknown) else cores
    return float(threads) / max(float(cores), 1.0)


def _of_engine(m: Measured, key: str) -> Any:
    """A number of the engine's zero_optimization, from the record."""
    if not reduced_by_engine(m):
        return _NO_ENGINE
    held = m.record.get("zero")
    told = held.get(key) if isinstance(held, Mapping) else None
    return _NOT_TOLD if told is None else told
