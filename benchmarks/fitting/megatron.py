"""The dense Llama pre-training rows of Megatron-Bridge's performance summary, as runs and as TFLOP/s."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.models import model_from
from diagnose.predict.memory.job import JobPlan, Sharding

from .rates import Row

_MODEL = re.compile(r"LLAMA3(\.1)?_\d+B")
_SYSTEM = re.compile(r"DGX-(\w+)")
_NUMBER = re.compile(r"[\d.]+")
_FP8 = re.compile(r"(MX)?FP8")
_NVLINK_GPUS = {"GB200": 64, "GB300": 64}  # of the 72 that one switch joins, those that a job of a power of two takes


@dataclass(frozen=True)
class Printed:
    """A row that states one throughput, or the first or second of two.

    Attributes:
        cells: of the table.
        model: as the table names it.
        tokens_per_s_per_gpu: that it reached.
        tflops: model FLOP/s of a GPU, with the table's digits.
        place: 0 or 1: which of the two values that a cell may hold ("4 (8)") is this run's.
    """

    cells: Mapping[str, str]
    model: str
    tokens_per_s_per_gpu: float
    tflops: str
    place: int

    def count(self, name: str) -> int:
        """A cell's number, 1 where it holds none."""
        numbers = _NUMBER.findall(self.cells[name] or "")
        return int(numbers[min(self.place, len(numbers) - 1)]) if numbers else 1


def printed_rows(path: Path, models: re.Pattern[str] = _MODEL, kind: str = "Pre-Training") -> Iterator[Printed]:
    """Every throughput of these models, dense Llamas unless others are named, in that kind of job."""
    with path.open(newline="", encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            model = models.search(cells["section"] + cells["model"])
            if model and kind in cells["section"]:
                rates, flops = (
                    _NUMBER.findall(cells[name].partition("[")[0]) for name in ("tokens_sec_gpu", "model_tflop_sec_gpu")
                )
                for place, (rate, tflops) in enumerate(zip(rates, flops, strict=False)):
                    yield Printed(cells, model[0], float(rate), tflops, place)


def megatron(path: Path) -> Iterator[Row]:
    """Those in fp8 without context parallelism; where the table states no precision (25.09) it is fp8."""
    for row in printed_rows(path):
        precision = row.cells["precision"]
        if (not precision or _FP8.search(precision)) and row.count("cp") == 1:
            yield Row(plan_of_printed(row), row.tokens_per_s_per_gpu, 1.0, row.model.rpartition("_")[2])


def plan_of_printed(row: Printed, name: str | None = None) -> JobPlan:
    """The job of a row, of the model of that name where the table's name is not known."""
    system = _SYSTEM.search(row.cells["system"] or row.cells["section"])
    assert system is not None, row.cells
    name, shape = model_from(name or row.model)
    gpus, tp, pp, micro_batch = (row.count(column) for column in ("n_gpus", "tp", "pp", "mbs"))
    cp, ep = row.count("cp"), row.count("ep")
    dp, shards = gpus // (tp * pp * cp), _NUMBER.findall(row.cells["fsdp"] or "")
    sharded = bool(shards) and int(shards[min(row.place, len(shards) - 1)]) > 1
    return JobPlan(
        name=name,
        model=shape,
        gpu=gpu_named(system[1]),
        gpus=gpus,
        nodes=max(gpus // _NVLINK_GPUS.get(system[1], 8), 1),
        seq_len=row.count("sequence_length"),
        micro_batch=micro_batch,
        accumulation=row.count("gbs") // (dp * micro_batch),
        dtype="bf16-master-fp32-grads",
        fp8=True,
        attention="flash",
        sharding=Sharding(dp, tp, pp, zero=(3 if sharded else 1) if dp > 1 else 0, uneven_stages=True, cp=cp, ep=ep),
        stack="megatron",
    )
