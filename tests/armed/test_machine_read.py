"""What an armed run reads of its machine: from the driver, from the kernel, and of a real job with neighbours."""

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from armed_runs import NoProfiler, NoThread, Run
from machine.fake_driver import FakeDriver

from diagnose.commands.series.judge import judged
from diagnose.probes.machine import nvml_readings, sampling
from diagnose.probes.recording import nsight_window
from diagnose.probes.timing import machine_log
from diagnose.probes.timing import session as armed_session
from diagnose.probes.timing.machine_log import MachineLog
from diagnose.series import read_series
from diagnose.series.timing_log import read_timing_log

pytestmark = pytest.mark.usefixtures("threads_end")


def test_the_driver_is_read_and_what_it_says_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, lines = FakeDriver(), list[dict[str, object]]()
    monkeypatch.setattr(nvml_readings, "handle_of", lambda uuid: (driver, ctypes.c_void_p(0)))
    monkeypatch.setattr(sampling, "_gpu_of_this_thread", lambda: ("GPU-1", "0000:3b:00.0"))
    reader = MachineLog().reader(lines.append, lambda: 17)
    reader.start()
    reader.stop()

    assert reader.why_none == ""
    told: Any = lines[0]
    assert (told["gauges"]["sm_clock_mhz"], told["gauges"]["memory_clock_mhz"]) == (1155, 2619)
    assert (told["gauges"]["power_w"], told["gauges"]["temperature_c"]) == (402.5, 88)
    assert (told["held_by"], told["step"]) == (["sw_power_cap", "sw_thermal"], 17)
    assert "no_gpu" not in told
    assert not [name for name in driver.calls if "PcieThroughput" in name]  # that would hold the driver


def test_links_and_errors_are_read_seldom_and_at_the_end_and_told_where_they_are_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, lines = FakeDriver(), list[dict[str, object]]()
    monkeypatch.setattr(nvml_readings, "handle_of", lambda uuid: (driver, ctypes.c_void_p(0)))
    reader = MachineLog().reader(lines.append, lambda: 17)
    reader._asked = ("GPU-1", "")
    for _ in range(machine_log.LINKS_EVERY + 1):
        reader._read()
    asked = driver.calls.count("nvmlDeviceGetCurrPcieLinkWidth")
    driver.answers.update(CurrPcieLinkWidth=2, TotalEccErrors1=1, CurrentClocksThrottleReasons=0x1)
    reader._over = True
    reader._read()

    told = [line["gpu"] for line in lines if "gpu" in line]
    assert asked == 2
    assert told[0] == {
        "pcie_generation": 3,
        "pcie_width": 4,
        "nvlinks": 2,
        "ecc_corrected": 7,
        "ecc_uncorrected": 0,
        "remapped_rows": 4,
        "pcie_replays": 12,
        "nvlink_errors": 6,
    }
    assert told[1:] == [{}, {"ecc_uncorrected": 1}]  # and the link of an idle GPU sleeps


def test_the_link_is_left_out_where_the_driver_does_not_tell_whether_the_gpu_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, lines = FakeDriver(), list[dict[str, object]]()
    del driver.answers["CurrentClocksThrottleReasons"]
    monkeypatch.setattr(nvml_readings, "handle_of", lambda uuid: (driver, ctypes.c_void_p(0)))
    reader = MachineLog().reader(lines.append, lambda: 17)
    reader._asked = ("GPU-1", "")
    reader._read()

    told: Any = lines[0]
    assert {"nvlinks", "pcie_replays"} <= set(told["gpu"])
    assert not {"pcie_generation", "pcie_width"} & set(told["gpu"])
    assert "held_by" not in told


def test_why_nothing_is_read_of_the_gpu_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(uuid: str) -> Any:
        raise OSError("NVML status 9")

    lines = list[dict[str, object]]()
    monkeypatch.setattr(nvml_readings, "handle_of", refuse)
    monkeypatch.setattr(sampling, "_gpu_of_this_thread", lambda: ("GPU-1", ""))
    reader = MachineLog().reader(lines.append, lambda: 17)
    reader.start()
    reader.stop()
    reader._read()

    told = [one["no_gpu"] for one in lines if "no_gpu" in one]
    assert told == ["the driver's library (NVML) does not answer: NVML status 9"]


