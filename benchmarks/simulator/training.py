"""The training loops of a small transformer, data parallel, sharded or tensor parallel."""

from .communication import collective
from .events import GATHERS, GRADIENTS, SCATTERS, TENSOR, Column, Kernel
from .groups import groups_of
from .job import Job
from .machine import Machine

WIDTH, INNER, VOCABULARY = 2048, 8192, 32_000
LAYER_ELEMENTS, HEAD_ELEMENTS = 12 * WIDTH * WIDTH, VOCABULARY * WIDTH
GLOO_SMALLER = 32  # gradients of the job on CPUs: its network is slow, and its kernels take no longer here
FIRST_STEP = 10
HOOK = "torch::autograd::AccumulateGrad"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

_ATEN = "void at::native::{}"
QKV = Kernel("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", 172)
OUT = Kernel("nvjet_tst_128x192_64x5_2x1_v_bz_TNT", 58)
MLP = Kernel("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT", 229)
WEIGHT = Kernel("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x256_32x3_nt_align8", 229)
FLASH = Kernel("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false>>()", 62, power=2)
FLASH_BACK = Kernel(
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128>>()", 155, power=2
)
NORM = Kernel(_ATEN.format("(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>()"), 14, True)
NORM_BACK = Kernel(
    _ATEN.format("(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16>()"), 27, True
)
GELU = Kernel(_ATEN.format("vectorized_elementwise_kernel<8, GeluCUDAKernelImpl(at::TensorIteratorBase&)>()"), 54, True)
GELU_BACK = Kernel(_ATEN.format("vectorized_elementwise_kernel<8, GeluBackwardCUDAKernelImpl()>()"), 80, True)
ADD = Kernel(_ATEN.format("vectorized_elementwise_kernel<8, CUDAFunctor_add<c10::BFloat16>>()"), 21, True)
EMBED = Kernel(
    _ATEN.format("(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, 2, 2, -2, true>()"), 16, True
)
EMBED_BACK = Kernel(_ATEN.format("(anonymous namespace)::embedding_backward_feature_kernel<c10::BFloat16>()"), 45, True)
HEAD = Kernel("nvjet_tst_256x152_64x4_1x2_h_bz_coopA_TNT", 890)
LOSS = Kernel(_ATEN.format("(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float>()"), 190, True)
LOSS_BACK = Kernel(_ATEN.format("(anonymous namespace)::cunn_SoftMaxBackward<8, c10::BFloat16, float>()"), 260, True)
ADAM = Kernel(
    _ATEN.format("(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>()"), 210, True, 0
)
_HIDDEN, _WIDE = f"[[1, T, {WIDTH}]]", f"[[1, T, {INNER}]]"


