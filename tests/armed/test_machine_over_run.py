"""The machine over an armed run: what is read, what the log keeps of it, and what is told beside slower steps."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.commands.series.text import render
from diagnose.probes.timing.step_log import StepLog
from diagnose.series import read_series
from diagnose.series.timing_log import read_timing_log

Values = Mapping[str, float]
FREE = {"waited_for_core_ns": 1e6, "allowed_cores_cpu_ns": 1.5e9, "process_cpu_ns": 1e9, "workers_cpu_ns": 0}


def line(step: int, gauges: Values | None = None, rates: Values | None = None, **more: Any) -> dict[str, object]:
    """A reading two seconds after the one before."""
    return {"gauges": gauges or {}, "rates": {**FREE, **(rates or {})}, "over_s": 2.0, "step": step, "t": 1.0, **more}


def run(folder: Path, readings: Callable[[int], dict[str, object] | None], ms: Callable[[int], int]) -> SeriesReport:
    """A run of 600 steps, with what is read after every tenth."""
    log = StepLog(str(folder / "rank0.steps"), {"rank": 0, "world_size": 1, "done": 0, "host": "node-a"})
    for step in range(1, 601):
        log.add(step, ms(step) * 1_000_000 + step % 7 * 100_000, profiled=False)
        reading = readings(step)
        if step % 10 == 0 and reading is not None:
            log.note_reading(reading)
        log.write()
    log.write(to_the_end=True)
    log.close()
    return judged(read_series(folder))


def slower_from_300(step: int) -> int:
    return 100 if step < 300 else 140


def text_of(report: SeriesReport) -> str:
    console = Console(file=io.StringIO(), width=200)
    render(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


GPU = {"pcie_generation": 5, "pcie_width": 16, "nvlinks": 18, "ecc_corrected": 2, "ecc_uncorrected": 0}


def gpu(step: int, **new: int) -> dict[str, object]:
    """A reading with what is new of links and errors, of which the first has all."""
    return line(step, {"sm_clock_mhz": 1980}, gpu=GPU if step == 10 else new, held_by=[])


def hot(step: int) -> dict[str, object]:
    late = step >= 300
    gauges = {"sm_clock_mhz": 1155 if late else 1980, "temperature_c": 91 if late else 70, "power_w": 500}
    return line(step, gauges, held_by=["sw_thermal"] if late else [], gpu=GPU)


def test_a_clock_that_heat_holds_down_is_named_beside_the_slower_steps(tmp_path: Path) -> None:
    report = run(tmp_path, hot, slower_from_300)

    (change,) = report.changes
    assert change.machine is not None
    assert [move.says for move in change.machine.moved] == ["SM clock: 1,980 MHz -> 1,155 MHz, held down by heat"]
    assert "machine   SM clock: 1,980 MHz -> 1,155 MHz, held down by heat" in text_of(report)


def test_over_the_run_each_quantity_has_its_typical_and_its_worst_value_and_when(tmp_path: Path) -> None:
    report = run(tmp_path, lambda step: line(step, {"sm_clock_mhz": 1155 if step == 440 else 1980}), lambda step: 100)

    assert report.machine is not None
    told = {one.what: (one.typical, one.worst, one.worst_is, one.worst_step) for one in report.machine.quantities}
    assert told["SM clock"] == (1980, 1155, "least", 440)
    assert told["cores busy with other processes"] == (0.5, 0.5, "most", 10)
    assert report.machine.readings == 60
    assert "swapping" not in told  # it was not read


def other_processes(step: int) -> dict[str, object]:
    busy = {"waited_for_core_ns": 6e8, "allowed_cores_cpu_ns": 3.8e9, "process_cpu_ns": 6e8}
    return line(step, rates=busy if step >= 300 else None)


def test_other_processes_that_take_the_cores_are_named(tmp_path: Path) -> None:
    (change,) = run(tmp_path, other_processes, slower_from_300).changes

    assert change.machine is not None
    assert [move.says for move in change.machine.moved] == [
        "time that the training thread waits for a core: 0.1 % -> 60.0 %",
        "cores busy with other processes: 0.5 cores -> 3.2 cores",
    ]


def test_where_nothing_changed_with_the_steps_that_is_said(tmp_path: Path) -> None:
    report = run(tmp_path, lambda step: line(step, {"sm_clock_mhz": 1980 - step % 3 * 15}), slower_from_300)

    assert report.changes[0].machine is not None
    assert (report.changes[0].machine.moved, report.changes[0].machine.not_told) == ((), None)
    assert "nothing that was read of it changed with the step time" in text_of(report)


def test_a_change_for_the_better_explains_no_slower_steps(tmp_path: Path) -> None:
    report = run(tmp_path, lambda step: line(step, {"sm_clock_mhz": 1155 if step < 300 else 1980}), slower_from_300)

    assert report.changes[0].machine is not None
    assert report.changes[0].machine.moved == ()


@pytest.mark.parametrize("read_until", [0, 330])
def test_without_readings_on_both_sides_it_is_unknown(tmp_path: Path, read_until: int) -> None:
    report = run(tmp_path, lambda step: hot(step) if step < read_until else None, slower_from_300)

    (change,) = report.changes
    assert change.machine is not None
    assert change.machine.not_told is not None
    assert "fewer than 4 readings" in change.machine.not_told.because
    assert report.machine is not None
    assert (report.machine.readings == 0) == (report.machine.not_told != ())


def swapping(step: int) -> dict[str, object]:
    return line(step, rates={"swap_bytes": 4e8 if step == 410 else 0})


def test_what_the_machine_did_during_a_stall_is_named(tmp_path: Path) -> None:
    (stall,) = run(tmp_path, swapping, lambda step: 9000 if step == 405 else 100).stalls

    assert stall.machine is not None
    assert [move.says for move in stall.machine.moved] == ["swapping: 0 B/s -> 400.0 MB/s"]


def test_a_stall_that_is_short_beside_the_readings_is_unknown(tmp_path: Path) -> None:
    (stall,) = run(tmp_path, swapping, lambda step: 480 if 405 <= step < 406 else 20).stalls

    assert stall.machine is not None
    assert stall.machine.moved == ()
    assert stall.machine.not_told is not None


@pytest.mark.parametrize(
    "bad",
    [
        '{"gauges":7,"step":1,"t":1}',
        '{"gauges":{},"step":-1,"t":1}',
        '{"gauges":{},"step":"x","t":1}',
        '{"gauges":{},"rates":[],"step":9,"t":1}',
    ],
)
def test_what_is_no_reading_is_left_out_and_counted(tmp_path: Path, bad: str) -> None:
    run(tmp_path, hot, slower_from_300)
    path = tmp_path / "rank0.steps"
    path.write_text(path.read_text() + bad + "\n")

    log = read_timing_log(path)

    assert (log.unread, len(log.readings)) == (1, 60)


def test_numbers_that_cannot_be_are_as_good_as_missing(tmp_path: Path) -> None:
    gauges = {"sm_clock_mhz": "1980", "power_w": -3, "temperature_c": 1e300, "what": 5, "memory_clock_mhz": 2619}
    path = tmp_path / "rank0.steps"
    run(tmp_path, lambda step: None, lambda step: 100)
    path.write_text(path.read_text() + json.dumps(line(600, gauges)) + "\n")  # type: ignore[arg-type]

    machine = read_timing_log(path).machine()

    assert set(machine.values) & set(gauges) == {"memory_clock_mhz"}


def test_of_steps_that_a_resumed_job_makes_again_the_later_readings_count(tmp_path: Path) -> None:
    path = tmp_path / "rank0.steps"
    run(tmp_path, lambda step: line(step, {"sm_clock_mhz": 1155}), lambda step: 100)
    path.write_text(path.read_text() + json.dumps(line(300, {"sm_clock_mhz": 1980})) + "\n")

    machine = read_timing_log(path).machine()

    assert machine.step.tolist() == [*range(10, 301, 10), 300]
    assert machine.values["sm_clock_mhz"][-1] == 1980


def test_errors_that_grew_and_links_that_went_down_are_named_with_their_step(tmp_path: Path) -> None:
    def read(step: int) -> dict[str, object]:
        new = {200: {"ecc_corrected": 5}, 300: {"ecc_corrected": 9, "nvlinks": 17}, 400: {"pcie_width": 4}}
        return gpu(step, **{**new.get(step, {}), **({"pcie_width": 8} if step == 500 else {})})

    report = run(tmp_path, read, lambda step: 100)

    assert report.machine is not None
    assert [change.says for change in report.machine.gpu_changes or ()] == [
        "corrected errors of the GPU's memory: 2 -> 9 by step 200",
        "NVLinks of the GPU that are up: 18 -> 17 by step 300",
        "lanes of the GPU's PCIe link: 16 -> 4 by step 400, 8 at last",
    ]
    assert "gpu         corrected errors of the GPU's memory: 2 -> 9 by step 200" in text_of(report)


def test_links_and_errors_that_stayed_are_told_as_that_and_what_was_not_read_is_not(tmp_path: Path) -> None:
    report = run(tmp_path, gpu, lambda step: 100)

    assert report.machine is not None
    assert report.machine.gpu_changes == ()
    assert "NVLinks of the GPU that are up" in report.machine.gpu_compared
    assert "packets sent again over the GPU's PCIe link" not in report.machine.gpu_compared


@pytest.mark.parametrize("once", [True, False])
def test_links_that_were_read_once_or_never_are_unknown(once: bool, tmp_path: Path) -> None:
    report = run(tmp_path, lambda step: line(step, **({"gpu": GPU} if once and step == 10 else {})), lambda step: 100)

    assert report.machine is not None
    assert report.machine.gpu_changes is None
    assert "of links and errors of the GPU of rank 0" in report.machine.not_told[0].because


@pytest.mark.parametrize("told", [{"held_by": ["gpu_idle"]}, {}])
def test_the_link_of_a_gpu_that_may_be_idle_sleeps_and_is_not_slower(told: Any, tmp_path: Path) -> None:
    def read(step: int) -> dict[str, object]:
        return gpu(step) if step == 10 else line(step, gpu={"pcie_generation": 1, "pcie_width": 8}, **told)

    report = run(tmp_path, read, lambda step: 100)

    assert report.machine is not None
    assert report.machine.gpu_changes == ()
    assert "NVLinks of the GPU that are up" in report.machine.gpu_compared
    assert "lanes of the GPU's PCIe link" not in report.machine.gpu_compared


def test_another_process_may_have_another_gpu(tmp_path: Path) -> None:
    run(tmp_path, gpu, lambda step: 100)
    path = tmp_path / "rank0.steps"
    lines = path.read_text()
    path.write_text(lines + lines.replace('"ecc_corrected":2', '"ecc_corrected":700'))

    report = judged(read_series(tmp_path))

    assert report.machine is not None
    assert report.machine.gpu_changes == ()


@pytest.mark.parametrize("told", [7, [], {"nvlinks": -1}, {"nvlinks": "18"}, {"what": 5}])
def test_what_is_no_reading_of_a_gpu_changes_nothing(told: Any, tmp_path: Path) -> None:
    run(tmp_path, gpu, lambda step: 100)
    path = tmp_path / "rank0.steps"
    path.write_text(path.read_text() + json.dumps(line(600, gpu=told)) + "\n")

    assert judged(read_series(tmp_path)).machine.gpu_changes == ()  # type: ignore[union-attr]
