"""A whole training step of a decoder: its input, its kernels by the roofline of a GPU, its host code and what stops it.

Each field of a `WholeJob` is one way to make it slow, and one way to make it fast again; what a change buys is learnt
by running the job with it. With several ranks gradients are reduced in buckets of a layer, behind the backward pass.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .communication import collective
from .events import GRADIENTS
from .gpu import gpu
from .job import Job, Transport
from .operators import FOREACH, FUSED_ADAM, Code, Model, Op, Shape
from .training import HOOK, Training

LOADERS = {False: "_SingleProcessDataLoaderIter", True: "_MultiProcessingDataLoaderIter"}
DDP = "DistributedDataParallel.forward"
ADAPTED = 0.005  # of the weights, in an adapter of rank 16
PREFETCHED = 2  # batches that each worker makes ahead
STATE_PASSES = {"fused": 7, "foreach": 20, "loop": 20}  # over the weights, of AdamW in one kernel and in many
FOREACH_KERNELS, LOOP_OPERATORS, TENSORS = 12, 9, 6  # of a group of layers; of a tensor; of a layer


@dataclass(frozen=True)
class WholeJob(Job):
    """A job of one GPU or of several under DDP.

    Attributes:
        shape: the model and its micro-batch.
        code: how the model is written.
        optimizer: AdamW in one kernel for many tensors, in many such kernels, or one tensor at a time.
        clips: whether gradients are clipped.
        recomputes: whether the forward pass of each layer runs again before its backward pass.
        accumulates: micro-batches of a step.
        batch_ms: what loading a micro-batch takes one process.
        workers: processes that load ahead; 0 loads in the loop.
        batch_bytes: copied to the device for each micro-batch, from pinned memory or not.
        operator_us: host time of an operator before it launches.
        python_us: host time between operators.
        step_python_ms: of Python at the end of each step.
        reads: values read off the device in the layers of each micro-batch, each followed by `read_python_ms`.
        reads_loss: whether each micro-batch, and so each step, ends with such a value.
        collects_ms: of garbage collection in each step.
        allocations: pairs of cudaMalloc and cudaFree in each step.
        logs_ms: writing a log in each step.
        saves_ms: writing a checkpoint at the end of each step.
        reduces_each: whether each micro-batch reduces its gradients, and not only the last of a step.
        trains: whether a step ends with a loss, a backward pass and an update; else it is inference.
        drawn: the seed of what kernels reach of the GPU's peaks, and of what changes gain; 0 for the usual figures.
    """

    ranks: int = 1
    ranks_per_node: int = 8
    steps: int = 6
    jitter: float = 0.02
    host_jitter: float = 0.3
    transport: Transport = field(default_factory=Transport)
    shape: Shape = field(default_factory=Shape)
    code: Code = field(default_factory=Code)
    optimizer: Literal["fused", "foreach", "loop"] = "fused"
    clips: bool = False
    recomputes: bool = False
    accumulates: int = 1
    batch_ms: float = 2.0
    workers: int = 4
    batch_bytes: int = 1 << 16
    pinned: bool = True
    operator_us: float = 7.0
    python_us: float = 4.0
    step_python_ms: float = 0.05
    reads: int = 0
    read_python_ms: float = 0.0
    reads_loss: bool = False
    collects_ms: float = 0.0
    allocations: int = 0
    logs_ms: float = 0.0
    saves_ms: float = 0.0
    reduces_each: bool = False
    trains: bool = True
    drawn: int = 0


class WholeTraining(Training):
    """The loop of a whole job."""

    job: WholeJob

    def __init__(self, job: WholeJob) -> None:
        super().__init__(job)
        self.model = Model(job.shape, job.code, gpu(job.device, job.drawn))
        self._layer_ops = list(self.model.layer())
        self._backward_ops = list(self.model.layer_backward())
        self._loaded = self.ranks.now  # when the next batch is ready, of the workers
        self._reads_left = 0

    def _step(self) -> None:
        for micro in range(self.job.accumulates):
            self._load()
            if micro == 0 and self.job.trains:
                with self.ranks.range("Optimizer.zero_grad#AdamW.zero_grad"):
                    self.ranks.host(20)
            self._micro_batch(is_last=micro == self.job.accumulates - 1)
            if self.job.reads_loss and micro < self.job.accumulates - 1:
                self.ranks.read_back()
        if self.job.trains:
            self._clip()
            self._update()
        self._end()

    # -- the input -----------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Wait for the batch, and copy it to the device."""
        ranks, job = self.ranks, self.job
        if not ranks.trouble.costs("data"):
            return
        late = ranks.trouble.delay_ns("data")
        batch_ns = int(job.batch_ms * 1e6)
        with ranks.range(f"enumerate(DataLoader)#{LOADERS[job.workers > 0]}.__next__"):
            ranks.host(40)
            if job.workers:
                each_ns, ahead = batch_ns // job.workers, PREFETCHED * batch_ns
                self._loaded = np.maximum(self._loaded + each_ns, ranks.now - ahead)
                ranks.pause(np.maximum(self._loaded - ranks.now, 0) + late)
            else:
                ranks.pause(batch_ns + late)
        ranks.copy(job.batch_bytes, job.pinned)

    # -- the model -----------------------------------------------------------------------------------------------

    def _micro_batch(self, is_last: bool) -> None:
        self._reads_left = self.job.reads
        with self.ranks.range(DDP) if self.job.ranks > 1 else nullcontext():
            self._forward()
        if not self.job.trains:
            self._run([self.model.product(self.job.shape.tokens, self.job.shape.width, self.job.shape.vocabulary)])
            return
        self._loss()
        self._backward(reduces=self.job.ranks > 1 and (is_last or self.job.reduces_each))

    def _backward(self, reduces: bool) -> None:
        ranks = self.ranks
        for _ in range(self.job.shape.layers):
            if self.job.recomputes:
                with ranks.backward("CheckpointFunctionBackward"):
                    self._run(self._layer_ops)
            for node, ops in self._backward_ops:
                with ranks.backward(node):
                    self._run(ops, python=False)
            if reduces:
                with ranks.backward(HOOK):
                    self._gradients(self.job.shape.layer_parameters)
        if reduces:
            ranks.wait(GRADIENTS)

    def _forward(self) -> None:
        for number in range(self.job.shape.layers):
            self._run(self._layer_ops)
            self._read()
            if number == self.job.shape.layers // 2:
                collects = int(self.job.collects_ms * 1e6) * self.ranks.trouble.costs("host")
                self.ranks.collection(self.ranks.trouble.delay_ns("gc") + collects)
                self._allocate()

    def _gradients(self, elements: int) -> None:
        """Two buckets of a layer's gradients, which travel in bf16."""
        for _ in range(2):
            collective(self.ranks, "data", self.groups["data"], "allreduce", elements // 2, GRADIENTS)

    def _loss(self) -> None:
        """The head and cross entropy, whose logits exist in fp32 unless one kernel consumes them.

        That reads them twice, for the sum and for the gradient, which it writes in their place.
        """
        ranks, shape = self.ranks, self.job.shape
        logits = (shape.tokens, shape.vocabulary)
        fused = self.job.code.fused_loss
        self._run([self.model.product(shape.tokens, shape.width, shape.vocabulary)])
        if fused:
            self._run([self.model.moves("LigerCrossEntropyFunction", logits, 3, "liger_cross_entropy_kernel")])
        else:
            soft = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*)"
            self._run([self.model.moves("aten::copy_", logits, 1.5, dtype="float")])
            self._run([self.model.moves("aten::_log_softmax", logits, 2, soft, "float")])
            with ranks.backward("NllLossBackward0"):
                self._run([self.model.moves("aten::nll_loss_backward", logits, 1, dtype="float")])
            with ranks.backward("LogSoftmaxBackward0"):
                back = soft.replace("Forward", "Backward")
                self._run([self.model.moves("aten::_log_softmax_backward_data", logits, 3, back, "float")])
                self._run([self.model.moves("aten::copy_", logits, 1.5, dtype="float")])
        with ranks.backward("MmBackward0"):
            self._run(list(self.model.linear_backward(shape.width, shape.vocabulary)), python=False)

    def _run(self, ops: list[Op], python: bool = True) -> None:
        """The operators, one after the other; autograd calls them without Python in between."""
        for op in ops:
            if python:
                self.ranks.host(self.job.python_us)
            self.ranks.op(op.name, op.shown, op.launched, self.job.operator_us, op.dtypes)

    # -- the optimizer -------------------------------------------------------------------------------------------

    def _weights(self, parameters: float, passes: float, name: str, kernel: str) -> Op:
        """An operator over weights and their states, which are fp32 unless the model is all bf16."""
        width = 4 if self.job.code.units != "bf16" or self.job.code.casts_weights else 2
        return Op(name, ((),), kernel, 0.0, self.model.gpu.bytes_ns(parameters * passes * width), ("float",))

    def _clip(self) -> None:
        if not self.job.clips:
            return
        parameters = self.job.shape.layers * self.job.shape.layer_parameters
        with self.ranks.range("diagnose.clip"):
            self._run([self._weights(parameters, 1, "aten::_foreach_norm", FOREACH)])
            self._run([self._weights(parameters, 2, "aten::_foreach_mul_", FOREACH)])

    def _update(self) -> None:
        shape, how = self.job.shape, self.job.optimizer
        head, passes = shape.vocabulary * shape.width, STATE_PASSES[how]
        kinds = {
            "fused": (1, "aten::_fused_adamw_", FUSED_ADAM),
            "foreach": (FOREACH_KERNELS, "aten::_foreach_add_", FOREACH),
        }
        loop = (
            LOOP_OPERATORS * TENSORS,
            "aten::addcdiv_",
            "void at::native::vectorized_elementwise_kernel<4, at::native::addcdiv_cuda_kernel>(int)",
        )
        count, name, kernel = kinds.get(how, loop)
        trained = ADAPTED if self.job.code.adapts else 1.0
        with self.ranks.range("Optimizer.step#AdamW.step"):
            for parameters in (*(shape.layer_parameters,) * shape.layers, head):
                self._run([self._weights(trained * parameters, passes / count, name, kernel)] * count)

    # -- what stops the step -------------------------------------------------------------------------------------

    def _read(self) -> None:
        """A value is read off the device and looked at, as often as the micro-batch still has to."""
        share = -(-self._reads_left // self.job.shape.layers) if self._reads_left > 0 else 0
        for _ in range(share):
            self.ranks.read_back()
            self._pause(self.job.read_python_ms)
        self._reads_left -= share

    def _pause(self, ms: float) -> None:
        self.ranks.pause(np.full(self.job.ranks, int(ms * 1e6) * self.ranks.trouble.costs("host")))

    def _allocate(self) -> None:
        for _ in range(self.job.allocations):
            with self.ranks.range("aten::empty", "cpu_op"):
                self.ranks.driver("cudaMalloc", 120)
            self.ranks.driver("cudaFree", 80)

    def _end(self) -> None:
        ranks = self.ranks
        if self.job.reads_loss:
            ranks.read_back()
        self._pause(self.job.step_python_ms)
        for name, ms in (("diagnose.log", self.job.logs_ms), ("diagnose.save", self.job.saves_ms)):
            if ms:
                with ranks.range(name):
                    self._pause(ms)
        self._write()