def test_a_loop_that_computes_on_a_gpu_takes_back_that_an_earlier_one_did_not(tmp_path: Path) -> None:
    begins, reads = '{"armed": 1, "rank": 0, "world_size": 1}\n', '{"gauges": {}, "step": 3, "over_s": 2, "t": 9%s}\n'
    log = tmp_path / "rank0.steps"
    log.write_text(begins + reads % ', "no_gpu": "none in use"')
    once = read_timing_log(log).why_no_gpu
    log.write_text(begins + reads % ', "no_gpu": "none in use"' + begins + reads % "")

    assert (once, read_timing_log(log).why_no_gpu) == ("none in use", "")


def test_a_reader_that_gave_way_to_a_profiler_reads_no_more() -> None:
    reader = MachineLog().reader(lambda line: None, lambda: 1)
    reader.start()
    before = reader.reads
    reader.give_way()

    assert (before, reader.reads) == (True, False)


def test_the_longer_the_run_the_fewer_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_log, "MOST", 16)
    lines, log = list[dict[str, object]](), MachineLog()
    first = log.reader(lines.append, lambda: 1)
    for _ in range(39):
        first._read()
    again = log.reader(lines.append, lambda: 1)

    assert (first._interval_s, again._interval_s) == (16.0, 16.0)  # 16 lines, then twice 8, and 7 more


def test_an_armed_loop_is_read_from_its_first_step_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(nsight_window, "Recorder", NoProfiler)
    monkeypatch.setattr(armed_session, "Background", NoThread)
    armed = Run(tmp_path).begin().steps(range(1, 11))
    noted: Any = armed.session._arming._log._readings  # type: ignore[union-attr]
    for _ in range(6000):
        if noted:
            break
        time.sleep(0.01)
    time.sleep(0.01)  # the last reading is of the time since the one before
    armed.steps(range(11, 51)).end()

    log = read_timing_log(tmp_path / "rank0.steps")

    assert log.readings[0].step <= log.readings[-1].step == 50
    assert log.readings[-1].over_s > 0
    assert "process_cpu_ns" in log.readings[-1].values
    assert log.why_no_gpu == "the training thread computed on no GPU when the readings began"


def test_where_no_thread_can_be_had_one_attempt_is_made_in_a_loop_and_the_report_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    attempts = list[object]()

    def refused(run: object) -> None:
        attempts.append(run)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(nsight_window, "Recorder", NoProfiler)
    monkeypatch.setattr(armed_session, "Background", NoThread)
    monkeypatch.setattr(sampling, "SideThread", refused)
    Run(tmp_path).begin().steps(range(1, 51)).end()

    report = judged(read_series(tmp_path))
    assert len(attempts) == 1
    assert report.machine is not None
    assert [one.because for one in report.machine.not_told] == [
        "the step logs hold no readings of the machine: no thread could be started"
    ]


JOB = """
import subprocess, sys, time
import torch
torch.set_num_threads(1)
weight = torch.nn.Parameter(torch.randn(64, 64))
optimizer = torch.optim.SGD([weight], lr=0.01)
began, neighbours = time.monotonic(), []
while time.monotonic() - began < 44:
    if time.monotonic() - began > 20 and not neighbours:
        neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    for _ in range(150):
        loss = (weight @ weight).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
for each in neighbours:
    each.kill()
"""


@pytest.mark.slow
@pytest.mark.capture
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be put on one core here")
def test_neighbours_that_come_midway_onto_the_core_of_a_real_job_are_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(JOB)
    armed = ["run", "--arm", "--at-step", "1000000", "--out", "out", "--", "train.py"]
    core = {min(os.sched_getaffinity(0))}
    subprocess.run(
        [sys.executable, "-m", "diagnose", *armed],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
        timeout=180,
        capture_output=True,
        preexec_fn=lambda: os.sched_setaffinity(0, core),
    )

    report = judged(read_series(tmp_path / "out"))

    slower = max(report.changes, key=lambda change: change.change_share)
    assert slower.machine is not None
    assert "time that the training thread waits for a core" in [move.what for move in slower.machine.moved]
