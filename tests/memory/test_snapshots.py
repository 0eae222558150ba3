"""Snapshots of an allocator that records as torch's does: the peak, how free memory lies, and what is found."""

import pickle
import tracemalloc
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch_allocator import BACKWARD, FORWARD, LOSS, MIB, PARAMETERS, Allocator, emptied, frame, healthy, out_of_memory

from diagnose.commands.memory.answer import MemoryAnswer
from diagnose.commands.memory.curve import usage
from diagnose.commands.memory.judging import judged
from diagnose.commands.memory.snapshot import ACTIONS, History, read
from diagnose.decoding import look_ahead
from diagnose.errors import UserError


def found(tmp_path: Path, allocator: Allocator, protocol: int = 4, **settings: object) -> MemoryAnswer:
    return answer(tmp_path, allocator.snapshot(**settings), protocol)


def answer(tmp_path: Path, snapshot: Any, protocol: int = 4) -> MemoryAnswer:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(snapshot, protocol=protocol))
    return judged(read(file))


def names(of: MemoryAnswer) -> list[str]:
    return [finding.name for finding in of.findings]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_the_peak_is_divided_by_what_allocated_it(protocol: int, tmp_path: Path) -> None:
    """Parameters 3 x 8 MiB stay; of activations 5 x 4 MiB and one loss of 2 MiB all are there at once."""
    allocator = Allocator(limit=1000 * MIB)
    for _ in range(3):
        allocator.alloc(8 * MIB, PARAMETERS)
    kept = [allocator.alloc(4 * MIB, FORWARD) for _ in range(5)]
    allocator.alloc(2 * MIB, LOSS)
    for address in kept:
        allocator.free(address)

    (device,) = found(tmp_path, allocator, protocol).devices

    assert device.peak_bytes == (24 + 20 + 2) * MIB
    assert device.allocated_bytes == (24 + 2) * MIB
    assert [(row.category, row.bytes // MIB, row.blocks) for row in device.at_peak] == [
        ("parameters", 24, 3),
        ("activations", 22, 6),
    ]
    assert [(row.file, row.line, row.bytes // MIB) for row in device.lines_at_peak] == [
        ("/home/me/train.py", 20, 24),
        ("/home/me/train.py", 31, 20),
        ("/home/me/train.py", 32, 2),
    ]


@pytest.mark.parametrize("make", [healthy, out_of_memory, emptied])
def test_the_parts_of_the_peak_add_up_to_it(make: Callable[[], Allocator], tmp_path: Path) -> None:
    (device,) = found(tmp_path, make()).devices

    assert sum(row.bytes for row in device.at_peak) == device.peak_bytes
    assert sum(row.bytes for row in device.lines_at_peak) == device.peak_bytes
    if device.out_of_memory is not None:
        assert sum(row.bytes for row in device.out_of_memory.alive) == device.out_of_memory.allocated_bytes


def test_the_curve_of_the_history_has_its_peak_and_ends_where_the_snapshot_was_taken(tmp_path: Path) -> None:
    (device,) = found(tmp_path, healthy()).devices

    assert device.usage is not None
    assert max(device.usage.allocated_bytes) == device.peak_bytes
    assert device.usage.allocated_bytes[-1] == device.allocated_bytes
    assert device.usage.reserved_bytes[-1] == device.reserved_bytes
    assert all(used <= of for used, of in zip(device.usage.allocated_bytes, device.usage.reserved_bytes, strict=True))


def test_the_curve_of_a_long_history_has_the_most_of_each_part(tmp_path: Path) -> None:
    """A thousand small blocks come and go, and one of 50 MiB is there for a moment."""
    allocator = Allocator(limit=1000 * MIB)
    for i in range(1000):
        allocator.free(allocator.alloc((50 if i == 700 else 1) * MIB, FORWARD))

    (device,) = found(tmp_path, allocator).devices

    assert device.usage is not None
    curve = [used // MIB for used in device.usage.allocated_bytes]
    assert len(curve) <= 240
    assert curve.count(50) == 1
    assert curve.index(50) == pytest.approx(0.7 * len(curve), abs=2)


def test_sizes_that_no_device_has_wrap_nowhere() -> None:
    """The blocks that are freed were there before the history began."""
    count = 9_000
    freed = array("b", [ACTIONS.index("free_requested")] * count)
    history = History(freed, array("q", range(count)), array("q", [1 << 50] * count), array("i", [0] * count))

    curve = usage(history, [], 0, 0, ["no stack"])

    assert max(curve.allocated_bytes) == count << 50
    assert [(row.category, max(row.bytes)) for row in curve.by_category] == [("before the history", count << 50)]


def test_a_history_that_begins_in_the_middle_has_the_same_peak(tmp_path: Path) -> None:
    """The first 40 actions are no longer there: what they allocated is told apart, by blocks that still are there."""
    whole = healthy()
    (full,) = found(tmp_path, whole).devices
    whole.trace = whole.trace[40:]

    (cut,) = (rest := found(tmp_path, whole)).devices

    assert cut.peak_bytes == full.peak_bytes
    assert sum(row.bytes for row in cut.at_peak) == cut.peak_bytes
    assert {row.category: row.bytes for row in cut.at_peak}["parameters"] == 32 * MIB
    assert rest.findings == ()


def test_an_oom_in_pieces_is_fragmentation_and_names_the_line(tmp_path: Path) -> None:
    of = found(tmp_path, out_of_memory())
    oom = of.devices[0].out_of_memory

    assert names(of) == ["fragmentation", "out-of-memory"]
    assert oom is not None
    assert (oom.requested_bytes, oom.line, oom.device_free_bytes) == (60 * MIB, 32, 40 * MIB)
    assert oom.reserved_free_bytes is not None
    assert oom.reserved_free_bytes > oom.requested_bytes > (oom.largest_free_block_bytes or 0)
    assert of.findings[0].do.startswith(
        "Set PYTORCH_ALLOC_CONF=expandable_segments:True (before torch 2.11: PYTORCH_CUDA_ALLOC_CONF): "
    )


def test_expandable_segments_are_not_advised_where_they_are_on(tmp_path: Path) -> None:
    of = found(tmp_path, out_of_memory(), expandable_segments=True)

    assert names(of) == ["fragmentation", "out-of-memory"]
    assert "expandable already" in of.findings[0].do
    assert "PYTORCH_CUDA_ALLOC_CONF" not in of.findings[0].do


def test_an_oom_of_memory_that_is_full_is_no_fragmentation(tmp_path: Path) -> None:
    allocator = Allocator(limit=200 * MIB)
    for _ in range(9):
        allocator.alloc(20 * MIB, FORWARD)
    allocator.alloc(40 * MIB, LOSS)

    of = found(tmp_path, allocator)

    assert names(of) == ["out-of-memory"]
    assert "180.0 MiB in use" in of.findings[0].says
    assert "train.py:32 in train" in of.findings[0].says


def test_how_free_memory_lay_at_an_oom_is_known_though_the_job_went_on(tmp_path: Path) -> None:
    """All that came later is taken back: what was freed, allocated and reserved."""
    allocator = out_of_memory()
    at_once = found(tmp_path, allocator).devices[0].out_of_memory
    for block in [b["address"] for s in allocator.segments for b in s["blocks"] if b["state"] != "inactive"][::2]:
        allocator.free(block)
    allocator.empty_cache()
    allocator.alloc(30 * MIB, FORWARD)

    of = found(tmp_path, allocator)

    assert of.devices[0].out_of_memory == at_once
    assert names(of)[:2] == ["fragmentation", "out-of-memory"]


def test_a_cache_emptied_in_the_loop_is_found(tmp_path: Path) -> None:
    of = found(tmp_path, emptied())

    assert names(of) == ["empty-cache-in-the-loop"]
    assert of.devices[0].empty_cache_calls == 5


def test_segments_given_back_to_go_on_are_retries(tmp_path: Path) -> None:
    allocator = Allocator(limit=100 * MIB)
    for _ in range(3):
        allocator.free(allocator.alloc(60 * MIB, FORWARD))
        allocator.free(allocator.alloc(80 * MIB, LOSS))

    of = found(tmp_path, allocator)

    assert names(of) == ["allocator-retries"]
    assert (of.devices[0].retries, of.devices[0].empty_cache_calls) == (1, 0)


def test_healthy_training_has_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, healthy()).findings == ()


def test_without_a_history_the_peak_is_unknown_and_what_to_type_is_said(tmp_path: Path) -> None:
    allocator = healthy()
    allocator.trace = []

    of = found(tmp_path, allocator)

    assert of.devices[0].peak_bytes is None
    assert of.devices[0].allocated_bytes == 96 * MIB
    assert "_record_memory_history" in of.next[0]


def test_old_snapshots_have_what_was_asked_for_in_a_list(tmp_path: Path) -> None:
    asked = {"addr": 4096, "real_size": 1000, "frames": [frame("/home/me/a.py", 3, "f")]}
    block = {"size": 1024, "state": "active_allocated", "history": [asked]}
    old = {"segments": [{"address": 4096, "total_size": 2 * MIB, "stream": 0, "blocks": [block]}], "device_traces": []}

    of = answer(tmp_path, old)

    assert (of.devices[0].allocated_bytes, of.devices[0].rounding_bytes) == (1000, 24)
    assert any("settings" in line for line in of.unknown)


def test_a_setting_that_holds_itself_many_times_over_is_written_so_far(tmp_path: Path) -> None:
    many: tuple[Any, ...] = ()
    for _ in range(12):
        many = (many, many)

    settings = found(tmp_path, healthy(), many=many, sizes={"1": 2, ">": 4}).settings

    assert (settings["many"], settings["sizes"]) == ("(((...), (...)), ((...), (...)))", "{'1': 2, '>': 4}")


def test_two_devices_are_told_apart(tmp_path: Path) -> None:
    first, second = healthy(), Allocator(limit=1000 * MIB)
    second.alloc(7 * MIB, BACKWARD)
    for segment in second.segments:
        segment["device"] = 1
    both = first.snapshot()
    both["segments"] = [*both["segments"], *second.segments]
    both["device_traces"] = [first.trace, second.trace]

    devices = answer(tmp_path, both).devices

    assert [(device.device, (device.peak_bytes or 0) // MIB) for device in devices] == [(0, 152), (1, 7)]
    assert devices[1].at_peak[0].category == "no stack"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no pickle"),
        (b"{}", "no pickle"),
        (pickle.dumps([1]), "no list of segments"),
        (pickle.dumps({"segments": 1}), "no list of segments"),
        (pickle.dumps({"segments": []})[:-3], "ends in the middle"),
        (b"\x80\x02cos\nsystem\n(X\x01\x00\x00\x00xtR.", "asks for os.system"),
    ],
)
def test_what_is_no_snapshot_is_refused(content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)

    with pytest.raises(UserError, match=why):
        read(tmp_path / "file")


def test_values_of_other_types_are_left_out_and_counted(tmp_path: Path) -> None:
    snapshot = healthy().snapshot()
    snapshot["device_traces"][0][5]["size"] = -1
    snapshot["segments"][0]["total_size"] = "much"
    snapshot["segments"][1]["blocks"][0]["size"] = 1e300

    of = answer(tmp_path, snapshot)

    assert "3 entries that are none of the format" in of.unknown


def memory_of_reading(path: Path, actions: int) -> tuple[int, int]:
    """The bytes that reading takes at most, and those of the file: each action has a stack of its own list."""
    entries = [
        {"action": "alloc", "addr": 512 * i, "size": 512, "time_us": i, "frames": [dict(f) for f in FORWARD]}
        for i in range(actions)
    ]
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [entries]}, protocol=2))
    del entries
    tracemalloc.start()
    try:
        assert len(read(path).histories[0]) == actions
        return tracemalloc.get_traced_memory()[1], path.stat().st_size
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_grows_with_the_rows_and_not_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_ahead, "PART", 1 << 14)  # both files are longer than what is looked at at a time
    few, small = memory_of_reading(tmp_path / "small", 5_000)
    many, large = memory_of_reading(tmp_path / "large", 20_000)

    assert large - small > 2 * MIB
    assert (many - few) / 15_000 < 64
