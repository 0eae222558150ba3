"""What the machine did beside the steps: each fault of it is found in the readings, and a sound one is silent."""

from pathlib import Path
from typing import Any

import pytest
from faulty_traces import steps
from kineto import Trace
from machine.machine_jobs import CASES, SLEEPS, SOUND, Machine, readings, waits_for_data
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis

each = pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES)


def rules(found: Diagnosis) -> set[str]:
    return {finding.rule for finding in found.findings}


def advice(found: Diagnosis, rule: str) -> str:
    return next(finding.do for finding in found.findings if finding.rule == rule)


@each
def test_the_fault_is_found(name: str, case: Machine, tmp_path: Path) -> None:
    found = analysed(tmp_path, case.job, case.record)
    finding = next(f for f in found.findings if f.rule == name)

    assert finding.severity == case.severity
    assert case.says in finding.says
    assert finding.evidence


@each
def test_the_same_job_on_a_sound_machine_is_silent(name: str, case: Machine, tmp_path: Path) -> None:
    found = analysed(tmp_path, case.job, SOUND)

    assert not rules(found) & set(CASES)
    assert name not in {n.rule for n in found.not_judged}


@each
def test_without_readings_it_is_not_judged(name: str, case: Machine, tmp_path: Path) -> None:
    found = analysed(tmp_path, case.job)

    assert name not in rules(found)
    assert name in {n.rule for n in found.not_judged}


def test_why_the_machine_was_not_read_is_told_where_it_is_known(tmp_path: Path) -> None:
    why = "the job started a profiler of its own, beside which nothing is read"
    found = analysed(tmp_path, steps(), {"machine_samples": {"samples": 0, "in_window": 0, "why_none": why}})
    starved = next(one for one in found.not_judged if one.rule == "starved-host")

    assert starved.because == f"the machine was not read: {why}"
    assert starved.capture_next == "diagnose run again, where nothing keeps it from reading the machine beside the job"


def at_the_end(**nvml: Any) -> dict[str, Any]:
    """A record that holds one reading, when the window ended."""
    return {"device": {"nvml": {"sm_clock_mhz": 1155, "sm_clock_max_mhz": 1980, **nvml}}}


def test_one_reading_at_the_end_tells_a_low_clock_too(tmp_path: Path) -> None:
    assert "low-clock" in rules(analysed(tmp_path, steps(), at_the_end(throttle_reasons=[])))


def test_the_reading_of_a_gpu_that_was_idle_tells_no_clock(tmp_path: Path) -> None:
    found = analysed(tmp_path, steps(), at_the_end(throttle_reasons=["gpu_idle"]))

    assert "low-clock" not in rules(found)
    assert "low-clock" in {n.rule for n in found.not_judged}


def test_a_clock_that_heat_holds_down_is_told_as_heat_alone(tmp_path: Path) -> None:
    found = rules(analysed(tmp_path, steps(), at_the_end(throttle_reasons=["hw_thermal"])))

    assert "thermal-throttling" in found
    assert "low-clock" not in found


def test_large_products_at_the_boards_own_limit_are_no_fault(tmp_path: Path) -> None:
    busy = readings({"sm_clock_mhz": 1620}, throttled={"sw_power_cap": 0.97})

    assert not rules(analysed(tmp_path, steps(), busy)) & set(CASES)


@pytest.mark.parametrize(
    ("rates", "rule", "says"),
    [
        ({"waited_for_core_ns": 2e8}, "starved-host", "Ask for more cores"),
        ({"waited_for_core_ns": 2e8, "throttled_ns": 3e8}, "starved-host", "Raise the CPU limit"),
        (
            {"waited_for_core_ns": 2e8, "allowed_cores_cpu_ns": 7.9e9},
            "crowded-machine",
            "Free the cores and run it again",
        ),
    ],
    ids=["too many threads", "a quota", "noisy neighbours"],
)
def test_who_takes_the_cores_decides_what_to_do(rates: dict[str, float], rule: str, says: str, tmp_path: Path) -> None:
    assert says in advice(analysed(tmp_path, steps(), readings(rates=rates)), rule)


def test_on_a_cpu_nothing_is_said_of_clocks_and_links(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    for _ in range(5):
        with job.step():
            job.cpu_op("aten::mm", 500)
    found = analysed(tmp_path, job, readings(rates={"waited_for_core_ns": 2e8}))

    assert rules(found) & set(CASES) == {"starved-host"}


@pytest.mark.parametrize(
    ("rates", "says"),
    [
        ({}, "node's own fast disk"),
        ({"read_again_bytes": 9e7}, "Raise the memory limit"),
        ({"network_received_bytes": 12e7}, "disk first"),
    ],
    ids=["a slow disk", "the page cache has no room", "a disk of the network"],
)
def test_why_loading_waits_for_storage_decides_what_to_do(rates: dict[str, float], says: str, tmp_path: Path) -> None:
    record = readings(rates={"storage_wait_ns": 8e8, "workers_disk_read_bytes": 148e6, **rates})

    assert says in advice(analysed(tmp_path, waits_for_data(), record), "loading-waits-for-storage")


@pytest.mark.parametrize(
    "rates",
    [{"storage_wait_ns": 8e8, "workers_disk_read_bytes": 148e6}, {"network_received_bytes": 6e7}],
    ids=["storage", "network"],
)
def test_storage_and_network_are_no_fault_where_batches_are_ready(rates: dict[str, float], tmp_path: Path) -> None:
    found = analysed(tmp_path, steps(), {**readings(rates=rates), **SLEEPS})

    assert not rules(found) & set(CASES)


def test_data_that_comes_while_loading_computes_is_not_waited_for(tmp_path: Path) -> None:
    computes = {"loading": {**SLEEPS["loading"], "cpu_ns": 9 * 10**8}}
    found = analysed(tmp_path, waits_for_data(), {**readings(rates={"network_received_bytes": 6e7}), **computes})

    assert "loading-waits-for-network" not in rules(found)


def test_a_link_that_goes_down_during_the_run_is_missing(tmp_path: Path) -> None:
    record = readings({"nvlinks": 18}, limits={"nvlinks_of_host": 0})
    record["machine_samples"]["gauges"]["nvlinks"] = {"run": [16, 18, 18], "window": [16, 18, 18]}

    found = analysed(tmp_path, steps(), record)

    assert next(f for f in found.findings if f.rule == "nvlink-down").says.startswith("2 NVLinks")


def test_a_gpu_without_nvlinks_lacks_none(tmp_path: Path) -> None:
    record = readings()
    del record["machine_samples"]["gauges"]["nvlinks"]

    found = analysed(tmp_path, steps(), record)

    assert "nvlink-down" not in rules(found) | {n.rule for n in found.not_judged}
