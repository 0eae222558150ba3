"""Collectives that the loop makes beside those of DDP: named with what it does between them, and none of DDP's own."""

from pathlib import Path

import pytest
from distributed_traces import DDP, product
from faulty_traces import HOOK, MIB
from gains.test_fewer_collectives import sends
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

RULE = "loop-collectives"
GLOO = {"allreduce": "gloo:all_reduce", "broadcast": "gloo:broadcast"}


def on_host(rank: int, metrics: int, pause_us: float = 50, kind: str = "allreduce") -> Trace:
    """Steps of 3 ms with one reduction of gradients, and of 250 us more for each metric."""
    job = Trace(gpu=None, rank=rank, world=2, backend="gloo")
    for _ in range(5):
        with job.step():
            with job.annotation(DDP, 5):
                job.cpu_op("aten::mm", 1000)
            with job.backward(HOOK):
                job.cpu_op("aten::mm", 1400)
                sends(job, "c10d::allreduce_", "gloo:all_reduce", 580)
            for _ in range(metrics):
                sends(job, f"c10d::{kind}_", GLOO[kind], 180)
                job.host(pause_us)
    return job


def on_gpu(rank: int, metrics: int) -> Trace:
    """The same on a GPU, which waits for each metric."""
    job = Trace(rank=rank, world=2)
    for _ in range(5):
        with job.step():
            with job.annotation(DDP, 5):
                product(job, 1000)
            with job.backward(HOOK):
                product(job, 1400)
                job.collective("allreduce", MIB, 580, wait=True)
            for _ in range(metrics):
                job.collective("allreduce", 4, 100, wait=True)
                job.item()
    return job


def of_both(folder: Path, *jobs: Trace) -> Diagnosis:
    for job in jobs:
        job.write(folder / f"rank{job.rank}.json")
    return analyze(folder)


@pytest.mark.parametrize(("kind", "advised"), [("broadcast", True), ("allreduce", False)])
def test_what_one_rank_sends_to_all_is_to_be_made_on_each(tmp_path: Path, kind: str, advised: bool) -> None:
    jobs = [on_host(rank, 12, kind=kind) for rank in range(2)]
    finding = next(each for each in of_both(tmp_path, *jobs).findings if each.rule == RULE)

    assert (finding.action == "make on each rank what one sends") == advised


def test_metrics_that_are_reduced_one_by_one_are_named_with_the_time_between_them(tmp_path: Path) -> None:
    found = of_both(tmp_path, *(on_host(rank, 12) for rank in range(2)))

    assert found.fact("loop_collectives_per_step") == 12
    assert found.fact("loop_collective_share") == pytest.approx(12 * 0.2 / 6, abs=0.03)
    assert found.fact("around_loop_collectives_share") == pytest.approx(12 * 0.25 / 6, abs=0.03)
    finding = next(each for each in found.findings if each.rule == RULE)
    assert finding.severity == "critical"
    assert finding.predicted_speedup is not None
    low, high = finding.predicted_speedup
    assert low >= 1.15
    assert high is not None
    assert high == pytest.approx(2, rel=0.1)


def test_the_reductions_of_ddp_are_none_of_the_loop(tmp_path: Path) -> None:
    found = of_both(tmp_path, *(on_host(rank, 0) for rank in range(2)))

    assert (found.fact("loop_collectives_per_step"), found.fact("loop_collective_share")) == (0, 0)
    assert RULE not in {each.rule for each in found.findings}


def test_other_work_between_two_of_them_is_not_counted(tmp_path: Path) -> None:
    found = of_both(tmp_path, *(on_host(rank, 2, pause_us=1500) for rank in range(2)))

    assert found.fact("around_loop_collectives_share") == pytest.approx(2 * 0.2 / 6.4, abs=0.03)


def test_a_gpu_that_waits_for_each_metric_is_named(tmp_path: Path) -> None:
    found = of_both(tmp_path, *(on_gpu(rank, 12) for rank in range(2)))

    assert found.fact("loop_collectives_per_step") == 12
    assert RULE in {each.rule for each in found.findings}


def test_a_gpu_without_metrics_has_no_such_finding(tmp_path: Path) -> None:
    found = of_both(tmp_path, *(on_gpu(rank, 0) for rank in range(2)))

    assert found.fact("loop_collective_share") == 0
    assert RULE not in {each.rule for each in found.findings}


def test_without_ddp_nothing_is_taken_for_the_loops(tmp_path: Path) -> None:
    jobs = []
    for rank in range(2):
        job = Trace(gpu=None, rank=rank, world=2, backend="gloo")
        for _ in range(4):
            with job.step():
                job.cpu_op("aten::mm", 1000)
                sends(job, "c10d::allreduce_", "gloo:all_reduce", 500)
        jobs.append(job)

    assert of_both(tmp_path, *jobs).fact("loop_collectives_per_step") == 0
