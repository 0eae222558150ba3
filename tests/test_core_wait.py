"""Waiting for a CPU core as a line of the breakdown: taken out of what the host computes, step by step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysed import ADD, GEMM, attribution
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.attribution.attribution import Attribution
from diagnose.attribution.causes import CORE_WAIT
from diagnose.attribution.core_wait import with_core_wait
from diagnose.diagnosis import Diagnosis

US = 1_000


def on_host(steps: int = 3) -> Trace:
    job = Trace(gpu=None)
    for _ in range(steps):
        with job.step():
            job.cpu_op("aten::mm", 600)
            job.host(300)
            job.loader(us=100)
    return job


def on_gpu(steps: int = 3) -> Trace:
    job = Trace(gpu="NVIDIA H100 80GB HBM3")
    for _ in range(steps):
        with job.step():
            job.launch(GEMM, 400)
            job.host(500)
            job.launch(ADD, 100)
    return job


def waiting(divided: Attribution, times: list[tuple[float, float]], host: bool, loads: bool = False) -> Attribution:
    return with_core_wait(divided, np.array(times, np.float64), on_host=host, loads_itself=loads)


@pytest.mark.parametrize(("job", "host"), [(on_host(), True), (on_gpu(), False)])
@pytest.mark.parametrize("waited", [0, 1, 333_333, 10**9])
def test_the_parts_still_add_up_to_the_step_and_lie_apart(job: Trace, host: bool, waited: int) -> None:
    before = attribution(job)
    after = waiting(before, [(200_000, waited)] * len(before.windows), host)

    assert sum(after.ns().values()) == after.total_ns == before.total_ns
    assert (after.start[1:] >= after.end[:-1]).all()
    assert (after.end > after.start).all()
    assert after.ns().get(CORE_WAIT, 0) <= waited * len(before.windows)


def test_each_step_gives_up_its_own_waiting_in_proportion() -> None:
    before = attribution(on_host())
    steps = len(before.windows)
    times = [(0, 0), (450_000, 450_000), (900_000, 0)][-steps:]
    after = waiting(before, times, host=True)

    lost = {cause: ns - after.ns()[cause] for cause, ns in before.ns().items() if ns != after.ns()[cause]}
    assert after.ns()[CORE_WAIT] == 450_000
    assert lost["operator-compute"] == pytest.approx(2 * lost["python"], abs=2 * US)
    assert "data-wait" not in lost


def test_the_training_thread_that_loads_itself_waits_in_its_loading_too() -> None:
    before = attribution(on_host())
    times = [(500_000, 500_000)] * len(before.windows)

    assert waiting(before, times, True, loads=True).ns()["data-wait"] < before.ns()["data-wait"]
    assert waiting(before, times, True).ns()["data-wait"] == before.ns()["data-wait"]


def test_what_a_gpu_computes_is_no_longer_for_a_host_that_waits() -> None:
    before = attribution(on_gpu())
    after = waiting(before, [(300_000, 300_000)] * len(before.windows), host=False)

    assert after.ns()[CORE_WAIT] > 0
    assert {cause: after.ns()[cause] for cause in ("gemm", "elementwise")} == {
        cause: before.ns()[cause] for cause in ("gemm", "elementwise")
    }


def record(steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": {"first_active_step": 10, **steps}}


def line(found: Diagnosis) -> list[float]:
    return [entry.share for entry in found.ledger if entry.cause == CORE_WAIT]


@pytest.mark.parametrize(
    "steps",
    [
        {},
        {"active_cpu_ns": [None] * 5, "active_core_wait_ns": [None] * 5},
        {"active_cpu_ns": [5e5], "active_core_wait_ns": [5e5]},
        {"active_cpu_ns": [5e5] * 5, "active_core_wait_ns": [5e5, None, 5e5, 5e5, 5e5]},
    ],
    ids=["no field", "no kernel tells", "of other steps", "a step is missing"],
)
def test_a_record_without_the_count_of_every_step_has_no_such_line(steps: dict[str, Any], tmp_path: Path) -> None:
    assert line(analysed(tmp_path, on_host(5), record(steps))) == []


def test_the_count_of_the_record_is_a_line_of_the_report(tmp_path: Path) -> None:
    times = {"active_cpu_ns": [5e5] * 5, "active_core_wait_ns": [4e5] * 5}
    (share,) = line(analysed(tmp_path, on_host(5), record(times)))

    assert share == pytest.approx(0.4, abs=0.01)
