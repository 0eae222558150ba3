"""Whether ranks share the samples out: what the probe sees of a loader, and what is said of two ranks that do not."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from kineto import Trace
from lines.lines_jobs import recorded
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from diagnose.analysis import analyze
from diagnose.probes.facts.all_rows import all_rows

RULE = "samples-repeated-by-ranks"
JOB = Path(__file__).parent / "advice" / "jobs" / "unshared_samples.py"
ROWS = TensorDataset(torch.arange(24.0).view(8, 3), torch.arange(8))
OTHERS = TensorDataset(torch.arange(24.0).view(8, 3) + 1, torch.arange(8))
PATIENCE_S = 300


class Own(Dataset[int]):
    """Rows that only code shows."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, at: int) -> int:
        return at


def test_loaders_of_all_rows_of_one_dataset_have_one_number() -> None:
    whole = all_rows(DataLoader(ROWS, 2, shuffle=True))

    assert whole
    assert all_rows(DataLoader(ROWS, 4)) == whole
    assert all_rows(DataLoader(OTHERS, 2)) not in (whole, None)


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(ROWS, 2, sampler=DistributedSampler(ROWS, num_replicas=2, rank=0)),
        DataLoader(ROWS, 2, sampler=RandomSampler(ROWS, num_samples=4)),
        DataLoader(Subset(ROWS, [0, 1, 2, 3]), 2),
        DataLoader(Own(), 2),
    ],
    ids=["a part for each rank", "some rows", "a subset", "rows that code makes"],
)
def test_what_may_be_a_part_has_none(loader: Any) -> None:
    assert all_rows(loader) is None


def ranks(folder: Path, *numbers: int | None, ddp: dict[str, Any] | None) -> set[str]:
    """The rules that fire on two ranks whose datasets have these numbers."""
    jobs = []
    for rank in range(2):
        job = Trace(gpu=None, rank=rank, world=2)
        for _ in range(4):
            with job.step():
                job.cpu_op("aten::mm", 6000)
        jobs.append(job)
    records = [{"world_size": 2, "ddp": ddp, "dataloader": {"all_rows": number}} for number in numbers]
    return {each.rule for each in recorded(folder, jobs, *records).findings}


@pytest.mark.parametrize(
    ("numbers", "ddp", "fires"),
    [
        ((7, 7), {"static_graph": False}, True),
        ((7, 8), {"static_graph": False}, False),  # each has a part
        ((7, None), {"static_graph": False}, False),
        ((7, 7), None, False),  # ranks of another kind may need the same samples
    ],
)
def test_ranks_of_ddp_that_draw_from_the_same_rows_are_told(
    tmp_path: Path, numbers: tuple[int | None, ...], ddp: dict[str, Any] | None, fires: bool
) -> None:
    assert (RULE in ranks(tmp_path, *numbers, ddp=ddp)) == fires


@pytest.mark.capture
@pytest.mark.slow
@pytest.mark.parametrize(("options", "fires"), [([], True), (["shared"], False)])
def test_a_real_job_of_two_ranks(tmp_path: Path, options: list[str], fires: bool) -> None:
    out = tmp_path / "bundle"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    asked = ["run", "--no-ledger", "--stop", "--out", str(out), "--", *torchrun, str(JOB), *options]
    subprocess.run(
        [sys.executable, "-m", "diagnose", *asked], cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True, capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip

    assert (RULE in {each.rule for each in analyze(out).findings}) == fires
