"""Events, synchronisation, facts of the device and of its memory, in this process."""

import pickle
import time
from pathlib import Path

import pytest
from needs import needs

from diagnose.probes.cuda_graphs import capturing
from diagnose.probes.dumps.window_memory import WindowMemory
from diagnose.probes.facts import machine, torch_settings
from diagnose.probes.pipeline.measurement import to_device
from diagnose.probes.recording.clock import StepClock, _event
from diagnose.probes.recording.recorder import _activities

needs("torch")
pytestmark = pytest.mark.gpu


def test_steps_are_timed_by_events_once_cuda_is_in_use() -> None:
    import torch

    a = torch.randn(1024, 1024, device="cuda")
    clock = StepClock(time.perf_counter_ns)
    for _ in range(4):
        clock.step_begins("control")
        a @ a
        clock.step_ended("control")

    assert clock.source == "device"
    assert all(ns > 0 for ns in clock.times("control"))
    assert len(clock.times("control")) == len(clock.host_times()) == 4


def test_a_step_within_a_capture_has_no_event() -> None:
    import torch

    a, graph = torch.zeros(8, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        within = (capturing(), _event())
        a.add_(1)

    assert within == (True, None)
    assert (capturing(), _event() is None) == (False, False)


def test_what_the_record_says_of_the_device_is_what_torch_says() -> None:
    import torch

    torch.cuda.init()
    properties, told = torch.cuda.get_device_properties(0), machine.device()

    assert told is not None
    assert (told["name"], told["total_memory_bytes"]) == (properties.name, properties.total_memory)
    assert told["multiprocessors"] == properties.multi_processor_count


def test_memory_in_the_record_is_the_allocators() -> None:
    import torch

    kept = torch.empty(1 << 26, device="cuda", dtype=torch.uint8)
    told = machine.memory()

    assert told is not None
    assert kept.numel() <= int(str(told["allocated_bytes"])) <= int(str(told["max_allocated_bytes"]))
    assert int(str(told["free_bytes"])) < int(str(told["total_bytes"]))


def test_versions_name_driver_and_runtime() -> None:
    told = machine.versions()

    assert told["driver"]
    assert told["driver_cuda"]
    assert told["cuda"]


def test_the_precision_of_products_is_read_in_the_words_of_this_torch() -> None:
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert torch_settings.torch_settings()["float32_matmul_precision"] == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_the_profiler_is_asked_for_the_device() -> None:
    assert {activity.name for activity in _activities()} == {"CPU", "CUDA"}


def test_pinning_and_copying_a_batch_are_timed() -> None:
    import torch

    told = to_device({"x": torch.randn(64, 1024)}, 64, pinned=True, seconds=0.1)

    assert told["pin"]["wall_ns"] > 0
    assert told["copy"]["pinned"] is True


def test_the_history_of_a_second_window_is_of_it_alone(tmp_path: Path) -> None:
    import torch

    torch.cuda.init()
    memory = WindowMemory(tmp_path)
    before = torch.empty(3 << 20, device="cuda", dtype=torch.uint8)
    memory.begin()
    within = torch.empty(5 << 20, device="cuda", dtype=torch.uint8)
    memory.end()
    after = torch.empty(7 << 20, device="cuda", dtype=torch.uint8)
    memory.write()

    snapshot = pickle.loads((tmp_path / "memory-rank0.pickle").read_bytes())
    sizes = {entry["size"] for trace in snapshot["device_traces"] for entry in trace if entry["action"] == "alloc"}
    assert sizes == {5 << 20}
    assert torch._C._cuda_isHistoryEnabled() is False
    del before, within, after


def test_a_history_that_the_job_records_itself_is_left_alone(tmp_path: Path) -> None:
    import torch

    torch.cuda.init()
    torch.cuda.memory._record_memory_history(max_entries=100)
    try:
        memory = WindowMemory(tmp_path)
        memory.begin()
        memory.end()
        memory.write()
        assert torch._C._cuda_isHistoryEnabled() is True
        assert not [*tmp_path.iterdir()]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
