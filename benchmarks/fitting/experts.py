"""Rows of mixtures of experts, adapters and context parallelism in the public tables, and how far off they are.

    python -m benchmarks.fitting.experts TABLES            # the tables of the report
    python -m benchmarks.fitting.experts TABLES --write

Rates of mixtures and of context parallelism are fitted with the stack's other rates as they are; each model is left out
in turn.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from reporting import page, parser, publish, table

from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.stacks import StackRates, stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.predict.memory.adapters import ALL_LINEAR, Adapters
from diagnose.predict.memory.job import JobPlan, Sharding

from .megatron import Printed, plan_of_printed, printed_rows
from .rates import FIRM, Row, fitted, ratios
from .rows import rows_of

_MIXTURES = {
    "Qwen3_30B_a3B": "Qwen3-30B-A3B", "Qwen3_235B_a22B": "Qwen3-235B-A22B", "GPT OSS 120B": "gpt-oss-120b",
    "DeepSeekV3": "DeepSeek-V3", "Kimi_K2": "Kimi-K2",
}  # fmt: skip
_NEMO = {
    "Qwen3 MoE 30B": "Qwen3-30B-A3B", "GPT-OSS 20B": "gpt-oss-20b", "GPT-OSS 120B": "gpt-oss-120b",
    "DeepSeek V3 671B": "DeepSeek-V3", "Kimi K2": "Kimi-K2", "Llama3 70B": "Llama-3.1-70B",
    "Llama3 8B": "Llama-3.1-8B", "Qwen2.5 7B": "Qwen2.5-7B", "Qwen2.5 32B": "Qwen2.5-32B",
}  # fmt: skip
_MIXTURE_RATES = ("expert_share", "expert_layer_s", "exchange_exposed_share")
_KNOWN_PRECISION = re.compile(r"BF16|FP8")


def megatron_mixtures(path: Path) -> Iterator[Row]:
    """Megatron-Bridge's mixtures in bf16 and fp8; interleaved stages are predicted as if they were not."""
    for row in printed_rows(path, re.compile("|".join(_MIXTURES))):
        precision = row.cells["precision"] or "FP8"
        if _KNOWN_PRECISION.match(precision.removeprefix("MX")):
            plan = plan_of_printed(row, _MIXTURES[row.model])
            fp8 = "FP8" in precision
            yield Row(replace(plan, fp8=fp8), row.tokens_per_s_per_gpu, 1.0, _MIXTURES[row.model])


def megatron_context(path: Path) -> Iterator[Row]:
    """Megatron-Bridge's dense Llamas in fp8 with context parallelism."""
    for row in printed_rows(path):
        if row.count("cp") > 1 and "FP8" in (row.cells["precision"] or "FP8"):
            yield Row(plan_of_printed(row), row.tokens_per_s_per_gpu, 1.0, row.model)


def megatron_tuning(path: Path) -> Iterator[Row]:
    """Megatron-Bridge's fine-tuning of Llama 3 70B: all weights, or adapters on all linear layers."""
    for kind, adapters in (("SFT", None), ("LoRA", Adapters(16, (ALL_LINEAR,)))):
        for row in printed_rows(path, kind=kind):
            plan = plan_of_printed(row)
            yield Row(replace(plan, adapters=adapters), row.tokens_per_s_per_gpu, 1.0, kind)


def nemo(path: Path) -> Iterator[Row]:
    """NeMo AutoModel's rows whose model is known: bf16, FSDP, DeepEP; adapters of rank 16 on all linear layers."""
    for row in rows_of(path):
        name = re.sub(r" 2-node$", "", row["model"])
        if name in _NEMO:
            yield Row(_nemo_plan(row, _NEMO[name]), float(row["tokens_sec_gpu"].replace(",", "")), 1.0, _NEMO[name])


def _nemo_plan(row: dict[str, str], name: str) -> JobPlan:
    gpus, tp, pp, cp, ep = (_count(row[column]) for column in ("ngpus", "tp", "pp", "cp", "ep"))
    dp, micro_batch = gpus // (tp * pp * cp), _count(row["mbs"])
    lora = "LoRA" in row["section"]
    return JobPlan(
        name=name,
        model=model_from(name)[1],
        gpu=gpu_named("H100"),
        gpus=gpus,
        nodes=max(gpus // 8, 1),
        seq_len=_count(row["seq_length"]),
        micro_batch=micro_batch,
        accumulation=max(_count(row["gbs"]) // (dp * micro_batch), 1),
        dtype="bf16",
        attention="flash",
        adapters=Adapters(16, (ALL_LINEAR,)) if lora else None,
        sharding=Sharding(dp, tp, pp, 3 if dp * cp > 1 and pp == 1 else int(dp > 1), uneven_stages=True, cp=cp, ep=ep),
    )


def _count(cell: str) -> int:
    return int(cell) if cell.isdigit() else 1


_TITAN_DEGREES = re.compile(r"FSDP (?P<dp>\d+), CP (?P<cp>\d+)")


def torchtitan_context(path: Path) -> Iterator[Row]:
    """torchtitan's sequences of 32k to 262k tokens on 1 to 8 ranks each, Llama 3.1 8B on one node and 405B on 64."""
    for row in rows_of(path):
        if found := _TITAN_DEGREES.match(row["parallelism"]):
            large = "405B" in row["section"]
            size, tp, pp = ("405B", 8, 8) if large else ("8B", 1, 1)
            dp, cp = int(found["dp"]), int(found["cp"])
            plan = JobPlan(
                name=size,
                model=model_from(f"Llama-3.1-{size}")[1],
                gpu=gpu_named("H100-96GB-HBM2e"),
                gpus=dp * cp * tp * pp,
                nodes=dp * cp * tp * pp // 8,
                seq_len=int(row["sequence_length"]),
                accumulation=8 if large else 1,
                checkpointing="full",
                compiled=True,
                fp8=True,
                sharding=Sharding(dp, tp, pp, 0 if large and dp * cp == 1 else 2 if large else 3, cp=cp, uneven_stages=large),
            )
            yield Row(plan, float(row["tps_gpu"].replace(",", "")), 1.0, size)


def blind(rows: Sequence[Row], start: StackRates, names: Sequence[str]) -> np.ndarray:
    """Predicted over measured throughput of each row, with the named rates fitted on the rows of other models."""
    predicted = np.ones(len(rows))
    for model in sorted({row.model for row in rows}):
        inside = [at for at, row in enumerate(rows) if row.model == model]
        learned = fitted([row for row in rows if row.model != model], start, names, FIRM)
        predicted[inside] = ratios([rows[at] for at in inside], learned)
    return predicted
