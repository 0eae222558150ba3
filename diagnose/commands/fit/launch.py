"""The settings that launch a plan: TrainingArguments and accelerate's configuration, or its stack's own."""

from collections.abc import Mapping
from typing import Any

from diagnose.commands.fit.launch_stacks import has_own_file, stack_file, yaml
from diagnose.predict.memory.adapters import ALL_LINEAR
from diagnose.predict.memory.job import JobPlan

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
        "fp16": plan.dtype.startswith("fp16") and plan.dtype != "fp16",  # its scaler takes no gradients in fp16
        "tf32": plan.dtype == "tf32",
        "gradient_checkpointing": plan.checkpointing != "none" and not _is_fsdp(plan),
        "use_liger_kernel": plan.liger,
        "torch_compile": plan.compiled,
    }
    return {name: value for name, value in named.items() if value is not False} | {"optim": _OPTIMIZERS[plan.optimizer]}


def model_kwargs(plan: JobPlan) -> Settings:
    """Keyword arguments of `from_pretrained`."""
    dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(plan.dtype, "float32")
    experts = (
        {"experts_implementation": "grouped_mm"} if plan.model.experts and plan.expert_products == "grouped" else {}
    )
    return {"dtype": dtype, "attn_implementation": _ATTENTION[plan.attention]} | experts


def lora_config(plan: JobPlan) -> Settings:
    """Keyword arguments of peft's LoraConfig; none without adapters."""
    if plan.adapters is None:
        return {}
    targets = plan.adapters.targets
    return {"r": plan.adapters.rank, "target_modules": ALL_LINEAR if targets == (ALL_LINEAR,) else list(targets)}


def quantization_config(plan: JobPlan) -> Settings:
    """Keyword arguments of transformers' BitsAndBytesConfig; none for weights that stay as they are."""
    if plan.adapters is None or not plan.adapters.quantized:
        return {}
    return {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}


def is_for_trainer(stack: str) -> bool:
    """Whether transformers' Trainer launches the plans of the stack of that name."""
    return not has_own_file(stack)


def launch_file(plan: JobPlan, stack: str) -> tuple[str, str]:
    """Name and text of the file that divides the job: accelerate's configuration, or that of the named stack."""
    own = stack_file(plan, stack)
    return own if own else ("accelerate.yaml", yaml(_accelerate(plan)))


def _is_fsdp(plan: JobPlan) -> bool:
    return plan.sharding.zero >= 2


def _accelerate(plan: JobPlan) -> Settings:
    zero = plan.sharding.zero
    kinds = {0: "MULTI_GPU" if plan.gpus > 1 else "NO", 1: "DEEPSPEED", 2: "FSDP", 3: "FSDP"}
    half = plan.dtype[:4] if plan.dtype[:4] in ("bf16", "fp16") and plan.dtype != "fp16" else "no"
    mixed = "fp8" if plan.fp8 else half
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
