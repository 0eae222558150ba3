"""A decoder-only transformer, issued operator by operator onto the streams of tests/kineto.py.

Matrix products run at 650 TFLOP/s and attention at 400 TFLOP/s of the H100's 989 dense bf16, memory-bound kernels at
2.6 TB/s of its 3.35; no kernel is shorter than 2 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kineto import Trace

GEMM_FLOPS, ATTENTION_FLOPS, BYTES = 650e12, 400e12, 2.6e12  # per second

NATIVE = "void at::native::"
GEMMS = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_NNT"
CAST = (
    NATIVE + "unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)"
    "::{lambda()#3}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, 4>(int)"
)
SOFTMAX = (
    NATIVE + "(anonymous namespace)::cunn_SoftMax{}<8, float, float, float, "
    "at::native::(anonymous namespace)::SoftMax{}Epilogue>(float*)"
)
MEAN = NATIVE + "reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float>>>(int)"
SUM = NATIVE + "reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<float>>>(int)"
EMBEDDING = NATIVE + "(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2>(int)"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
    "cutlass::bfloat16_t>>(pytorch_flash::Flash_fwd_params)"
)
FLASH_BACKWARD = (
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<128>>"
    "(pytorch_flash::Flash_bwd_params)"
)
FUSED_ADAMW = (
    NATIVE + "(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<c10::BFloat16, 4, "
    "(at::native::ADAM_MODE)1, false>>(int)"
)
FOREACH = (
    NATIVE + "(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<{0}>, at::native::(anonymous namespace)::{1}<c10::BFloat16, {0}>>(int)"
)


def _pointwise(functor: str) -> str:
    return f"{NATIVE}vectorized_elementwise_kernel<4, {functor}, std::array<char*, 3ul>>(int, {functor})"


ADD, MUL = _pointwise("at::native::CUDAFunctor_add<c10::BFloat16>"), _pointwise("at::native::MulFunctor<c10::BFloat16>")
POW, RSQRT = _pointwise("at::native::pow_tensor_scalar_kernel"), _pointwise("at::native::rsqrt_kernel_cuda")
SILU = _pointwise("at::native::(anonymous namespace)::silu_kernel")


@dataclass(frozen=True)
class Model:
    """A transformer and how it is run; `eager` composes attention, norms and loss of single operators."""

    layers: int
    hidden: int
    heads: int
    inner: int
    vocabulary: int
    batch: int
    length: int
    eager: bool = False

    @property
    def tokens(self) -> int:
        """Tokens in one step."""
        return self.batch * self.length

    @property
    def parameters(self) -> int:
        """Parameters, without those of the norms."""
        return self.layers * self.hidden * (4 * self.hidden + 3 * self.inner) + self.vocabulary * self.hidden


@dataclass(frozen=True)
class Run:
    """One model issued onto one trace."""

    job: Trace
    model: Model
    host_us: float = 6  # that an operator spends on the host

    def gemm(self, m: int, n: int, k: int, batch: int = 0) -> None:
        """A matrix product [m, k] x [k, n], or a batch of them."""
        us = max(2 * m * n * k * max(batch, 1) / GEMM_FLOPS, 2 * max(batch, 1) * (m * k + k * n + m * n) / BYTES) * 1e6
        lead = [batch] if batch else []
        dims = [[*lead, m, k], [*lead, k, n]]
        name = "aten::bmm" if batch else "aten::mm"
        self.job.op(name, dims, GEMMS[bool(batch)], max(us, 4), host_us=self.host_us)

    def move(self, name: str, kernel: str, shape: Sequence[int], passes: float, inputs: int = 1, size: int = 2) -> None:
        """A memory-bound operator: `passes` reads and writes of `shape`, `size` bytes an element."""
        count = 1
        for n in shape:
            count *= n
        us = max(2.0, count * size * passes / BYTES * 1e6)
        dtype = {2: "c10::BFloat16", 4: "float"}[size]
        self.job.op(name, [list(shape)] * inputs, kernel, us, dtype=dtype, host_us=self.host_us)

    def norm(self, back: bool = False) -> None:
        """An RMSNorm over the hidden states."""
        shape = [self.model.batch, self.model.length, self.model.hidden]
        if not self.model.eager:
            name = f"_rms_norm_{'backward' if back else 'forward'}_kernel"
            self.move("LigerRMSNormFunction" + "Backward" * back, name, shape, 4 if back else 2)
            return
        self.move("aten::_to_copy", CAST, shape, 1.5, size=4)
        self.move("aten::pow", POW, shape, 2, size=4)
        self.move("aten::mean", MEAN, shape, 1, size=4)
        self.move("aten::rsqrt", RSQRT, [*shape[:2], 1], 2, size=4)
        self.move("aten::mul", MUL, shape, 2, inputs=2, size=4)
        self.move("aten::_to_copy", CAST, shape, 1.5, size=4)
        self.move("aten::mul", MUL, shape, 2, inputs=2)
        if back:
            self.move("aten::mul", MUL, shape, 3, inputs=2, size=4)
            self.move("aten::sum", SUM, shape, 1)

    def attention(self, back: bool = False) -> None:
        """Self-attention of all heads, without its projections."""
        m, head = self.model, self.model.hidden // self.model.heads
        if m.eager:
            self._eager_attention(m.batch * m.heads, m.length, head, back)
            return
        dims = [[m.batch, m.heads, m.length, head]] * 3
        us = (10 if back else 4) * m.batch * m.heads * m.length**2 * head / 2 / ATTENTION_FLOPS * 1e6
        name = "aten::_scaled_dot_product_flash_attention" + "_backward" * back
        args = {"Concrete Inputs": ["", "", "", "0.", "True"]}
        self.job.op(name, dims, FLASH_BACKWARD if back else FLASH, us, host_us=self.host_us, args=args)

    def _eager_attention(self, batch: int, t: int, head: int, back: bool) -> None:
        scores = [self.model.batch, self.model.heads, t, t]
        if back:
            self.gemm(t, t, head, batch)
            self.gemm(t, head, t, batch)
            self.move("aten::_to_copy", CAST, scores, 1.5, size=4)
            self.move("aten::_softmax_backward_data", SOFTMAX.format("Backward", "Backward"), scores, 3, 2, size=4)
            self.move("aten::_to_copy", CAST, scores, 1.5, size=4)
            self.move("aten::mul", MUL, scores, 2)
            self.gemm(t, head, t, batch)
            self.gemm(t, head, t, batch)
            return
        self.gemm(t, t, head, batch)
        self.move("aten::mul", MUL, scores, 2)
        self.move("aten::add", ADD, scores, 2, inputs=2)
        self.move("aten::_softmax", SOFTMAX.format("Forward", "Forward"), scores, 2, size=4)
        self.move("aten::_to_copy", CAST, scores, 1.5, size=4)
        self.gemm(t, head, t, batch)

    def activation(self, back: bool = False) -> None:
        """SwiGLU between the projections of the MLP."""
        shape = [self.model.batch, self.model.length, self.model.inner]
        if not self.model.eager:
            name = f"_swiglu_{'backward' if back else 'forward'}_kernel"
            self.move("LigerSiLUMulFunction" + "Backward" * back, name, shape, 5 if back else 3, 2)
            return
        self.move("aten::silu_backward" if back else "aten::silu", SILU, shape, 3 if back else 2)
        for _ in range(2 if back else 1):
            self.move("aten::mul", MUL, shape, 3, inputs=2)

    def layer(self) -> None:
        """The forward pass of one layer."""
        n, h, inner, shape = self.model.tokens, self.model.hidden, self.model.inner, self._hidden()
        self.norm()
        for _ in range(3):
            self.gemm(n, h, h)
        self.attention()
        self.gemm(n, h, h)
        self.move("aten::add", ADD, shape, 3, inputs=2)
        self.norm()
        self.gemm(n, inner, h)
        self.gemm(n, inner, h)
        self.activation()
        self.gemm(n, h, inner)
        self.move("aten::add", ADD, shape, 3, inputs=2)

    def layer_backward(self) -> None:
        """The backward pass of one layer, on the autograd thread."""
        n, h, inner, shape = self.model.tokens, self.model.hidden, self.model.inner, self._hidden()
        with self.job.backward():
            self._product_backward(n, h, inner)
            self.activation(back=True)
            self._product_backward(n, inner, h)
            self._product_backward(n, inner, h)
            self.norm(back=True)
            self.move("aten::add", ADD, shape, 3, inputs=2)
            self._product_backward(n, h, h)
            self.attention(back=True)
            for _ in range(3):
                self._product_backward(n, h, h)
            self.norm(back=True)
            self.move("aten::add", ADD, shape, 3, inputs=2)

    def _product_backward(self, m: int, n: int, k: int) -> None:
        self.gemm(n, k, m)
        self.gemm(m, k, n)

    def _hidden(self) -> list[int]:
        return [self.model.batch, self.model.length, self.model.hidden]

    def embed(self) -> None:
        """Token embedding."""
        self.move("aten::embedding", EMBEDDING, self._hidden(), 2)

    def loss(self) -> None:
        """The vocabulary projection, cross entropy, and both backward passes."""
        m = self.model
        logits = [m.tokens, m.vocabulary]
        self.gemm(m.tokens, m.vocabulary, m.hidden)
        if m.eager:
            self.move("aten::_to_copy", CAST, logits, 1.5, size=4)
            self.move("aten::_log_softmax", SOFTMAX.format("Forward", "LogSoftMaxForward"), logits, 2, size=4)
            nll = NATIVE + "(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)"
            self.move("aten::nll_loss_forward", nll, [m.tokens], 2, size=4)
        else:
            self.move("LigerCrossEntropyFunction", "liger_cross_entropy_kernel", logits, 2)
        with self.job.backward("autograd::engine::evaluate_function: LogSoftmaxBackward0"):
            if m.eager:
                back = SOFTMAX.format("Backward", "LogSoftMaxBackward")
                self.move("aten::_log_softmax_backward_data", back, logits, 3, 2, size=4)
                self.move("aten::_to_copy", CAST, logits, 1.5, size=4)
            self._product_backward(m.tokens, m.vocabulary, m.hidden)

    def optimizer(self) -> None:
        """AdamW, fused or foreach with the model's other kernels, over the parameters in chunks."""
        parts = max(1, self.model.layers)
        share = [self.model.parameters // parts]
        with self.job.optimizer():
            self.job.host(40)
            for _ in range(parts):
                if not self.model.eager:
                    self.move("aten::_fused_adamw_", FUSED_ADAMW, share, 7, 4)
                    continue
                self.move("aten::_foreach_mul_", FOREACH.format(1, "BinaryOpScalarFunctor"), share, 2)
                self.move("aten::_foreach_lerp_", FOREACH.format(2, "TernaryOpScalarFunctor"), share, 3, 2)
                self.move("aten::_foreach_mul_", FOREACH.format(1, "BinaryOpScalarFunctor"), share, 2)
                self.move("aten::_foreach_addcmul_", FOREACH.format(3, "PointwiseOpScalarFunctor"), share, 3, 2)
                self.move("aten::_foreach_sqrt", FOREACH.format(2, "UnaryOpFunctor"), share, 2)
                self.move("aten::_foreach_div_", FOREACH.format(1, "BinaryOpScalarTensorFunctor"), share, 2)
                self.move("aten::_foreach_addcdiv_", FOREACH.format(3, "PointwiseOpScalarListFunctor"), share, 4, 3)
