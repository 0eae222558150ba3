"""The operators of a transformer's training step, each with the kernel it launches and what that computes and moves.

Bytes are counted as the eager code moves them: each operand read once, each result written once.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .events import Kernel
from .gpu import TAIL_NS, Gpu, Units

Dims = tuple[tuple[int, ...], ...]
_ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>(int)"
_TEMPLATE = "void at::native::(anonymous namespace)::{}(int)"
_PRODUCTS: dict[Units, str] = {
    "bf16": "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
    "tf32": "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas",
    "fp32": "ampere_sgemm_128x64_tn",
}
BF16 = "c10::BFloat16"
_TYPES: dict[Units, str] = {"bf16": BF16, "tf32": "float", "fp32": "float"}
RANK = 16  # of an adapter
FP8_TIME, FLASH_3_TIME = 0.62, 0.65  # of the same arithmetic in bf16, casts included; with Hopper's own kernels
ODD_SIZES = 0.7  # of the speed of a product whose rows in memory are not whole vectors
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false>>(Flash_fwd_params)"
FLASH_BACK = "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128>>(int)"
_EFFICIENT = "fmha_cutlass{}_f32_aligned_64x64_{}_sm80(PyTorchMemEffAttention::{}<float>::Params)"
ATTENTION = {  # by whether half precision computes: forward, backward
    True: (FLASH, FLASH_BACK),
    False: (
        _EFFICIENT.format("F", "rf", "AttentionKernel"),
        _EFFICIENT.format("B", "k64", "AttentionBackwardKernel"),
    ),
}
FUSED_ADAM = _TEMPLATE.format("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>")
FOREACH = _TEMPLATE.format("multi_tensor_apply_kernel<BinaryOpListAlphaFunctor<float, 2, 2, 0>, std::plus<float>>")


@dataclass(frozen=True)
class Op:
    """An operator: its sizes, its kernel, and the nanoseconds that arithmetic and bytes each take there."""

    name: str
    dims: Dims
    kernel: str
    arithmetic_ns: float
    bytes_ns: float
    dtypes: tuple[str, ...]

    @property
    def memory_bound(self) -> bool:
        """Whether its bytes take longer than its arithmetic."""
        return self.bytes_ns >= self.arithmetic_ns

    @cached_property
    def launched(self) -> Kernel:
        """Its kernel: the longer of both, and a tail."""
        us = (max(self.arithmetic_ns, self.bytes_ns) + TAIL_NS) / 1000
        return Kernel(self.kernel, us, self.memory_bound, power=0)

    @cached_property
    def shown(self) -> str:
        """Its sizes as an event shows them."""
        return json.dumps(self.dims)


@dataclass(frozen=True)
class Shape:
    """A decoder and its batch: `inner` is the width of its feed-forward part."""

    layers: int = 6
    width: int = 2048
    heads: int = 16
    inner: int = 8192
    vocabulary: int = 32_000
    batch: int = 4
    length: int = 1024

    @property
    def tokens(self) -> int:
        """Of a micro-batch."""
        return self.batch * self.length

    @property
    def layer_parameters(self) -> int:
        """Weights of one layer."""
        return 4 * self.width**2 + 2 * self.width * self.inner


@dataclass(frozen=True)
class Code:
    """How the model is written: the arithmetic of its products, which of its parts are one kernel, and whether its
    weights are frozen and each linear layer has an adapter of low rank (LoRA).
    """

    units: Units = "bf16"
    casts_weights: bool = False
    fp8: bool = False
    attention: Literal["eager", "flash", "flash-3"] = "flash"
    fused_norm: bool = True
    fused_loss: bool = True
    fused_elementwise: bool = True
    adapts: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of an activation."""
        return 2 if self.units == "bf16" else 4


