"""Seconds of low-rank adapters on frozen weights: products without gradients of weights, and the adapters' own work."""

from collections.abc import Iterable

from diagnose.commands.fit.stacks import StackRates
from diagnose.formulas.model_flops import dense_flops_per_token, partly_frozen_flops_per_token
from diagnose.predict.memory.adapters import PARAMETER_BYTES, Matrix, adapted, matrices, trained_parameters
from diagnose.predict.memory.job import JobPlan

# Bytes that an adapter reads and writes for each token and element of its matrix's input, and of its output, in the
# operators of peft 0.17 under autocast: casts to fp32 and back, both products, the scale, the sum, and their gradients.
_INPUT_BYTES, _OUTPUT_BYTES = 36, 18
_FUSED_SHARE = 0.5  # an assumption: what one kernel for an adapter, as NeMo and Megatron have it, leaves of these
_OF_DENSE_BLOCK, _OF_ADAPTER = 105, 26  # operators that launch work, forward and backward
_DEQUANTIZED_BYTES = 0.5 + 2  # 4 bits read and 16 written of each weight, for each pass that multiplies with it
_MODULE_S = 0.72e-3
"""Of a module whose weights ZeRO-3 gathers on its own, in each pass: Qwen2 7B, 57B-A14B and 72B with adapters on all
linear layers took so long on eight H100 (QwenLM/Qwen3, issue 736)."""


def trained_share(plan: JobPlan) -> float:
    """Share of the model's parameters, adapters counted as fp32 values of the gradients' width, that gets gradients."""
    if plan.adapters is None:
        return 1.0
    wide = PARAMETER_BYTES / plan.precision.gradient_bytes
    return wide * trained_parameters(plan.model, plan.adapters) / plan.model.parameters


def with_adapters(
    parts: dict[str, float], plan: JobPlan, layers: int, memory_bytes_per_s: float, fused: bool
) -> dict[str, float]:
    """The parts of a stage, with its weights frozen and adapters beside them.

    Args:
        parts: seconds as if every weight were trained.
        plan: the job.
        layers: blocks of the stage.
        memory_bytes_per_s: bandwidth of the memory.
        fused: one kernel computes an adapter.
    """
    if plan.adapters is None:
        return parts
    frozen = partly_frozen_flops_per_token(1.0, 0.0) / dense_flops_per_token(1.0)
    tokens, tp = plan.micro_batch_tokens, plan.sharding.tp
    moved = sum(
        (_INPUT_BYTES * matrix.inputs + _OUTPUT_BYTES * matrix.outputs) * _used(plan, matrix)
        for matrix in adapted(plan.model, plan.adapters).values()
    )
    beside = layers * moved * tokens / tp / memory_bytes_per_s * (_FUSED_SHARE if fused else 1.0)
    passes = 3 if plan.checkpointing == "full" else 2
    weights = layers * sum(m.inputs * m.outputs * m.of_block for m in matrices(plan.model).values()) / tp
    unpacked = _DEQUANTIZED_BYTES * weights * passes / memory_bytes_per_s if plan.adapters.quantized else 0.0
    return parts | {
        "matrix products": frozen * parts["matrix products"],
        "adapters": beside,
        "weights from 4 bits": unpacked,
    }


def _used(plan: JobPlan, matrix: Matrix) -> float:
    """Matrices of the kind that a token passes in a block, in the mean over blocks."""
    model = plan.model
    return matrix.of_block * (model.experts_per_token / model.experts if matrix.routed else 1.0)


def adapter_host_s(plan: JobPlan, stack: StackRates, layers: int) -> float:
    """Seconds of the host to launch the adapters of a stage's blocks."""
    launches = _OF_ADAPTER / _OF_DENSE_BLOCK * stack.host_layer_s
    return layers * _modules(plan, adapted(plan.model, plan.adapters).values()) * launches


def gathering_modules_s(plan: JobPlan, stack: StackRates, layers: int) -> float:
    """Seconds of gathering the weights of small modules one by one, if FSDP and ZeRO-3 wrap each, as with peft.

    Those are the matrices of blocks with adapters, and the adapters; of other jobs the experts that run in a loop, if
    every pass gathers them. FSDP that wraps whole blocks spares these.
    """
    looped = plan.expert_products == "loop" and plan.model.experts and plan.sharding.zero == 3
    shares = plan.sharding.shards > 1 and (plan.sharding.zero == 3 or plan.gathers_once)
    if not stack.wraps_modules or not shares or not (plan.adapters or looped):
        return 0.0
    modules = _modules(plan, matrices(plan.model).values())
    modules += 2 * _modules(plan, adapted(plan.model, plan.adapters).values())
    passes = 3 if plan.checkpointing == "full" else 2
    return layers * modules * passes * _MODULE_S


def _modules(plan: JobPlan, kinds: Iterable[Matrix]) -> float:
    """Modules of a block that are called on their own: all experts of a grouped product are one."""
    grouped = plan.expert_products == "grouped"
    return sum(min(kind.of_block, 1) if kind.routed and grouped else kind.of_block for kind in kinds)