class Training:
    """A job's training loop on the machine."""

    def __init__(self, job: Job) -> None:
        self.job, self.groups = job, groups_of(job)
        self.ranks = Machine(job)
        self.finished: list[Column] = []
        self._scale = 1 if job.gpu else GLOO_SMALLER

    def run(self) -> Machine:
        """All the steps."""
        for number in range(self.job.steps):
            self.ranks.begin_step(number)
            with self.ranks.range(f"ProfilerStep#{FIRST_STEP + number}"):
                self._step()
            self.ranks.end_step()
            self.finished.append(self.ranks.finished)
        return self.ranks

    def _step(self) -> None:
        ranks = self.ranks
        self._batch()
        self._passes()
        with ranks.range("Optimizer.step#AdamW.step"):
            ranks.host(60)
            self._update()
        ranks.read_back()
        self._write()

    def _passes(self) -> None:
        (self._fsdp if self.job.parallelism == "fsdp" else self._ddp)()

    def _update(self) -> None:
        for _ in range(2 * self.job.layers if self.job.parallelism != "fsdp" else 1):
            self.ranks.op("aten::_fused_adamw_", "[[]]", ADAM)

    def _batch(self) -> None:
        with self.ranks.range(LOADER):
            self.ranks.host(60)
            self.ranks.pause(self.ranks.trouble.delay_ns("data"))
        with self.ranks.range("Optimizer.zero_grad#AdamW.zero_grad"):
            self.ranks.host(20)

    def _write(self) -> None:
        ns = self.ranks.trouble.delay_ns("checkpoint")
        with self.ranks.only(ns > 0), self.ranks.range("diagnose.save"):
            self.ranks.pause(ns)

    # -- the model -----------------------------------------------------------------------------------------------

    def _layer(self, number: int) -> None:
        ranks = self.ranks
        ranks.op("aten::native_layer_norm", _HIDDEN, NORM)
        ranks.op("aten::mm", f"[[T, {WIDTH}], [{WIDTH}, {3 * WIDTH}]]", QKV)
        heads = f"[1, 16, T, {WIDTH // 16}]"
        ranks.op("aten::_scaled_dot_product_flash_attention", f"[{heads}, {heads}, {heads}]", FLASH)
        ranks.op("aten::mm", f"[[T, {WIDTH}], [{WIDTH}, {WIDTH}]]", OUT)
        self._reduced_activations()
        ranks.op("aten::add", f"[[1, T, {WIDTH}], [1, T, {WIDTH}]]", ADD)
        if number == self.job.layers // 2:
            ranks.collection(ranks.trouble.delay_ns("gc"))
        ranks.op("aten::native_layer_norm", _HIDDEN, NORM)
        ranks.op("aten::mm", f"[[T, {WIDTH}], [{WIDTH}, {INNER}]]", MLP)
        ranks.op("aten::gelu", _WIDE, GELU)
        ranks.op("aten::mm", f"[[T, {INNER}], [{INNER}, {WIDTH}]]", MLP)
        self._reduced_activations()
        ranks.op("aten::add", f"[[1, T, {WIDTH}], [1, T, {WIDTH}]]", ADD)
        self._logged_value()

    def _layer_backward(self) -> None:
        ranks = self.ranks
        with ranks.backward("MmBackward0"):
            ranks.op("aten::mm", f"[[T, {WIDTH}], [{WIDTH}, {INNER}]]", MLP)
            ranks.op("aten::mm", f"[[{INNER}, T], [T, {WIDTH}]]", WEIGHT)
            ranks.op("aten::gelu_backward", f"[[1, T, {INNER}], [1, T, {INNER}]]", GELU_BACK)
            ranks.op("aten::mm", f"[[T, {INNER}], [{INNER}, {WIDTH}]]", MLP)
            ranks.op("aten::mm", f"[[{WIDTH}, T], [T, {INNER}]]", WEIGHT)
        self._reduced_activations()
        with ranks.backward("NativeLayerNormBackward0"):
            ranks.op("aten::native_layer_norm_backward", _HIDDEN, NORM_BACK)
            ranks.op("aten::mm", f"[[T, {WIDTH}], [{WIDTH}, {WIDTH}]]", OUT)
            ranks.op("aten::mm", f"[[{WIDTH}, T], [T, {WIDTH}]]", OUT)
        with ranks.backward("ScaledDotProductFlashAttentionBackward0"):
            ranks.op("aten::_scaled_dot_product_flash_attention_backward", f"[[1, 16, T, {WIDTH // 16}]]", FLASH_BACK)
            ranks.op("aten::mm", f"[[T, {3 * WIDTH}], [{3 * WIDTH}, {WIDTH}]]", QKV)
            ranks.op("aten::mm", f"[[{3 * WIDTH}, T], [T, {WIDTH}]]", QKV)
            ranks.op("aten::native_layer_norm_backward", _HIDDEN, NORM_BACK)
        self._reduced_activations()
        self._logged_value()

    def _logged_value(self) -> None:
        """A number is read off the device and written to a log, where that is the fault."""
        ns = self.ranks.trouble.delay_ns("sync")
        if ns.any():
            with self.ranks.unforeseen(), self.ranks.only(ns > 0):
                self.ranks.read_back()
                self.ranks.pause(ns)

    def _more_layers(self) -> None:
        for mask in self.ranks.trouble.extra_layers():
            with self.ranks.unforeseen(), self.ranks.only(mask):
                self._layer(-1)

    def _reduced_activations(self) -> None:
        if self.job.parallelism == "tp_dp" and self.ranks.active.all():
            collective(self.ranks, "tensor", self.groups["tensor"], "allreduce", self.job.tokens * WIDTH, TENSOR)
            self.ranks.wait(TENSOR)

    def _embedding(self) -> None:
        self.ranks.op("aten::embedding", f"[[{VOCABULARY}, {WIDTH}], [1, T]]", EMBED)

    def _embedding_backward(self) -> None:
        with self.ranks.backward("EmbeddingBackward0"):
            self.ranks.op("aten::embedding_dense_backward", f"[[1, T, {WIDTH}]]", EMBED_BACK)

    def _loss(self) -> None:
        self._head()
        self._head_backward()

    def _head(self) -> None:
        ranks = self.ranks
        ranks.op("aten::mm", f"[[T, {WIDTH}], [{WIDTH}, {VOCABULARY}]]", HEAD)
        ranks.op("aten::_log_softmax", f"[[T, {VOCABULARY}]]", LOSS)

    def _head_backward(self) -> None:
        ranks = self.ranks
        with ranks.backward("LogSoftmaxBackward0"):
            ranks.op("aten::_log_softmax_backward_data", f"[[T, {VOCABULARY}]]", LOSS_BACK)
            ranks.op("aten::mm", f"[[T, {VOCABULARY}], [{VOCABULARY}, {WIDTH}]]", HEAD)
            ranks.op("aten::mm", f"[[{WIDTH}, T], [T, {VOCABULARY}]]", HEAD)

    # -- how it is parallel --------------------------------------------------------------------------------------

    def _reduce(self, kind: str, elements: int, stream: int = GRADIENTS) -> None:
        shards = self.job.model_parallel if self.job.parallelism == "tp_dp" else 1
        with self.ranks.backward(HOOK):
            collective(self.ranks, "data", self.groups["data"], kind, elements // self._scale // shards, stream)

    def _ddp(self) -> None:
        """A bucket for each half of a layer; the tied embedding's gradient is ready last and travels alone."""
        with self.ranks.range("DistributedDataParallel.forward"):
            self.ranks.host(40)
            self._embedding()
            for number in range(self.job.layers):
                self._layer(number)
            self._more_layers()
        self._loss()
        for _ in range(self.job.layers):
            self._layer_backward()
            for _ in range(2):
                self._reduce("allreduce", LAYER_ELEMENTS // 2)
        self._embedding_backward()
        self._reduce("allreduce", HEAD_ELEMENTS)
        self.ranks.wait(GRADIENTS)

    def _gather(self, elements: int = LAYER_ELEMENTS) -> None:
        with self.ranks.range("FSDP::all_gather"):
            collective(self.ranks, "data", self.groups["data"], "_allgather_base", elements // self._scale, GATHERS)

    def _fsdp(self) -> None:
        """Parameters of a layer are gathered one layer ahead, forward and backward; gradients are scattered."""
        with self.ranks.range("FSDP::root_pre_forward"):
            self._gather()
            self._embedding()
            for number in range(self.job.layers):
                self.ranks.wait(GATHERS)
                if number + 1 < self.job.layers:
                    self._gather()
                self._layer(number)
            self._more_layers()
        self._loss()
        self._gather()
        for number in range(self.job.layers):
            self.ranks.wait(GATHERS)
            if number + 1 < self.job.layers:
                self._gather()
            self._layer_backward()
            self._reduce("_reduce_scatter_base", LAYER_ELEMENTS, SCATTERS)
        self.ranks.wait(SCATTERS)
