"""Traces whose device has another clock than the host: what is proved of it is set right, and nothing else."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, GEMM, causes, edited, facts, timeline
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

SAMPLES = Path(__file__).parents[1] / "sample_traces"
SYNC, TINY, DEEP = "synthetic-sync-every-step", "synthetic-tiny-kernels", "synthetic-memory-bound"
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
NEAR = 0.02  # of the step
Built = dict[str, Any]


def sample(name: str) -> Built:
    built: Built = json.loads(gzip.decompress((SAMPLES / f"{name}.json.gz").read_bytes()))
    return built


def moved(built: Built, by_us: Callable[[float], float]) -> Built:
    """The trace with the times of its device later by what each share of the recording has."""
    of_device = [event for event in built["traceEvents"] if event.get("cat") in DEVICE]
    first, last = (pick(float(event["ts"]) for event in of_device) for pick in (min, max))
    for event in of_device:
        event["ts"] = float(event["ts"]) + by_us((float(event["ts"]) - first) / (last - first))
    return built


def analysed(built: Built, folder: Path) -> Diagnosis:
    (folder / "rank0.json").write_text(json.dumps(built), encoding="utf-8")
    return analyze(folder)


def by_class(diagnosis: Diagnosis) -> dict[str, float]:
    shares: dict[str, float] = {}
    for entry in diagnosis.ledger:
        shares[entry.class_] = shares.get(entry.class_, 0.0) + entry.share
    return shares


@pytest.mark.parametrize("name", [SYNC, TINY])
@pytest.mark.parametrize("late_us", [50, 500, 5000])
def test_a_device_behind_the_host_is_accounted_as_on_its_clock(name: str, late_us: float, tmp_path: Path) -> None:
    right, found = causes(sample(name)), facts(shifted := moved(sample(name), lambda at: -late_us))
    set_right = causes(shifted)
    total = sum(right.values())

    shift = found["clock_shift_ns"].value
    assert isinstance(shift, int)
    assert late_us * 1000 - 20_000 <= shift <= late_us * 1000
    before_launch = ("dispatch", "launch-latency", "optimizer-host")
    for cause in (*right, *set_right):
        if cause not in before_launch:
            assert set_right.get(cause, 0) == pytest.approx(right.get(cause, 0), abs=NEAR * total), cause
    of_host = [sum(each.get(cause, 0) for cause in before_launch) for each in (set_right, right)]
    assert of_host[0] == pytest.approx(of_host[1], abs=NEAR * total)
    assert "clocks-apart" in {each.rule for each in analysed(shifted, tmp_path).findings}


@pytest.mark.parametrize("drift_us", [-200, -2000])
def test_a_clock_that_falls_behind_is_followed(drift_us: float, tmp_path: Path) -> None:
    right = analysed(sample(TINY), tmp_path)
    found = analysed(moved(sample(TINY), lambda at: drift_us * at), tmp_path)

    assert found.verdict.class_ == right.verdict.class_ == "host-bound"
    assert by_class(found) == pytest.approx(by_class(right), abs=NEAR)
    gaps = [sum(e.share for e in each.ledger if e.cause == "kernel-gap") for each in (found, right)]
    assert gaps[0] == pytest.approx(gaps[1], abs=NEAR)


@pytest.mark.parametrize("name", [SYNC, TINY, DEEP])
def test_a_trace_with_one_clock_is_left_as_it_is(name: str) -> None:
    assert timeline(sample(name)).clock_shift_ns is None
    assert facts(sample(name))["clock_shift_ns"].value == 0


def test_activities_that_queue_prove_no_offset() -> None:
    job = Trace()
    with job.step():
        for _ in range(100):
            job.launch(GEMM, 100)

    found = timeline(moved(job.json(), lambda at: -80))

    assert (found.gpu.start < found.gpu.launch_start).sum() == 1
    assert found.clock_shift_ns is None


def test_no_more_is_set_right_than_is_proved() -> None:
    """Where kernels queue, few begin before their launch, and those by less than the clocks lie apart."""
    shift = facts(moved(sample(DEEP), lambda at: -500))["clock_shift_ns"].value

    assert isinstance(shift, int)
    assert 0 < shift < 500_000


def test_a_clock_ahead_of_the_host_blames_no_wait(tmp_path: Path) -> None:
    """It proves nothing by launches, and the idle time is then unexplained."""
    found = analysed(moved(sample(SYNC), lambda at: 500), tmp_path)

    assert found.verdict.class_ == "undecided"
    assert by_class(found)["unexplained"] > by_class(found)["host"]


def test_a_wrong_link_moves_no_clock() -> None:
    job = Trace()
    for _ in range(3):
        with job.step():
            for _ in range(20):
                job.launch(ADD, 5)
                job.host(50)
    wrong = timeline(edited(job, "kernel", 0, correlation=60))

    assert wrong.gpu.launch_start[0] - wrong.gpu.start[0] > 3_000_000
    assert wrong.clock_shift_ns is None


def test_some_wrong_links_move_no_clock() -> None:
    """Three in a hundred lead to launches of half a step later; the streams still mostly run in order."""
    job = Trace()
    with job.step():
        for _ in range(300):
            job.launch(ADD, 5)
            job.host(50)
    built = job.json()
    kernels = [event for event in built["traceEvents"] if event.get("cat") == "kernel"]
    for at in range(0, 135, 15):
        kernels[at]["args"]["correlation"] = kernels[at + 150]["args"]["correlation"]
    found = timeline(built)

    assert (found.gpu.start < found.gpu.launch_start).sum() == 9
    assert found.clock_shift_ns is None


def test_links_that_contradict_the_order_of_a_stream_move_no_clock() -> None:
    job = Trace()
    with job.step():
        for _ in range(40):
            job.launch(ADD, 5)
            job.host(50)
    built = job.json()
    kernels = [event for event in built["traceEvents"] if event.get("cat") == "kernel"]
    numbers = [event["args"]["correlation"] for event in kernels]
    for event, number in zip(kernels, reversed(numbers), strict=True):
        event["args"]["correlation"] = number

    assert timeline(built).clock_shift_ns is None
    assert facts(built)["early_start_share"].value == pytest.approx(0.5, abs=0.05)
