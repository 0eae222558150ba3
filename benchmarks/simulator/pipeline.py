"""A pipeline's step: one forward pass, one backward pass, in turns (1F1B), and what Megatron reduces around it.

Each stage warms up with as many forward passes as stages follow it, then takes turns, then runs the backward passes
that are left. What a stage sends to the next one and receives from it at the same time is one exchange.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from .communication import Ends, batch, collective, message
from .events import EMBEDDING, GRADIENTS, MODEL, ODD, Kernel, Mask
from .groups import grouped
from .job import Job
from .training import ADAM, HEAD_ELEMENTS, LAYER_ELEMENTS, WIDTH, Training

_NORM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<LpNormFunctor<float, NormType::L2>>()"
NORM_OF_GRADIENTS = Kernel(_NORM, 60, True, 0)
COLLECTS = 1  # the micro-batch in whose forward pass garbage is collected


@dataclass(frozen=True)
class Pass:
    """A micro-batch goes through a stage, forward or backward."""

    micro: int
    forward: bool


@dataclass(frozen=True)
class Exchange:
    """What a stage and the next one send each other: the micro-batch that goes on, and whose gradient comes back."""

    low: int
    on: int | None
    back: int | None


def passes_of(stage: int, stages: int, micros: int) -> Iterator[Pass | Exchange]:
    """What a stage does in a step, in order."""
    warm, warm_before = (min(stages - one - 1, micros) for one in (stage, stage - 1))
    is_first, is_last = stage == 0, stage == stages - 1
    for micro in range(warm):
        yield from () if is_first else (Exchange(stage - 1, micro, None),)
        yield Pass(micro, forward=True)
        yield Exchange(stage, micro, None)
    if warm < micros and not is_first:
        yield Exchange(stage - 1, warm, None)
    for back in range(micros - warm):
        yield Pass(warm + back, forward=True)
        yield from () if is_last else (Exchange(stage, warm + back, back),)
        yield Pass(back, forward=False)
        if not is_first:
            on = warm_before + back
            yield Exchange(stage - 1, on if on < micros else None, back)
    for back in range(micros - warm, micros):
        yield Exchange(stage, None, back)
        yield Pass(back, forward=False)
        yield from () if is_first else (Exchange(stage - 1, None, back),)


class Pipeline(Training):
    """The training loop of a pipeline."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._stages = [job.stage == stage for stage in range(job.model_parallel)]
        self._ends = [self._between(low) for low in range(job.model_parallel - 1)]

    def _between(self, low: int) -> Ends:
        """The pairs of a stage and the next one."""
        first, second = self._stages[low], self._stages[low + 1]
        pairs = grouped(self.job, "", np.where(first | second, self.job.replica, -1), 0)
        return Ends(self.groups["pipe"], pairs, first, second)

    def _passes(self) -> None:
        """Every stage does what comes next to it, an exchange as soon as it comes next to both sides."""
        stages = self.job.model_parallel
        left = [list(passes_of(stage, stages, self.job.micros)) for stage in range(stages)]
        while any(left):
            for stage, todo in enumerate(left):
                while todo and isinstance(todo[0], Pass):
                    self._pass(stage, todo[0])
                    todo.pop(0)
                if stage and todo and isinstance(todo[0], Exchange) and left[stage - 1][:1] == todo[:1]:
                    self._exchange(todo[0])
                    todo.pop(0)
                    left[stage - 1].pop(0)
        self.ranks.begin_micro_batch(0)
        self._reductions()

    def _exchange(self, what: Exchange) -> None:
        directions = [forward for forward in (True, False) if (what.on if forward else what.back) is not None]
        ends, elements = self._ends[what.low], self.job.tokens * WIDTH
        if self.job.batched:
            return batch(self.ranks, ends, directions, elements)
        for forward in directions:
            message(self.ranks, ends, forward, elements)

    def _pass(self, stage: int, what: Pass) -> None:
        self.ranks.begin_micro_batch(what.micro)
        with self.ranks.only(self._stages[stage]):
            (self._forward if what.forward else self._backward)(stage, what.micro)

    def _forward(self, stage: int, micro: int) -> None:
        if stage == 0:
            self._embedding()
        for number in range(self.job.layers_of[stage]):
            self._layer(self.job.layers // 2 if (number, micro) == (0, COLLECTS) else -1)
        for mask in (*self.ranks.trouble.extra_layers(), *self.ranks.trouble.stage_layers()):
            self._only(mask, self._layer, -1)
        if stage == self.job.model_parallel - 1:
            self._head()
            collective(self.ranks, "data", self.groups["data"], "allreduce", 1, GRADIENTS, "Float")
            self.ranks.wait(GRADIENTS)

    def _backward(self, stage: int, micro: int) -> None:
        if stage == self.job.model_parallel - 1:
            self._head_backward()
        for mask in self.ranks.trouble.stage_layers():
            self._only(mask, self._layer_backward)
        for _ in range(self.job.layers_of[stage]):
            self._layer_backward()
        if stage == 0:
            self._embedding_backward()

    def _only(self, mask: Mask, run: Callable[..., None], *about: int) -> None:
        if (mask & self.ranks.active).any():
            with self.ranks.unforeseen(), self.ranks.only(mask):
                run(*about)

    # -- what the stages reduce ----------------------------------------------------------------------------------

    def _reductions(self) -> None:
        """The gradients over the replicas, the shared embedding's over both ends, their norm over the stages."""
        for stage, ranks in enumerate(self._stages):
            with self.ranks.only(ranks):
                for _ in range(self.job.layers_of[stage]):
                    self._reduce("allreduce", LAYER_ELEMENTS)
        with self.ranks.only(self.groups["embedding"].holds):
            self._reduce("allreduce", HEAD_ELEMENTS)
            self.ranks.wait(GRADIENTS)
            self._across("embedding", HEAD_ELEMENTS, EMBEDDING, "BFloat16")
        self.ranks.wait(GRADIENTS)
        self.ranks.op("aten::_foreach_norm", "[[]]", NORM_OF_GRADIENTS)
        self._across("model", 1, MODEL, "Float")
        if self.job.odd_rank is not None:
            with self.ranks.only(self.groups["odd"].holds):
                self._across("odd", 1, ODD, "Float")
        self.ranks.read_back()

    def _across(self, purpose: str, elements: int, stream: int, dtype: str) -> None:
        collective(self.ranks, purpose, self.groups[purpose], "allreduce", elements, stream, dtype)
        self.ranks.wait(stream)

    def _update(self) -> None:
        for stage, ranks in enumerate(self._stages):
            with self.ranks.only(ranks):
                for _ in range(2 * self.job.layers_of[stage]):
                    self.ranks.op("aten::_fused_adamw_", "[[]]", ADAM)
