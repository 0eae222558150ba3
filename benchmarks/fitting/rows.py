"""Measured runs of public tables as rows that a training stack is fitted on."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.table import plan_of
from diagnose.formulas.model import ModelShape
from diagnose.predict.memory.job import JobPlan, Sharding

from .megatron import megatron
from .rates import Row

LADDER = Path(__file__).parents[1] / "ladder.csv"


def shape_of(name: str) -> ModelShape:
    """The model of that name."""
    return model_from(name)[1]


def nanotron(path: Path) -> Iterator[Row]:
    """Rows of ultrascale_playbook_h100.csv."""
    for row in rows_of(path):
        tokens_per_s = float(row["tokens_per_s_per_gpu"])
        yield Row(plan_of(row, "nanotron", shape_of), tokens_per_s, float(row["mfu_percent"]) / 100, row["model"])


def llm_foundry(path: Path) -> Iterator[Row]:
    """The rows in bf16 of llm_foundry_mpt.csv: FSDP, whose wrapped blocks are gathered for each pass."""
    for row in rows_of(path):
        if "bf16" in row["precision"]:
            plan = plan_of(row, "llm-foundry", shape_of)
            yield Row(plan, float(row["throughput_t_s_gpu"]), float(row["mfu"]) / 100, row["model"])


_LADDER_DTYPES = {("fp32", "no"): "tf32", ("fp32", "bf16"): "bf16-mixed", ("bf16", "bf16"): "bf16"}
_LADDER_GPUS_PER_NODE = 4


def transformers(path: Path = LADDER) -> Iterator[Row]:
    """The rows that ran of the ladder: transformers' Trainer with DDP on nodes of four H100 with 64 GB."""
    for row in rows_of(path):
        if row["outcome"] == "ok":
            plan = ladder_plan(row)
            mfu = 6 * plan.model.parameters * float(row["tokens_per_s_per_gpu"]) / 989.4e12
            yield Row(plan, float(row["tokens_per_s_per_gpu"]), mfu, row["model"])


def ladder_plan(row: Mapping[str, str]) -> JobPlan:
    """The job of one row of the ladder."""
    gpus = int(row["gpus"])
    return JobPlan(
        name=row["model"],
        model=shape_of(row["model"]),
        gpu=gpu_named("H100-64GB-MN5"),
        gpus=gpus,
        nodes=max(gpus // _LADDER_GPUS_PER_NODE, 1),
        seq_len=int(row["seq_len"]),
        micro_batch=int(row["micro_batch"]),
        dtype=_LADDER_DTYPES[row["model_precision"], row["mixed_precision"]],
        attention="eager" if row["attention"] == "eager" else "sdpa",
        liger=row["liger"] == "true",
        sharding=Sharding(dp=gpus),
    )


_TITAN = re.compile(r"Llama ?3\S* (?P<size>8b|70b).*?(?P<gpus>\d+) (GPUs|H100s).*?ocal batch size (?P<batch>\d+)", re.I)
_TITAN_SEQ_LEN = 8192  # of its Llama 3 configurations


def torchtitan(path: Path) -> Iterator[Row]:
    """The rows of torchtitan.csv without context, pipeline and asynchronous tensor parallelism."""
    for row in rows_of(path):
        if (plan := titan_plan(row)) and row["quantization"] != "float8 rowwise":  # slower than products in bf16
            rate = float((row["tps_gpu"] or row["vanilla_tp_tokens_sec"]).replace(",", ""))
            yield Row(plan, rate, 1.0, plan.name.upper())


def titan_plan(row: Mapping[str, str]) -> JobPlan | None:
    """The job of a row of torchtitan.csv, None of one that is not predicted."""
    found = _TITAN.search(row["section"])
    if found is None or row["parallelism"] or "Async" in row["techniques"]:
        return None
    how, gpus = f"{row['section']} {row['techniques']} {row['quantization']}", int(found["gpus"])
    tp = 8 if "TP" in row["section"] else 1
    return JobPlan(
        name=found["size"],
        model=shape_of(f"Llama-3.1-{found['size'].upper()}"),
        gpu=gpu_named("H100-96GB-HBM2e"),
        gpus=gpus,
        nodes=gpus // 8,
        seq_len=_TITAN_SEQ_LEN,
        micro_batch=int(found["batch"]),
        dtype="bf16-mixed",
        checkpointing="full" if "ull AC" in how or "Full act" in how else "selective",
        compiled="torch.compile" in how,
        fp8="loat8" in how,
        sharding=Sharding(dp=gpus // tp, tp=tp, zero=3),
        stack="torchtitan",
    )


_CODE_LLAMA_34B = ModelShape(hidden=8192, layers=48, heads=64, kv_heads=8, ffn=22016, vocab=32000)
_FMS_BOARDS = (("a100x128_tokens_per_s_per_gpu", "A100-SXM4-80GB", 128), ("h100x96_tokens_per_s_per_gpu", "H100", 96))


def fms(path: Path) -> Iterator[Row]:
    """Rows of fms_fsdp.csv: Llama 2 under FSDP with torch.compile, sequences of 4,096 tokens, on two boards each."""
    for row in rows_of(path):
        shape = _CODE_LLAMA_34B if row["model"] == "34b" else shape_of(f"Llama-2-{row['model']}")
        for column, board, gpus in _FMS_BOARDS:
            plan = JobPlan(
                name=row["model"],
                model=shape,
                gpu=gpu_named(board),
                gpus=gpus,
                nodes=gpus // 8,
                seq_len=4096,
                micro_batch=int(row["batch_size"]),
                dtype="bf16-mixed",
                checkpointing="none" if row["activation_checkpointing"] == "No AC" else "selective",
                compiled=row["compile"] == "Y",
                sharding=Sharding(dp=gpus, zero=3, replicas=gpus // 8 if row["sharding"] == "HSDP" else 1),
            )
            yield Row(plan, float(row[column]), 1.0, row["model"])


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table by their columns."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


SOURCES: Mapping[str, tuple[str, Callable[[Path], Iterator[Row]]]] = {
    "nanotron": ("ultrascale_playbook_h100.csv", nanotron),
    "llm-foundry": ("llm_foundry_mpt.csv", llm_foundry),
    "torchtitan": ("torchtitan.csv", torchtitan),
    "megatron": ("megatron_bridge.csv", megatron),
    "transformers": ("", lambda _: transformers()),
}
UNNAMED: Mapping[str, tuple[str, Callable[[Path], Iterator[Row]]]] = {"fms-fsdp": ("fms_fsdp.csv", fms)}
"""Stack to its table, in the folder of public tables ("" is in the repository), and how it is read; `UNNAMED` have too
few rows for rates of their own and show how far a new stack is off."""
