"""Jobs of the public tables whose memory is held against the ledger: those that state it, and those that ran at all."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.table import plan_of
from diagnose.predict.memory.estimate import GIB, memory_estimate, stage_estimates
from diagnose.predict.memory.fits import FitsAnswer
from diagnose.predict.memory.job import Checkpointing, JobPlan, Sharding

from . import experts
from .megatron import megatron
from .rates import Row as RateRow
from .rows import LADDER, ladder_plan, rows_of, shape_of


@dataclass(frozen=True)
class Row:
    """One job that ran, or ran out of memory.

    Attributes:
        what: model and source.
        plan: the job.
        measured_gib: what its table states; None if it states nothing.
        predicted_gib: the same, as the ledger counts it.
        ran: whether it ran.
    """

    what: str
    plan: JobPlan
    measured_gib: float | None
    predicted_gib: float
    ran: bool = True

    @property
    def error(self) -> float | None:
        """Share of the measured memory by which the ledger is above it."""
        return None if self.measured_gib is None else self.predicted_gib / self.measured_gib - 1

    @property
    def answer(self) -> FitsAnswer:
        """Whether the job fits."""
        return memory_estimate(self.plan).fits.answer


def _row(what: str, plan: JobPlan, measured: str, counted: int, ran: bool = True) -> Row:
    return Row(what, plan, float(measured) if measured and ran else None, counted / GIB, ran)


def ladder_rows() -> Iterator[Row]:
    """Every row of the ladder; memory is that of the process."""
    for cells in rows_of(LADDER):
        plan, ran = ladder_plan(cells), cells["outcome"] == "ok"
        what, counted = f"{cells['source']} {cells['row']}", memory_estimate(plan).total_bytes
        yield _row(what, plan, cells["memory_gb"], counted, ran)


def ultrascale_rows(path: Path) -> Iterator[Row]:
    """Every row that states memory; rank 0 logs what the first stage allocated."""
    for cells in rows_of(path):
        if cells["gpu_memory_gb"]:
            plan = plan_of(cells, "nanotron", shape_of)
            yield _row(cells["model"], plan, cells["gpu_memory_gb"], stage_estimates(plan)[0].allocated_bytes)


def llm_foundry_rows(path: Path) -> Iterator[Row]:
    """Every row of llm-foundry's tables."""
    for cells in rows_of(path):
        yield _ran("MPT " + cells["model"], plan_of(cells, "llm-foundry", shape_of))


_TITAN = re.compile(r"Llama 3\S* (?P<size>\d+B) model. (?P<gpus>\d+) GPUs.*ocal batch size (?P<batch>\d+)")
_TITAN_STAGES = 8


def torchtitan_rows(path: Path) -> Iterator[Row]:
    """Every row that states memory, which is what torch reserved on the fullest rank."""
    context = experts.torchtitan_context(path)
    for cells in rows_of(path):
        shared = next(context).plan if cells["parallelism"] else None
        if cells["memory_gib"]:
            plan = replace(shared, stack="torchtitan") if shared else _titan_plan(cells)
            how = cells["techniques"] or cells["schedule"] or cells["parallelism"] or "FSDP + torch.compile, 2025"
            yield _row(f"Llama 3.1 {plan.name}, {how}", plan, cells["memory_gib"], memory_estimate(plan).reserved_bytes)


