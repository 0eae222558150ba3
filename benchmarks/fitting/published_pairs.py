"""Published pairs of runs that differ in one thing (pairs.csv): what it changed, and what is predicted of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.step_time import predict_step
from diagnose.predict.memory.adapters import ALL_LINEAR, Adapters
from diagnose.predict.memory.job import JobPlan, Sharding

from .rows import rows_of, shape_of

TELLING = 0.05  # of the rate: a smaller change has no sign
_FULL_SHARD, _SHARD_GRAD_OP = 3, 2
_LORA = {"adapters": Adapters(16, (ALL_LINEAR,))}


def _job(model: str, gpu: str, gpus: int = 1, zero: int = 0, **fields: object) -> JobPlan:
    given = {"dtype": "bf16", "sharding": Sharding(dp=gpus, zero=zero)} | fields
    return JobPlan(model, shape_of(model), gpu_named(gpu), gpus, **given)  # type: ignore[arg-type]


_LLAMA = _job("Llama-3.1-8B", "H100", seq_len=1024, micro_batch=4, **_LORA)
_SMALL = {"seq_len": 512, "micro_batch": 4, **_LORA}
_SHORT = {"seq_len": 128, "micro_batch": 8, **_LORA}
_TP = _job("Llama-2-7b", "H100", 8, seq_len=4096, dtype="bf16-master-fp32-grads", sharding=Sharding(tp=8))


def _qwen(gpus: int, zero: int = 0) -> JobPlan:
    return _job("Qwen2.5-0.5B", "H100", gpus, zero, **_SMALL)


def _resident(gpus: int, zero: int = 0) -> JobPlan:
    return _job("Llama-3.1-8B", "H100-PCIe-80GB", gpus, zero, **_SHORT)


JOBS: Mapping[tuple[str, str, str], tuple[str, JobPlan, JobPlan]] = {
    ("STEP 17", "SDPA (cuDNN flash)", "FlashAttention 2"): ("transformers", _LLAMA, replace(_LLAMA, attention="flash")),
    ("STEP 17", "SDPA", "use_liger_kernel"): ("transformers", _LLAMA, replace(_LLAMA, liger=True)),
    ("STEP 17", "SDPA", "FA2 + Liger"): ("transformers", _LLAMA, replace(_LLAMA, attention="flash", liger=True)),
    ("STEP 12", "ZeRO-3 on 8", "1 GPU resident"): ("transformers", _resident(8, _FULL_SHARD), _resident(1)),
    ("STEP 20", "FSDP full_shard", "DDP"): ("transformers", _qwen(4, _FULL_SHARD), _qwen(4)),
    ("STEP 20", "FSDP shard_grad_op", "DDP"): ("transformers", _qwen(4, _SHARD_GRAD_OP), _qwen(4)),
    ("STEP 20", "1 GPU", "DDP 4 GPU"): ("transformers", _qwen(1), _qwen(4)),
    ("5438", "local kernels", "Liger (RMSNorm + CE)"): ("megatron", _TP, replace(_TP, liger=True)),
}
"""Pairs that `fit` can express, by the end of `where`, `before` and `after`."""

REASONS: Mapping[str, str] = {
    "offload": "offloading to the host is not predicted",
    "pi0": "no language model: a vision-language-action model",
    "DPO": "preference training, with a second model",
    "HSTU": "no language model: a recommender",
    "image classification": "no language model",
    "AsyncGRPO": "reinforcement learning on a GPU that is not named",
}


@dataclass(frozen=True)
class PublishedPair:
    """A pair of runs.

    Attributes:
        name: what changed, and for which job.
        measured: rate after over rate before.
        predicted: the same, predicted; None if it cannot be expressed.
        because: why not; "" if it can.
    """

    name: str
    measured: float
    predicted: float | None = None
    because: str = ""

    @property
    def has_right_sign(self) -> bool | None:
        """Whether it was predicted to help where it helped; None of a change too small to have a sign."""
        if self.predicted is None or abs(self.measured - 1) <= TELLING:
            return None
        return (self.measured > 1) == (self.predicted > 1)


def published_pairs(path: Path, stacks: Mapping[str, StackRates]) -> Iterator[PublishedPair]:
    """Every row of pairs.csv, predicted with the rates of its stack; a workload of "same" is that of the row above."""
    workload = ""
    for row in rows_of(path):
        workload = workload if row["workload"] == "same" else row["workload"]
        name, measured = f"{row['before']} to {row['after']}: {workload}", float(row["ratio"])
        if job := _job_of(row):
            stack, before, after = stacks[job[0]], *job[1:]
            rates = [predict_step(plan, stack).tokens_per_s for plan in (before, after)]
            yield PublishedPair(name, measured, rates[1] / rates[0])
        else:
            words = f"{row['before']} {row['after']} {workload}"
            yield PublishedPair(name, measured, because=next(why for key, why in REASONS.items() if key in words))


def _job_of(row: Mapping[str, str]) -> tuple[str, JobPlan, JobPlan] | None:
    found = (job for (where, *change), job in JOBS.items()
             if row["where"].endswith(where) and change == [row["before"], row["after"]])  # fmt: skip
    return next(found, None)
