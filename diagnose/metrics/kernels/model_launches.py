"""Host time of the launches outside the optimizer, and what torch.compile and CUDA graphs leave of it."""

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, distinct
from diagnose.attribution.host_time import host_time
from diagnose.attribution.idle import Host
from diagnose.facts import Unknown, Value
from diagnose.metrics.kernel_groups.families import compiled_kernels
from diagnose.metrics.kernel_groups.operators import NOT_LINKED
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import batches_of_a_step, is_compiled
from diagnose.metrics.run.training import trains
from diagnose.trace.vocabulary import GRAPH_LAUNCH, RUNTIME

OF_LAUNCHES = "the host time of launches outside the optimizer"
LEAST_OF_DISPATCH = 0.4  # of an eager operator's host time beyond the call, what compiled code takes for a launch
MOST_OF_DISPATCH = 1.0  # compiled products are called as eager ones are
CALLS_OF_A_GRAPH = 12  # launch calls that guards and wrapper of a compiled graph take: 37 us where a call takes 3.0
CALLS_OF_A_REPLAY = 9  # the same of a CUDA graph's replay with its inputs copied: 27 us
LOST_BY_REPLAY = 1.02  # nanoGPT on an RTX 4090 took 1.02 times as long with reduce-overhead as compiled without


class ModelLaunches(msgspec.Struct, frozen=True):
    """The launches outside the optimizer's step in the counted steps, and the host's time for them.

    Attributes:
        calls: calls that launch anything, collectives and copies included.
        kernels: kernels that such a call launches by itself.
        compiled_kernels: how many they are if fusible neighbours are one.
        host_ns: dispatch, a launch call counted as long as the median one: longer ones wait for the device.
        call_ns: the median launch call.
        graphs: compiled graphs, if each forward and each backward pass is one.
    """

    calls: int
    kernels: int
    compiled_kernels: int
    host_ns: float
    call_ns: float
    graphs: float

    @property
    def other_ns(self) -> float:
        """Host time of what no compiler launches: collectives and copies."""
        return (self.calls - self.kernels) * self.host_ns / self.calls

    def compiled_ns(self, of_dispatch: float) -> float:
        """Host time with compiled code, which takes so much of an eager operator's dispatch for a launch."""
        dispatch_ns = max(self.host_ns / self.calls - self.call_ns, 0.0)
        of_kernels = self.compiled_kernels * (self.call_ns + of_dispatch * dispatch_ns)
        return self.other_ns + of_kernels + CALLS_OF_A_GRAPH * self.call_ns * self.graphs

    @property
    def replayed_ns(self) -> float:
        """Host time with a CUDA graph in the place of each compiled graph."""
        return self.other_ns + (CALLS_OF_A_GRAPH + CALLS_OF_A_REPLAY) * self.call_ns * self.graphs

    def left(self, host_ns: float) -> float:
        """The host time as a share of the present one, and no more than that."""
        return min(host_ns / self.host_ns, 1.0)


def model_launches(m: Measured) -> ModelLaunches | Unknown:
    """The launches outside the optimizer's step in the counted steps."""
    return m.once(_model_launches)


def _model_launches(m: Measured) -> ModelLaunches | Unknown:
    line, gpu = m.timeline, m.timeline.gpu
    of_model = m.in_steps & ~line.launched_by_optimizer & (gpu.launch >= 0)
    replays = np.zeros(len(line.trace), bool)
    replays[line.rows_matching(GRAPH_LAUNCH, *RUNTIME)] = True
    of_model &= ~replays[gpu.launch]
    single = of_model & m.kernels
    calls, at, begins = distinct(gpu.launch[of_model]), *compiled_kernels(m)
    host_ns, call_ns = _dispatch_ns(m, calls) if single.any() else (0.0, 0.0)
    if not host_ns:
        return NOT_LINKED
    return ModelLaunches(
        calls=len(calls),
        kernels=len(distinct(gpu.launch[single])),
        compiled_kernels=int(np.count_nonzero(begins & single[at])),
        host_ns=host_ns,
        call_ns=call_ns,
        graphs=_graphs(m),
    )


def _dispatch_ns(m: Measured, calls: Ints) -> tuple[float, float]:
    """Nanoseconds of dispatch in the counted steps without the waiting in launch calls, and those of a launch call."""
    took = m.timeline.trace.dur[calls]
    call_ns = float(np.median(took))
    dispatch = host_time(Host(m.timeline), m.timeline.steps.host).get("dispatch", iv.EMPTY)
    waited_ns = float(np.maximum(took - call_ns, 0).sum())
    return max(iv.total(dispatch) - waited_ns, len(calls) * call_ns), call_ns


def _graphs(m: Measured) -> float:
    """A graph for the forward pass of each micro-batch, and one for its backward pass if anything trains."""
    directions = 1 if trains(m) is False else 2
    return m.timeline.steps.count * batches_of_a_step(m) * directions


@metric("share", OF_LAUNCHES)
def least_compiled_launch_left_share(m: Measured) -> Value:
    """Share of the host's launch time that torch.compile leaves at least: fusible neighbours are launched as one, by
    its call and 40 % of an operator's dispatch, and each graph costs 12 calls. Collectives and copies stay.
    """
    found = model_launches(m)
    return found if isinstance(found, Unknown) else found.left(found.compiled_ns(LEAST_OF_DISPATCH))


@metric("share", OF_LAUNCHES)
def most_compiled_launch_left_share(m: Measured) -> Value:
    """Share of the host's launch time that torch.compile leaves at most: the same, with all of an
    operator's dispatch.
    """
    found = model_launches(m)
    return found if isinstance(found, Unknown) else found.left(found.compiled_ns(MOST_OF_DISPATCH))


@metric("share", OF_LAUNCHES)
def least_replayed_launch_left_share(m: Measured) -> Value:
    """Share of the host's launch time that CUDA graphs leave at least: one replay for each forward and backward pass,
    which costs 21 calls. Collectives and copies stay.
    """
    found = model_launches(m)
    return found if isinstance(found, Unknown) else found.left(found.replayed_ns)


@metric("share", OF_LAUNCHES)
def most_replayed_launch_left_share(m: Measured) -> Value:
    """Share of the host's launch time that CUDA graphs leave at most: torch replays nothing, and runs the compiled code
    as it would without them.
    """
    found = model_launches(m)
    if isinstance(found, Unknown) or is_compiled(m) is True:
        return found if isinstance(found, Unknown) else 1.0
    return found.left(LOST_BY_REPLAY * found.compiled_ns(MOST_OF_DISPATCH))