class Model:
    """The operators of a model of some shape, written in some way, on a GPU."""

    def __init__(self, shape: Shape, code: Code, device: Gpu) -> None:
        self.shape, self.code, self.gpu = shape, code, device
        self._type = _TYPES[code.units]

    # -- kinds of operators --------------------------------------------------------------------------------------

    def product(self, rows: int, inner: int, columns: int, count: int = 1, dims: Dims = ()) -> Op:
        """`count` products of rows x inner and inner x columns; in fp8 those of linear layers are faster."""
        flops = 2.0 * count * rows * inner * columns * (FP8_TIME if self.code.fp8 and not dims else 1.0)
        moved = count * (rows * inner + inner * columns + rows * columns) * self.code.itemsize
        filled = self.gpu.filled(count * rows, columns) * (1.0 if columns % 8 == inner % 8 == 0 else ODD_SIZES)
        name, shapes = ("aten::bmm", dims) if dims else ("aten::mm", ((rows, inner), (inner, columns)))
        arithmetic = self.gpu.arithmetic_ns(flops, self.code.units, filled=filled)
        kernel = _PRODUCTS[self.code.units]
        if self.code.fp8 and not dims:
            name, kernel = "aten::_scaled_mm", "nvjet_sm90_qqtst_128x256_128x4_1x2_h_bz_TNT"
        return Op(name, shapes, kernel, arithmetic, self.gpu.bytes_ns(moved), (self._type,))

    def moves(self, name: str, size: tuple[int, ...], passes: float, kernel: str = "", dtype: str = "") -> Op:
        """An operator that moves `passes` times the elements of `size` and computes next to nothing."""
        elements = 1.0
        for one in size:
            elements *= one
        title = kernel or _ELEMENTWISE.format(f"{name.removeprefix('aten::')}_kernel_cuda")
        width = 4 if dtype == "float" else self.code.itemsize
        return Op(name, (size, size), title, 0.0, self.gpu.bytes_ns(elements * width * passes), (dtype or self._type,))

    def _hidden(self, name: str, passes: float, kernel: str = "", dtype: str = "") -> Op:
        return self.moves(name, (self.shape.batch, self.shape.length, self.shape.width), passes, kernel, dtype)

    def linear(self, inner: int, columns: int) -> Iterator[Op]:
        """A linear layer, after the cast of its weight where autocast makes one."""
        if self.code.casts_weights:
            yield self._cast((columns, inner))
        yield self.product(self.shape.tokens, inner, columns)
        if self.code.adapts:
            yield self.product(self.shape.tokens, inner, RANK)
            yield self.product(self.shape.tokens, RANK, columns)
            yield from self._scaled_and_added(columns, columns)

    def _scaled_and_added(self, scaled: int, added: int) -> Iterator[Op]:
        """What an adapter's result is scaled by, and its sum with that of the layer."""
        yield self.moves("aten::mul", (self.shape.tokens, scaled), 2)
        yield self.moves("aten::add", (self.shape.tokens, added), 3)

    def linear_backward(self, inner: int, columns: int) -> Iterator[Op]:
        """Gradients of the input and of the weight, which is cast back where autocast cast it; of the adapter's weights
        where there is one.
        """
        yield self.product(self.shape.tokens, columns, inner)
        if self.code.adapts:
            for size in (columns, inner):
                yield self.product(self.shape.tokens, size, RANK)
                yield self.product(RANK, self.shape.tokens, size)
            yield from self._scaled_and_added(columns, inner)
            return
        yield self.product(columns, self.shape.tokens, inner)
        if self.code.casts_weights:
            yield self._cast((columns, inner))

    def _cast(self, size: tuple[int, int]) -> Op:
        kernel = (
            "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(TensorIteratorBase&)>()"
        )
        moved = self.gpu.bytes_ns(6.0 * size[0] * size[1])
        return Op("aten::copy_", (size, size, ()), kernel, 0.0, moved, (BF16, "float", "Scalar"))

    # -- parts of a layer ----------------------------------------------------------------------------------------

    def norm(self) -> Iterator[Op]:
        """A norm in one kernel, or composed of an RMS norm's operators in fp32."""
        if self.code.fused_norm:
            kernel = _TEMPLATE.format("vectorized_layer_norm_kernel<c10::BFloat16, float>")
            yield self._hidden("aten::native_layer_norm", 2, kernel)
            return
        yield self._hidden("aten::pow", 2, dtype="float")
        yield self._hidden(
            "aten::mean", 1, _TEMPLATE.format("reduce_kernel<512, 1, ReduceOp<float, MeanOps>>"), "float"
        )
        tokens = (self.shape.batch, self.shape.length, 1)
        yield self.moves("aten::rsqrt", tokens, 2, dtype="float")
        yield self._hidden("aten::mul", 2, dtype="float")
        yield self._hidden("aten::mul", 2, dtype="float")

    def norm_backward(self) -> Iterator[tuple[str, list[Op]]]:
        """Its gradient, by node of autograd: of the weight's product, of that with rsqrt, then down to the square."""
        if self.code.fused_norm:
            kernel = _TEMPLATE.format("layer_norm_grad_input_kernel_vectorized<c10::BFloat16>")
            yield "NativeLayerNormBackward0", [self._hidden("aten::native_layer_norm_backward", 3, kernel)]
            return
        tokens = (self.shape.batch, self.shape.length, 1)
        sums = self._hidden("aten::sum", 1, _TEMPLATE.format("reduce_kernel<512, 1, ReduceOp<float, Sum>>"), "float")
        product = [*(self._hidden("aten::mul", passes, dtype="float") for passes in (2, 3)), sums]
        yield "MulBackward0", product[:1] if self.code.adapts else product
        yield "MulBackward0", product
        yield "RsqrtBackward0", [self.moves("aten::mul", tokens, 3, dtype="float")]
        yield "MeanBackward1", [self._hidden("aten::div", 1, dtype="float")]
        yield "PowBackward0", [self._hidden("aten::mul", passes, dtype="float") for passes in (2, 3)]

    def attention(self) -> Iterator[Op]:
        """Attention without its projections: one kernel, or products, mask, and softmax in fp32 over the scores."""
        shape, width = self.shape, self.shape.width // self.shape.heads
        if self.code.attention != "eager":
            yield self._flash(backward=False)
            return
        count, scores = shape.batch * shape.heads, (shape.batch, shape.heads, shape.length, shape.length)
        yield self.product(shape.length, width, shape.length, count, self._per_head(width, shape.length))
        yield self.moves("aten::div", scores, 2)
        yield self.moves("aten::add", scores, 2)
        yield self.moves(
            "aten::_softmax", scores, 3, "void softmax_warp_forward<float, float, float, 11, false>(float*)"
        )
        yield self.moves("aten::copy_", scores, 3)
        yield self.product(shape.length, shape.length, width, count, self._per_head(shape.length, width))

    def attention_backward(self) -> Iterator[Op]:
        """Its gradient."""
        shape, width = self.shape, self.shape.width // self.shape.heads
        if self.code.attention != "eager":
            yield self._flash(backward=True)
            return
        count, scores = shape.batch * shape.heads, (shape.batch, shape.heads, shape.length, shape.length)
        yield self.product(shape.length, width, shape.length, count, self._per_head(width, shape.length))
        yield self.product(shape.length, shape.length, width, count, self._per_head(shape.length, width))
        kernel = "void softmax_warp_backward<float, float, float, 11, false>(float*)"
        yield self.moves("aten::copy_", scores, 3)
        yield self.moves("aten::_softmax_backward_data", scores, 6, kernel)
        yield self.moves("aten::div", scores, 2)
        for _ in range(2):
            yield self.product(shape.length, shape.length, width, count, self._per_head(shape.length, width))

    def _per_head(self, inner: int, columns: int) -> Dims:
        count = self.shape.batch * self.shape.heads
        return ((count, self.shape.length, inner), (count, inner, columns))

    def _flash(self, backward: bool) -> Op:
        """Causal attention in one kernel: half of the scores, whose products are five instead of two backward.

        Flash kernels compute in half precision alone. In fp32 the memory-efficient ones run, which make each product
        of three in TF32.
        """
        shape, half = self.shape, self.code.units == "bf16"
        flops = (5.0 if backward else 2.0) * shape.batch * shape.length**2 * shape.width
        heads = (shape.batch, shape.heads, shape.length, shape.width // shape.heads)
        moved = self.gpu.bytes_ns(4.0 * shape.tokens * shape.width * self.code.itemsize)
        faster = FLASH_3_TIME if self.code.attention == "flash-3" and half else 1.0 if half else 3.0
        arithmetic = self.gpu.arithmetic_ns(flops * faster, "bf16" if half else "tf32", "attention")
        name = f"aten::_scaled_dot_product_{'flash' if half else 'efficient'}_attention{'_backward' * backward}"
        return Op(name, (heads,) * 3, ATTENTION[half][backward], arithmetic, moved, (self._type,))

    def activation(self, backward: bool = False) -> Iterator[Op]:
        """The feed-forward part's activation: one kernel, or the five of tanh's formula."""
        size = (self.shape.batch, self.shape.length, self.shape.inner)
        suffix = "_backward" if backward else ""
        if self.code.fused_elementwise:
            yield self.moves(f"aten::gelu{suffix}", size, 3 if backward else 2)
            return
        for name in ("pow", "mul", "add", f"tanh{suffix}", "mul"):
            yield self.moves(f"aten::{name}", size, 3 if backward else 2)

    def residual(self) -> Iterator[Op]:
        """What is added to the stream."""
        yield self._hidden("aten::add", 3)

    def layer(self) -> Iterator[Op]:
        """One layer forward."""
        width, inner = self.shape.width, self.shape.inner
        yield from (*self.norm(), *self.linear(width, 3 * width), *self.attention(), *self.linear(width, width))
        yield from (*self.residual(), *self.norm(), *self.linear(width, inner), *self.activation())
        yield from (*self.linear(inner, width), *self.residual())

    def layer_backward(self) -> Iterator[tuple[str, list[Op]]]:
        """One layer backward, by node of autograd."""
        width, inner = self.shape.width, self.shape.inner
        yield "MmBackward0", list(self.linear_backward(inner, width))
        yield "GeluBackward0", list(self.activation(backward=True))
        yield "MmBackward0", list(self.linear_backward(width, inner))
        yield from (*self.norm_backward(), ("AddBackward0", list(self.residual())))
        yield "MmBackward0", list(self.linear_backward(width, width))
        yield "ScaledDotProductFlashAttentionBackward0", list(self.attention_backward())
        yield "MmBackward0", list(self.linear_backward(width, 3 * width))
        yield from (*self.norm_backward(), ("AddBackward0", list(self.residual())))
