"""What several ranks show together: who may be late by how many steps, and whether they are one job at all."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np
import pytest
from analysed import GEMM
from digests import MS, US, Shared, digests
from kineto import Trace, collective
from msgspec.structs import replace
from needs import needs
from read_once import diagnosis_of
from report.printed import printed

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.probes.config import Config
from diagnose.probes.window import planned
from diagnose.ranks.collectives.clocks import align, torn_hosts
from diagnose.ranks.collectives.matching import match

REAL = os.environ.get("DIAGNOSE_REAL_TRACES")
needs_traces = pytest.mark.skipif(not REAL, reason="set DIAGNOSE_REAL_TRACES to the folder with real traces")


def joined(folder: Path, pauses_us: Sequence[int], gemm_us: int = 500, all_reduces: int = 5) -> Diagnosis:
    """Two ranks; in each step rank 1 pauses so long before the first all-reduce, and computes so long before each."""
    ranks = [Trace(rank=r, world=2) for r in range(2)]
    for pause in pauses_us:
        with ExitStack() as opened:
            for trace in ranks:
                opened.enter_context(trace.step())
                trace.cpu_op("aten::index", pause if trace.rank else 10)
            for _ in range(all_reduces):
                for trace in ranks:
                    trace.launch(GEMM, gemm_us if trace.rank else 500)
                collective(ranks, "allreduce", 1 << 22, 50, wait=True)
            for trace in ranks:
                trace.sync(stream=None)
    for trace in ranks:
        trace.write(folder / f"rank{trace.rank}.json")
    return analyze(folder)


@needs_traces
@pytest.mark.long
def test_one_step_suspects_rank_7_of_the_public_job_and_claims_nothing() -> None:
    found = diagnosis_of(Path(REAL or "") / "dlrm-8xv100")

    (late,) = found.stragglers
    assert (late.rank, late.suspected, late.of_steps, late.persistence) == (7, True, 1, "suspected")
    assert late.gpu_hours_per_day is None
    assert found.postmortem is not None
    assert [change.gpu_hours_per_day for change in found.postmortem.changes] == [None] * len(found.postmortem.changes)
    assert "straggler" in {step.rule for step in found.plan[1:]}


@pytest.mark.parametrize(("steps", "suspected"), [(1, True), (2, True), (4, False)])
def test_a_rank_that_stands_out_in_fewer_than_three_steps_is_suspected(
    steps: int, suspected: bool, tmp_path: Path
) -> None:
    found = joined(tmp_path, [10] * steps, gemm_us=1500, all_reduces=12)

    (late,) = found.stragglers
    assert (late.rank, late.suspected) == (1, suspected)
    assert (late.gpu_hours_per_day is None) == suspected
    (finding,) = (finding for finding in found.findings if finding.rule == "straggler")
    assert ("suspected, from" in finding.says) == suspected
    assert ([step.rule for step in found.plan[:1]] == ["straggler"]) != suspected
    assert (found.next.rule == "straggler") != suspected
    report = printed(found, 200)
    assert ("may be late" in report) == suspected
    assert ("is late" in report) != suspected


@pytest.mark.parametrize("pauses_us", [(10, 300, 8000, 300), (10, 300, 8000, 300, 300, 9000, 400)])
def test_a_suspicion_from_three_steps_on_comes_before_less_communication(
    pauses_us: Sequence[int], tmp_path: Path
) -> None:
    """Some pauses are much longer than the others: too unsteady to name the rank, and most of the waiting."""
    found = joined(tmp_path, pauses_us)

    assert found.stragglers == ()
    assert found.postmortem is not None
    (suspect,) = found.postmortem.suspected
    assert (suspect.rank, suspect.suspected, suspect.of_steps) == (1, True, len(pauses_us) - 1)
    assert found.next.rule == "straggler"
    assert "rank 1 may be late" in found.next.says


def test_a_pause_in_one_step_is_suspected_and_does_not_lead(tmp_path: Path) -> None:
    found = joined(tmp_path, [4000], all_reduces=12)

    assert found.postmortem is not None
    assert [(rank.rank, rank.of_steps) for rank in found.postmortem.suspected] == [(1, 1)]
    assert (found.next.kind, found.plan) == ("capture", ())


# Ranks that are not one job.


def alone(folder: Path, *, trains: bool = True, wrapped: bool = False) -> Diagnosis:
    """Two ranks, each with steps of its own and no collective."""
    for rank in range(2):
        trace = Trace(rank=rank, world=2, trains=trains)
        for _ in range(4):
            with trace.step():
                with trace.annotation("DistributedDataParallel.forward") if wrapped else nullcontext():
                    trace.launch(GEMM, 500)
                trace.sync(stream=None)
        trace.write(folder / f"rank{rank}.json")
    return analyze(folder)


def test_ranks_that_train_and_exchange_nothing_get_no_verdict_together(tmp_path: Path) -> None:
    found = alone(tmp_path)

    assert found.findings[0].rule == found.next.rule == "ranks-apart"
    assert found.verdict.withheld == "the ranks are not one job"
    assert "they exchange nothing" in found.verdict.because


@pytest.mark.parametrize("of_one_job", [{"wrapped": True}, {"trains": False}], ids=str)
def test_ranks_whose_reduction_is_elsewhere_or_that_train_nothing_are_judged(
    of_one_job: dict[str, bool], tmp_path: Path
) -> None:
    found = alone(tmp_path, **of_one_job)

    assert not found.verdict.withheld
    assert "ranks-apart" not in {finding.rule for finding in found.findings}


def test_a_rank_of_several_without_a_collective_is_no_job_of_its_own(tmp_path: Path) -> None:
    found = alone(tmp_path)
    (tmp_path / "rank1.json").unlink()

    assert [f.rule for f in analyze(tmp_path).findings][:1] == ["ranks-apart"] == [f.rule for f in found.findings][:1]


def test_a_rank_that_lacks_a_core_leaves_late_and_its_collectives_are_the_same() -> None:
    """Two ranks of one host; rank 1 gets a core again 20 ms after each all-reduce has ended."""
    arrive = np.arange(60)[:, None] * 100 * MS + np.zeros((60, 2), np.int64)
    ends = arrive + US * np.array([200, 20_200])
    ranks = [replace(rank, host="node7") for rank in digests([Shared("0", (0, 1), arrive, ends, np.arange(60) // 20)])]
    matched = match(ranks)
    assert isinstance(matched, tuple)

    assert torn_hosts(ranks, matched, align(ranks, matched)) == ()


@pytest.mark.parametrize(("asked", "world_size", "recorded"), [(None, 1, 4), (None, 2, 7), (3, 1, 3), (3, 2, 3)])
def test_several_ranks_record_as_many_steps_as_tell_a_late_rank_unless_asked(
    asked: int | None, world_size: int, recorded: int
) -> None:
    assert planned(Config("", steps=asked), world_size).active == recorded


NEVER_MEET = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.set_num_threads(1)
layers, batches = (6, 60) if dist.get_rank() == 0 else (OTHER)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(layers)])
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for batch in torch.utils.data.DataLoader([torch.randn(32, 64) for _ in range(batches)], batch_size=None):
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("other", "unlike"), [("6, 60", ""), ("3, 40", "Sequential of 12,480 parameters on rank 1")])
def test_real_processes_that_never_meet_are_told_from_a_job(other: str, unlike: str, tmp_path: Path) -> None:
    needs("torch")
    script, out = tmp_path / "train.py", tmp_path / "run"
    script.write_text(NEVER_MEET.replace("OTHER", other), encoding="utf-8")
    ranks = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", str(script)]
    subprocess.run([sys.executable, "-m", "diagnose", "run", "--out", str(out), "--", *ranks], check=True)

    found = analyze(out)

    assert found.findings[0].rule == found.next.rule == "ranks-apart"
    assert unlike in found.findings[0].says
    assert {rank.steps for rank in found.ranks} == {6}, "of seven recorded steps the first is not counted"
