"""The settings that launch a plan: TrainingArguments and accelerate's configuration, or nanotron's parallelism."""

from collections.abc import Mapping
from typing import Any

from diagnose.predict.fit.job import JobPlan

_OPTIMIZERS = {
    "adamw": "adamw_torch_fused",
    "adamw-8bit": "adamw_bnb_8bit",
    "lion": "lion_32bit",
    "lion-8bit": "lion_8bit",
    "sgd": "sgd",
    "sgd-momentum": "sgd",
    "adafactor": "adafactor",
}
_ATTENTION = {"eager": "eager", "sdpa": "sdpa", "flash": "flash_attention_2"}
Settings = Mapping[str, Any]


def training_arguments(plan: JobPlan) -> Settings:
    """Keyword arguments of transformers' TrainingArguments."""
    named = {
        "per_device_train_batch_size": plan.micro_batch,
        "gradient_accumulation_steps": plan.accumulation,
        "bf16": plan.dtype.startswith("bf16"),
        "fp16": plan.dtype.startswith("fp16"),
        "tf32": plan.dtype == "tf32",
        "gradient_checkpointing": plan.checkpointing != "none" and not _is_fsdp(plan),
        "use_liger_kernel": plan.liger,
        "torch_compile": plan.compiled,
    }
    return {name: value for name, value in named.items() if value is not False} | {"optim": _OPTIMIZERS[plan.optimizer]}


def model_kwargs(plan: JobPlan) -> Settings:
    """Keyword arguments of `from_pretrained`."""
    dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(plan.dtype, "float32")
    return {"dtype": dtype, "attn_implementation": _ATTENTION[plan.attention]}


def is_for_trainer(plan: JobPlan) -> bool:
    """Whether transformers' Trainer can divide a job so; tensor and pipeline parallelism need another stack."""
    return plan.sharding.tp == plan.sharding.pp == 1


def launch_file(plan: JobPlan) -> tuple[str, str]:
    """Name and text of the file that divides the job: accelerate's configuration, or a part of nanotron's."""
    if not is_for_trainer(plan):
        return "nanotron.yaml", _yaml({"parallelism": _nanotron(plan), "tokens": _nanotron_tokens(plan)})
    return "accelerate.yaml", _yaml(_accelerate(plan))


def _is_fsdp(plan: JobPlan) -> bool:
    return plan.sharding.zero >= 2 and is_for_trainer(plan)


def _accelerate(plan: JobPlan) -> Settings:
    zero = plan.sharding.zero
    kinds = {0: "MULTI_GPU" if plan.gpus > 1 else "NO", 1: "DEEPSPEED", 2: "FSDP", 3: "FSDP"}
    mixed = plan.dtype[:4] if plan.dtype[:4] in ("bf16", "fp16") else "no"
    config: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kinds[zero],
        "num_machines": plan.nodes,
        "num_processes": plan.gpus,
        "mixed_precision": mixed,
    }
    if zero == 1:
        config["deepspeed_config"] = {"zero_stage": 1, "gradient_accumulation_steps": plan.accumulation}
    if zero >= 2:
        config["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": zero == 3,
            "fsdp_activation_checkpointing": plan.checkpointing != "none",
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        }
    return config


def _nanotron(plan: JobPlan) -> Settings:
    sharding = plan.sharding
    return {
        "dp": sharding.dp,
        "tp": sharding.tp,
        "pp": sharding.pp,
        "pp_engine": sharding.schedule,
        "tp_mode": "REDUCE_SCATTER" if sharding.sequence_parallel else "ALL_REDUCE",
        "tp_linear_async_communication": sharding.sequence_parallel,
        "recompute_layer": plan.checkpointing != "none",
    }


def _nanotron_tokens(plan: JobPlan) -> Settings:
    return {
        "micro_batch_size": plan.micro_batch,
        "batch_accumulation_per_replica": plan.accumulation,
        "sequence_length": plan.seq_len,
    }


def _yaml(config: Settings, indent: str = "") -> str:
    """Mappings of plain values as YAML."""
    lines = []
    for name, value in config.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", _yaml(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {str(value).lower() if isinstance(value, bool) else value}")
    return "\n".join(lines)
