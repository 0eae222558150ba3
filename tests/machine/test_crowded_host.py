"""Who keeps the training thread from a core decides the verdict, what comes first, and whether gains are told."""

import json
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from machine.machine_jobs import readings
from remedies.single_gpu_jobs import analysed

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

STEPS = 5
HOST = {"cores": 2, "cores_allowed": 2}


def job(rank: int = 0, *, trains: bool = True) -> Trace:
    """Steps of 1 ms on a CPU, all of them work."""
    trace = Trace(gpu=None, rank=rank, trains=trains)
    for _ in range(STEPS):
        with trace.step():
            trace.cpu_op("aten::mm", 700)
            trace.cpu_op("aten::add", 200)
            trace.host(100)
    return trace


def record(waits: float, *, job_cpu: float, all_cpu: float, threads: int = 16, **more: Any) -> dict[str, Any]:
    """What the probe writes of a host with two cores: the parts of a step without a core, and CPU time by core."""
    of_machine = readings(rates={"process_cpu_ns": job_cpu * 1e9, "allowed_cores_cpu_ns": all_cpu * 1e9}, limits=HOST)
    return {
        **of_machine,
        "cores": {"usable": 2, "shared": 2, "local_ranks": 1, **more.pop("cores", {})},
        "torch_settings": {"threads": threads},
        "environment": more.pop("environment", {}),
        "steps": {
            "first_active_step": 10,
            "active_cpu_ns": [(1 - waits) * 1e6] * STEPS,
            "active_core_wait_ns": [waits * 1e6] * STEPS,
        },
        **more,
    }


def crowded(found: Diagnosis) -> str:
    return next(doubt.says for doubt in found.verdict.doubts if doubt.kind == "crowded-host")


def rules(found: Diagnosis) -> list[str]:
    return [finding.rule for finding in found.findings]


def test_its_own_threads_starve_a_job(tmp_path: Path) -> None:
    found = analysed(tmp_path, job(), record(0.41, job_cpu=1.9, all_cpu=2.0))

    assert found.verdict.class_ == "host-bound"
    assert found.verdict.because.startswith(
        "the training thread waits 41.0 % of the host step for a CPU core: 16 threads on 2 cores; "
    )
    assert found.next.rule == "starved-host"
    assert found.next.severity == "critical"
    assert found.next.predicted_speedup is not None
    assert found.next.predicted_speedup[0] == 1.0
    assert "crowded-machine" not in rules(found)


@pytest.mark.parametrize(
    ("environment", "says", "patch"),
    [
        ({"OMP_NUM_THREADS": "16"}, "Set OMP_NUM_THREADS=2", {"OMP_NUM_THREADS": 2}),
        ({"OMP_NUM_THREADS": "1"}, "Call torch.set_num_threads(2).", None),
        ({}, "Set OMP_NUM_THREADS=2", None),
    ],
    ids=["by the variable", "by a call", "by either"],
)
def test_the_advice_names_the_number_and_where_it_is_set(
    environment: dict[str, str], says: str, patch: dict[str, Any] | None, tmp_path: Path
) -> None:
    found = analysed(tmp_path, job(), record(0.4, job_cpu=1.9, all_cpu=2.0, environment=environment))
    starved = next(finding for finding in found.findings if finding.rule == "starved-host")

    assert starved.do.startswith(says)
    assert (starved.patch.set if starved.patch else None) == patch


def test_other_processes_leave_the_job_unjudged_and_promise_nothing(tmp_path: Path) -> None:
    found = analysed(tmp_path, job(), record(0.5, job_cpu=0.6, all_cpu=2.0, threads=1))

    assert found.verdict.class_ == "undecided"
    assert found.verdict.because == (
        "the machine was too busy to judge this job: for 50.0 % of the time the training thread waited for a CPU core, "
        "while other processes took 70.0 % of the cores"
    )
    assert (found.next.kind, found.next.rule, found.next.action) == (
        "capture",
        "crowded-machine",
        "free the cores and run again",
    )
    assert found.plan == ()
    gains = {finding.rule: finding.predicted_speedup for finding in found.findings if finding.predicted_speedup}
    assert gains == {"crowded-machine": (1.0, pytest.approx(2.0))}
    assert found.next.predicted_speedup == gains["crowded-machine"]
    assert "starved-host" not in rules(found)


def test_a_little_waiting_makes_the_rest_less_sure_and_gains_say_so(tmp_path: Path) -> None:
    found = analysed(tmp_path, job(), record(0.08, job_cpu=1.9, all_cpu=2.0))

    assert found.verdict.class_ == "compute-bound"
    assert crowded(found) == "the training thread waits 8.0 % of the host step for a CPU core (16 threads on 2 cores)"
    starved = next(finding for finding in found.findings if finding.rule == "starved-host")
    assert starved.severity == "warning"
    assert "the host was crowded" in starved.assumes


def test_a_little_waiting_for_others_names_them(tmp_path: Path) -> None:
    found = analysed(tmp_path, job(), record(0.08, job_cpu=1.0, all_cpu=2.0, threads=1))

    assert crowded(found).endswith("while other processes took 50.0 % of the cores")
    assert "crowded-machine" in rules(found)


def test_a_thread_that_hardly_waits_changes_nothing(tmp_path: Path) -> None:
    found = analysed(tmp_path, job(), record(0.01, job_cpu=1.9, all_cpu=2.0))

    assert "CPU core" not in found.verdict.because
    assert not {"starved-host", "crowded-machine"} & set(rules(found))


def test_a_process_that_the_job_has_bound_is_told_so_first(tmp_path: Path) -> None:
    bound = record(0.4, job_cpu=0.9, all_cpu=1.0, threads=2, cores={"usable": 1}, dataloader={"num_workers": 4})
    found = analysed(tmp_path, job(), bound)

    assert "2 threads and 4 loader workers on 1 of the host's 2 cores" in found.verdict.because
    assert found.next.do.startswith("Find out what has bound the process to 1 of the host's 2 cores.")


def test_too_many_loader_workers_are_named(tmp_path: Path) -> None:
    many = record(0.3, job_cpu=1.9, all_cpu=2.0, threads=1, dataloader={"num_workers": 8})
    starved = next(f for f in analysed(tmp_path, job(), many).findings if f.rule == "starved-host")

    assert starved.action == "use fewer loader workers"


@pytest.mark.parametrize(
    ("job_cpu", "class_"), [([0.9, 1.0], "host-bound"), ([0.2, 0.2], "undecided")], ids=["each other", "others"]
)
def test_ranks_that_share_a_host_are_told_from_other_processes(
    job_cpu: list[float], class_: str, tmp_path: Path
) -> None:
    for rank, cpu in enumerate(job_cpu):
        of_rank = record(0.4, job_cpu=cpu, all_cpu=2.0, cores={"local_ranks": 2}, host="one", world_size=2, rank=rank)
        job(rank, trains=False).write(tmp_path / f"rank{rank}.json")
        (tmp_path / f"capture-rank{rank}.json").write_text(json.dumps(of_rank), encoding="utf-8")
    found = analyze(tmp_path)

    assert found.verdict.class_ == class_


def test_it_is_open_who_starves_a_rank_whose_neighbours_are_not_recorded(tmp_path: Path) -> None:
    alone = record(0.4, job_cpu=0.2, all_cpu=2.0, cores={"local_ranks": 2})
    found = analysed(tmp_path, job(), alone)
    facts = {fact.name: fact.value for fact in found.facts}

    assert facts["crowded_by"] == "not known"
    assert found.verdict.class_ == "host-bound"
    assert "starved-host" in rules(found)
