"""A trace with the step of a rung of the ladder: each part with the time that its bytes and FLOPs take.

The parts are modelled, then stretched alike until they add up to the measured step: what no model explains is taken to
be spread evenly. Modelled parts explain 72 to 83 % of the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kineto import Trace
from worked_examples import traffic
from worked_examples.predict import bytes_s, optimizer_s

from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import attention_flops, linear_flops_per_token
from diagnose.formulas.throughput import step_s

# What the ladder's GPU reaches: matrix products and fused attention in FLOP/s, memory in bytes/s.
PRODUCT_FLOPS, ATTENTION_FLOPS, BYTES_PER_S = 650e12, 280e12, 1.45e12
# Bytes for each token, layer and unit of the width, forward and backward, in transformers' code for Llama in bf16.
NORM, ROPE, GLU, RESIDUAL = 200, 50, 112, 42
# Of these, what operators show that can be told from others: a norm's forward, an activation and its gradient.
SEEN_NORM, SEEN_GLU = 48, 64
RECOMPUTED = 14 / 12  # fused attention computes the scores again in its backward pass
STEPS, MS = 4, 1e3
GEMM = "nvjet_tst_128x256_64x4_1x2_h_bz_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
SOFTMAX = "void softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 11, false, false>(c10::BFloat16*)"
ADAMW = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<BinaryOpListAlphaFunctor<float, 2>>()"


def parts_ms(row: Mapping[str, Any], shape: ModelShape) -> dict[str, float]:
    """Milliseconds of each part of the step of a bf16 row without Liger; they add up to the measured step."""
    batch, tokens = row["micro_batch"], row["seq_len"]
    score_flops = batch * attention_flops(shape, tokens * tokens)
    unit = batch * tokens * shape.hidden * shape.layers
    found = {
        "products": linear_flops_per_token(shape) * batch * tokens / PRODUCT_FLOPS,
        "norm": bytes_s(SEEN_NORM * unit, BYTES_PER_S),
        "glu": bytes_s(SEEN_GLU * unit, BYTES_PER_S),
        "other": bytes_s((NORM - SEEN_NORM + ROPE + GLU - SEEN_GLU + RESIDUAL) * unit, BYTES_PER_S),
        "loss": bytes_s(traffic.logit_chain_bytes(batch, tokens, shape.vocab), BYTES_PER_S),
        "clip": bytes_s(traffic.clip_bytes(shape.parameters, 2), BYTES_PER_S),
        "optimizer": optimizer_s(shape.parameters, BYTES_PER_S),
    }
    found["optimizer"] -= found["clip"]
    if row["attention"] == "eager":
        scores = traffic.eager_attention_bytes(batch, shape.heads, tokens, shape.layers)
        found["scores"] = bytes_s(scores, BYTES_PER_S)
        found["score products"] = score_flops / PRODUCT_FLOPS
    else:
        found["fused attention"] = score_flops * RECOMPUTED / ATTENTION_FLOPS
    stretched = measured_s(row) / sum(found.values())
    return {part: MS * seconds * stretched for part, seconds in found.items()}


def measured_s(row: Mapping[str, Any]) -> float:
    """Seconds of a step of the row."""
    return step_s(row["micro_batch"], row["seq_len"], float(row["tokens_per_s_per_gpu"]))


def trace_of(row: Mapping[str, Any], shape: ModelShape, parts: Mapping[str, float]) -> Trace:
    """Steps of the row, each part's milliseconds in the kernels by which the rules know it."""
    job = Trace()
    for _ in range(STEPS):
        with job.step():
            _step(job, parts, row, shape)
    return job


def _step(job: Trace, parts: Mapping[str, float], row: Mapping[str, Any], shape: ModelShape) -> None:
    batch, tokens = row["micro_batch"], row["seq_len"]
    flat, scores = [batch * tokens, shape.hidden], [batch, shape.heads, tokens, tokens]
    per_head = [batch * shape.heads, tokens, shape.head_dim]

    def kernels(name: str, dims: Any, kernel: str, part: str, share: float = 1.0) -> None:
        job.op(name, dims, kernel, parts.get(part, 0.0) * share * MS)

    for name in ("pow", "mean", "rsqrt", "mul", "mul"):
        kernels(f"aten::{name}", [flat], ADD, "norm", 0.2)
    kernels("aten::mm", [flat, [shape.hidden, shape.ffn]], GEMM, "products", 0.5)
    if "scores" in parts:
        kernels("aten::bmm", [per_head, [per_head[0], shape.head_dim, tokens]], GEMM, "score products", 0.5)
        kernels("aten::_softmax", [scores], SOFTMAX, "scores")
        kernels("aten::bmm", [[per_head[0], tokens, tokens], per_head], GEMM, "score products", 0.5)
    else:
        kernels("aten::_scaled_dot_product_flash_attention", [scores[:3]], "flash_fwd_kernel", "fused attention")
    for name in ("silu", "mul", "silu_backward"):
        kernels(f"aten::{name}", [[*flat[:1], shape.ffn]], ADD, "glu", 1 / 3)
    kernels("aten::_log_softmax", [[batch * tokens, shape.vocab]], SOFTMAX, "loss")
    kernels("aten::mm", [flat, [shape.hidden, shape.ffn]], GEMM, "products", 0.5)
    kernels("aten::add_", [flat], ADD, "other")
    kernels("aten::_foreach_mul_", [flat], ADAMW, "clip")
    with job.optimizer():
        kernels("aten::_foreach_add_", [flat], ADAMW, "optimizer")
