"""What only a job on a GPU meets, shown on CPU by torch's own functions with CUDA's answers put in their place.

No GPU ran these: `tests/on_gpu` has those that one is needed for.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from capture.bundles import marker
from capture.scripts import BARE, run, said
from machine.fake_driver import FakeDriver
from needs import needs

from diagnose.probes.machine import nvml
from diagnose.probes.recording.clock import StepClock

needs("torch")

EVENTS = """
class Event:
    def __init__(self, enable_timing=False):
        pass
    def record(self):
        pass
    def synchronize(self):
        pass
    def elapsed_time(self, other):
        {times}
is_capturing = lambda: False
torch.cuda.Event = Event
torch.cuda.is_current_stream_capturing = lambda: is_capturing()
torch.cuda.is_initialized = lambda: sys._getframe(1).f_code.co_name in ("capturing", "_event")
"""
REFUSES = EVENTS.format(times="raise RuntimeError('CUDA error: invalid resource handle')")
TIMES = EVENTS.format(times="return 2.5")
CAPTURES = """
steps = 0
def during(number):
    global steps
    steps = number
is_capturing = lambda: steps in {captured}
watched = []
for name in ("start", "stop", "step"):
    def watch(self, *args, original=getattr(torch.profiler.profile, name), **kwargs):
        watched.append(steps)
        return original(self, *args, **kwargs)
    setattr(torch.profiler.profile, name, watch)
loop(60)
print("in the capture:", [step for step in watched if step in {captured}])
"""


def steps_of(folder: Path) -> dict[str, Any]:
    """The step times of the record."""
    found: dict[str, Any] = json.loads((folder / "out" / "capture-rank0.json").read_text())["steps"]
    return found


def test_a_device_that_tells_times_is_believed(tmp_path: Path) -> None:
    done = run(BARE + TIMES + "loop(40)\n", tmp_path, {})

    assert done.returncode == 0, done.stderr
    assert (steps_of(tmp_path)["clock"], set(steps_of(tmp_path)["active_ns"])) == ("device", {2_500_000})


def test_an_event_that_cuda_refuses_to_time_costs_its_clock_and_not_the_record(tmp_path: Path) -> None:
    done = run(BARE + REFUSES + "loop(40)\n", tmp_path, {})

    assert done.returncode == 0, done.stderr
    assert said(done) == []
    assert steps_of(tmp_path)["clock"] == "host"
    assert all(ns > 0 for ns in steps_of(tmp_path)["active_ns"])


def test_an_event_that_cannot_be_recorded_costs_its_clock_and_not_the_capture(tmp_path: Path) -> None:
    broken = REFUSES.replace("def record(self):\n        pass", "def record(self):\n        raise RuntimeError('no')")
    done = run(BARE + broken + "loop(40)\n", tmp_path, {})

    assert (done.returncode, said(done), steps_of(tmp_path)["clock"]) == (0, [], "host")


@pytest.mark.parametrize("captured", [(1,), (5,), (6, 7), (8, 9), (10, 11, 12)])
@pytest.mark.parametrize("window", [{"at_step": 8}, {"armed": {"every": 8}}])
def test_nothing_is_done_at_a_step_that_ends_while_a_graph_is_captured(
    window: dict[str, object], captured: tuple[int, ...], tmp_path: Path
) -> None:
    """The profiler is started, stepped and stopped at other steps alone, and the window holds no captured one."""
    (tmp_path / "out").mkdir()
    done = run(BARE + TIMES + CAPTURES.format(captured=(*captured, 0)), tmp_path, window)
    folders = sorted((tmp_path / "out").glob("step-*")) or [tmp_path / "out"]
    records = [json.loads((folder / "capture-rank0.json").read_text())["steps"] for folder in folders]
    recorded = {first + at for each in records for first in [each["first_active_step"]] for at in range(3)}

    assert (done.returncode, done.stdout) == (0, "in the capture: []\n"), done.stderr
    assert marker(folders[0])["trace"] == "rank0.json.gz"
    assert not recorded & set(captured)


class Without:
    """A driver's library in which some functions are missing."""

    def __init__(self, *missing: str) -> None:
        self._missing, self._driver = missing, FakeDriver()

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(name)
        return getattr(self._driver, name)


FACTS = {
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz", "memory_clock_mhz"},
    "nvmlDeviceGetMaxClockInfo": {"sm_clock_max_mhz", "memory_clock_max_mhz"},
    "nvmlDeviceGetMemoryBusWidth": {"memory_bus_bits"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetPowerUsage": {"power_w"},
    "nvmlDeviceGetEnforcedPowerLimit": {"power_limit_w"},
    "nvmlDeviceGetCurrentClocksThrottleReasons": {"throttle_reasons"},
}


@pytest.mark.parametrize("missing", FACTS)
def test_a_function_that_nvml_lacks_costs_its_own_facts(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _name: FakeDriver())
    whole = nvml.device_facts("GPU-1")
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _name: Without(missing))
    lacking = nvml.device_facts("GPU-1")

    assert {name for name in whole if lacking[name] != whole[name]} <= FACTS[missing]
    assert all(lacking[name] is None for name in FACTS[missing])


