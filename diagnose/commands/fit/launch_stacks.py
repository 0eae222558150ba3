"""Settings that divide a plan's job for stacks other than transformers: a file, or arguments."""

from collections.abc import Callable, Mapping
from typing import Any

from diagnose.predict.memory.job import JobPlan

Sections = Mapping[str, Mapping[str, Any]]


def has_own_file(stack: str) -> bool:
    """Whether the stack of that name has a file of its own here; transformers' Trainer stands in for the others."""
    return stack in _FILES


def stack_file(plan: JobPlan, stack: str) -> tuple[str, str] | None:
    """Name and text of the file that the named stack reads; None if it has no file of its own here."""
    if not has_own_file(stack):
        return None
    name, write = _FILES[stack]
    return name, write(plan)


def yaml(config: Mapping[str, Any], indent: str = "") -> str:
    """Mappings of plain values as YAML."""
    lines = []
    for name, value in config.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", yaml(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {str(value).lower() if isinstance(value, bool) else value}")
    return "\n".join(lines)


def _nanotron(plan: JobPlan) -> str:
    sharding = plan.sharding
    parallelism = {
        "dp": sharding.dp,
        "tp": sharding.tp,
        "pp": sharding.pp,
        "pp_engine": sharding.schedule,
        "tp_mode": "REDUCE_SCATTER" if sharding.sequence_parallel else "ALL_REDUCE",
        "tp_linear_async_communication": sharding.sequence_parallel,
        "recompute_layer": plan.checkpointing != "none",
    }
    tokens = {
        "micro_batch_size": plan.micro_batch,
        "batch_accumulation_per_replica": plan.accumulation,
        "sequence_length": plan.seq_len,
    }
    return yaml({"parallelism": parallelism, "optimizer": {"zero_stage": sharding.zero}, "tokens": tokens})


_ONLY_WHERE_USED = ("context_parallel_degree", "expert_parallel_degree")


def _torchtitan(plan: JobPlan) -> str:
    """The settings of torchtitan: a pipeline takes all micro-batches of a step at once and cuts them itself."""
    sharding = plan.sharding
    shards = sharding.dp if sharding.zero else 1
    at_once = plan.accumulation if sharding.pp > 1 else 1
    parallelism = {
        "data_parallel_replicate_degree": sharding.dp // shards,
        "data_parallel_shard_degree": shards,
        "fsdp_reshard_after_forward": "always" if sharding.zero == 3 else "never",
        "tensor_parallel_degree": sharding.tp,
        "pipeline_parallel_degree": sharding.pp,
        "context_parallel_degree": sharding.cp,
        "expert_parallel_degree": sharding.ep,
    }
    parallelism = {name: value for name, value in parallelism.items() if value != 1 or name not in _ONLY_WHERE_USED}
    if sharding.pp > 1:
        parallelism |= {"pipeline_parallel_microbatch_size": plan.micro_batch}
    batch = {"local_batch_size": plan.micro_batch * at_once, "global_batch_size": plan.global_batch}
    return _toml(
        {
            "training": batch | {"seq_len": plan.seq_len},
            "parallelism": parallelism,
            "activation_checkpoint": {"mode": plan.checkpointing},
            "compile": {"enable": plan.compiled},
        }
    )


def _toml(sections: Sections) -> str:
    lines = []
    for section, entries in sections.items():
        lines.append(f"[{section}]")
        for name, value in entries.items():
            plain = f'"{value}"' if isinstance(value, str) else str(value).lower()
            lines.append(f"{name} = {plain}")
    return "\n".join(lines)


def _megatron(plan: JobPlan) -> str:
    sharding = plan.sharding
    lines = [
        f"--tensor-model-parallel-size {sharding.tp}",
        f"--pipeline-model-parallel-size {sharding.pp}",
        f"--micro-batch-size {plan.micro_batch}",
        f"--global-batch-size {plan.global_batch}",
        f"--seq-length {plan.seq_len}",
    ]
    switches = {
        "--sequence-parallel": sharding.tp > 1 and sharding.sequence_parallel,
        "--use-distributed-optimizer": sharding.zero > 0,
        f"--context-parallel-size {sharding.cp}": sharding.cp > 1,
        f"--expert-model-parallel-size {sharding.ep} --moe-grouped-gemm": sharding.ep > 1,
        "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params": sharding.zero == 3,
        "--recompute-granularity selective": plan.checkpointing == "selective",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1": plan.checkpointing
        == "full",
        "--bf16": plan.dtype.startswith("bf16"),
        "--fp16": plan.dtype.startswith("fp16"),
        "--fp8-format hybrid": plan.fp8,
    }
    return "\n".join([*lines, *(switch for switch, wanted in switches.items() if wanted)])


_FILES: Mapping[str, tuple[str, Callable[[JobPlan], str]]] = {
    "nanotron": ("nanotron.yaml", _nanotron),
    "torchtitan": ("torchtitan.toml", _torchtitan),
    "megatron": ("megatron's arguments", _megatron),
}