def _titan_plan(cells: Mapping[str, str]) -> JobPlan:
    """The job of a row; those of June 2025 on H200 are described outside the table."""
    found, how = _TITAN.search(cells["section"]), cells["section"] + cells["techniques"]
    size, gpus, batch = (found["size"], int(found["gpus"]), int(found["batch"])) if found else ("8B", 0, 2)
    gpus = gpus or 8 * int(cells["num_nodes"])
    tp = 8 if found and "TP" in how else 1
    pp = _TITAN_STAGES if found and "PP" in how else 1
    return JobPlan(
        name=size,
        model=shape_of(f"Llama-3.1-{size}"),
        gpu=gpu_named("H100-96GB-HBM2e" if found else "H200"),
        gpus=gpus,
        nodes=gpus // 8,
        seq_len=8192,
        micro_batch=batch // pp,
        accumulation=pp,
        dtype="bf16-mixed",
        checkpointing="full" if "Full activation" in how else "selective",
        compiled=not found or "compile" in how,
        fp8=not found or "loat8" in how,
        sharding=Sharding(gpus // (tp * pp), tp, pp, zero=3, uneven_stages=pp > 1),
        stack="torchtitan",
    )


def megatron_rows(path: Path) -> Iterator[Row]:
    """Megatron-Bridge's rows whose model and number type are known."""
    kinds = megatron, experts.megatron_context, experts.megatron_mixtures, experts.megatron_tuning
    for read in kinds:
        yield from _all_ran(read(path), "megatron")


_AUTOMODEL_KEEPS = ("gpt-oss-20b", "gpt-oss-120b", "Llama-3.1-8B", "Qwen2.5-7B")


def automodel_rows(path: Path) -> Iterator[Row]:
    """NeMo AutoModel's rows whose model is known, with what its recipes say and the table does not.

    They checkpoint the blocks of most models, and divide experts among all ranks where the table leaves that open.
    """
    for row in _all_ran(experts.nemo(path), "nemo-automodel"):
        plan, sharding = row.plan, row.plan.sharding
        kept: Checkpointing = "none" if plan.name in _AUTOMODEL_KEEPS else "full"
        if plan.model.experts and sharding.ep == 1:
            sharding = replace(sharding, ep=plan.gpus)
        yield _ran(row.what, replace(plan, checkpointing=kept, sharding=sharding))


_FMS_BOARDS = {"A100-SXM4-80GB": 128, "H100": 96}
_FMS_RECOMPUTES = ("34b", "70b")  # a third more hardware FLOPs than model FLOPs: every block is computed again
_FMS_SHAPES = {"7b": "Llama-2-7b", "13b": "Llama-2-13b", "70b": "Llama-2-70b"}


def fms_rows(path: Path) -> Iterator[Row]:
    """fms-fsdp's rows whose model is known, on both boards; HSDP shards inside a node."""
    for cells in rows_of(path):
        for board, gpus in _FMS_BOARDS.items():
            if shape := _FMS_SHAPES.get(cells["model"]):
                replicas = gpus // 8 if cells["sharding"] == "HSDP" else 1
                plan = JobPlan(
                    name=shape,
                    model=shape_of(shape),
                    gpu=gpu_named(board),
                    gpus=gpus,
                    nodes=gpus // 8,
                    seq_len=4096,
                    micro_batch=int(cells["batch_size"]),
                    checkpointing="full" if cells["model"] in _FMS_RECOMPUTES else "none",
                    compiled=cells["compile"] == "Y",
                    sharding=Sharding(gpus, zero=3, replicas=replicas),
                    stack="fms-fsdp",
                )
                yield _ran(shape, plan)


def _ran(what: str, plan: JobPlan) -> Row:
    return _row(what, plan, "", memory_estimate(plan).total_bytes)


def _all_ran(rows: Iterator[RateRow], stack: str) -> Iterator[Row]:
    for row in rows:
        yield _ran(row.plan.name, replace(row.plan, stack=stack))


ULTRASCALE, TORCHTITAN, LLM_FOUNDRY = "ultrascale_playbook_h100.csv", "torchtitan.csv", "llm_foundry_mpt.csv"
SOURCES: Mapping[str, tuple[str, Callable[[Path], Iterator[Row]]]] = {
    "transformers": ("", lambda _: ladder_rows()),
    "nanotron": (ULTRASCALE, ultrascale_rows),
    "torchtitan": (TORCHTITAN, torchtitan_rows),
    "llm-foundry": (LLM_FOUNDRY, llm_foundry_rows),
    "megatron": ("megatron_bridge.csv", megatron_rows),
    "nemo-automodel": ("nemo_automodel.csv", automodel_rows),
    "fms-fsdp": ("fms_fsdp.csv", fms_rows),
}
"""Stack to its table, in the folder of public tables ("" is in the repository), and how it is read."""