def test_a_library_that_cannot_even_begin_is_an_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml.ctypes, "CDLL", lambda _name: Without("nvmlInit_v2"))

    with pytest.raises(OSError, match="NVML has no nvmlInit_v2"):
        nvml.driver_version()


@pytest.fixture
def precision() -> Iterator[Any]:
    """torch's settings of float32 products, which are put back."""
    import torch

    yield torch
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("word", "told"), [("tf32", "high"), ("ieee", "highest")])
def test_the_precision_is_told_where_torchs_newer_words_have_set_it(word: str, told: str, precision: Any) -> None:
    from diagnose.probes.facts.torch_settings import torch_settings

    if not hasattr(precision.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has the older words alone")
    precision.backends.cuda.matmul.fp32_precision = word

    assert torch_settings()["float32_matmul_precision"] == told


@pytest.mark.parametrize("word", ["highest", "high", "medium"])
def test_the_precision_is_told_in_the_older_words(word: str, precision: Any) -> None:
    from diagnose.probes.facts.torch_settings import torch_settings

    precision.set_float32_matmul_precision(word)

    assert torch_settings()["float32_matmul_precision"] == word


WARNS = """
import warnings
def prepares(self, original=torch.profiler.profile.prepare_trace):
    original(self)
    if not self.acc_events:  # as torch 2.10 and 2.11 look, when the profiler is made
        warnings.warn("Profiler clears events at the end of each cycle")
torch.profiler.profile.prepare_trace = prepares
"""


def test_no_warning_of_the_profiler_stands_in_the_jobs_output(tmp_path: Path) -> None:
    done = run(BARE + WARNS + "loop(40)\n", tmp_path, {})

    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"
    assert "clears events" not in done.stderr


def test_a_part_of_the_record_that_cannot_be_had_is_null(tmp_path: Path) -> None:
    broken = (
        "from diagnose.probes.facts import record\n"
        "def fails(*_):\n    raise RuntimeError('broken')\n"
        "record._steps = record._machine = fails\n"
    )
    done = run(BARE + broken + "loop(40)\n", tmp_path, {})
    known = json.loads((tmp_path / "out" / "capture-rank0.json").read_text())

    assert done.returncode == 0, done.stderr
    assert (known["steps"], known["overhead_factor"], known["host"]) == (None, None, None)
    assert known["optimizer"] is not None


COMPILERS = {
    "": {"gcc", "Python.h"},
    "Triton finds no C compiler: install gcc, or set CC": {"Python.h"},
    "Triton finds no Python.h of this interpreter: install python3-dev": {"gcc"},
    "triton is not installed": {"gcc", "Python.h", "no triton"},
}


@pytest.mark.parametrize("because", COMPILERS)
def test_what_triton_needs_is_looked_for_before_kernels_are_asked_of_it(
    because: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diagnose.probes.apply import device

    there = COMPILERS[because]
    for name, mode in (("gcc", 0o755), ("Python.h", 0o644)):
        if name in there:
            (tmp_path / name).touch(mode)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(device.sysconfig, "get_paths", lambda *_: {"include": str(tmp_path)})
    monkeypatch.setattr(device, "find_spec", lambda _name: None if "no triton" in there else sys)

    assert device.triton_missing() == because


@pytest.mark.parametrize(("compiler", "found"), [("gcc", True), ("nowhere", False), ("ccache gcc", True)])
def test_the_compiler_that_the_job_names_is_the_one_that_counts(
    compiler: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diagnose.probes.apply import device

    for name in ("gcc", "ccache", "Python.h"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(device.sysconfig, "get_paths", lambda *_: {"include": str(tmp_path)})
    monkeypatch.setattr(device, "find_spec", lambda _name: sys)

    assert bool(device.triton_missing()) is not found


def test_the_clock_takes_device_times_only_where_every_step_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from diagnose.probes.recording import clock as module

    class Event:
        def synchronize(self) -> None:
            """It has happened."""

        def elapsed_time(self, other: object) -> float:
            return 1.0

    events = iter([Event(), Event(), Event(), None])
    monkeypatch.setattr(module, "_event", lambda: next(events))
    nanoseconds = iter([0, 10, 20, 40])
    clock = StepClock(lambda: next(nanoseconds))
    clock.step_ended("active")
    before = (clock.source, clock.times("active"))
    clock.step_begins("active")
    clock.step_ended("active")

    assert before == ("device", [1_000_000])
    assert (clock.source, clock.times("active")) == ("host", [10, 20])
