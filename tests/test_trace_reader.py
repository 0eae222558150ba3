"""Sound traces of every age, vendor and layout to columns."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import KERNEL, rows, saved

from diagnose.errors import UserError
from diagnose.trace import ReadingLoss, read
from diagnose.trace.memory_series import HOST, most_reserved

pytestmark = pytest.mark.usefixtures("either_reader")


@pytest.fixture
def reads(tmp_path: Path) -> Any:
    return lambda content, name="trace.json": read(saved(tmp_path / name, content))


# -- what exporters have written -------------------------------------------------------------------------------------


def test_one_event(reads: Any) -> None:
    trace = reads([KERNEL | {"args": {"stream": 7, "device": 1, "correlation": 5, "External id": 3, "bytes": 64}}])
    assert rows(trace) == [("gemm", "kernel", 10_500, 2_250, 0, 7, 7, 5, 64, 3, None)]
    assert trace.device.tolist() == [1]
    assert trace.loss == ReadingLoss()


def test_absent_fields(reads: Any) -> None:
    trace = reads([KERNEL, KERNEL | {"args": {}}, KERNEL | {"args": None}])
    assert rows(trace) == 3 * [("gemm", "kernel", 10_500, 2_250, 0, 7, -1, -1, -1, -1, None)]
    assert np.isnan(trace.blocks_per_sm).all()


def test_the_list_alone(reads: Any) -> None:
    trace = reads(json.dumps([KERNEL, KERNEL]))
    assert len(trace) == 2
    assert not trace.loss


def test_times_in_strings(reads: Any) -> None:
    trace = reads([KERNEL | {"ts": "1623142623606115", "dur": "12.5"}])
    assert (trace.ts[0], trace.dur[0]) == (1_623_142_623_606_115_000, 12_500)
    assert not trace.loss


def test_categories_and_threads_of_2020(reads: Any) -> None:
    old = KERNEL | {"cat": "Kernel", "tid": "stream 7"}
    trace = reads([old, old | {"cat": "Operator", "tid": "5555"}, old | {"cat": "Memcpy"}, old | {"cat": "Runtime"}])
    assert trace.tid.tolist() == [7, 5555, 7, 7]
    assert trace.rows_of("kernel").tolist() == [True, False, False, False]
    assert trace.rows_of("memcpy", "runtime").tolist() == [False, False, True, True]


def test_argument_names_of_2020(reads: Any) -> None:
    trace = reads([KERNEL | {"args": {"external id": 4, "Input dims": [[2, 3]]}}])
    assert trace.external_id.tolist() == [4]
    assert json.loads(trace.shapes[trace.shape[0]][0]) == [[2, 3]]


def test_absolute_clock_is_exact_to_the_nanosecond(reads: Any) -> None:
    event = json.dumps(KERNEL | {"ts": 0}).replace('"ts": 0', '"ts": 1712195495509882.321')
    assert reads('{"traceEvents": [%s]}' % event).ts.tolist() == [1_712_195_495_509_882_321]  # noqa: UP031


def test_absolute_clock_in_whole_microseconds(reads: Any) -> None:
    assert reads([KERNEL | {"ts": 1694128201426603}]).ts.tolist() == [1_694_128_201_426_603_000]


def test_relative_clock_with_its_base_behind_the_events(reads: Any) -> None:
    trace = reads({"schemaVersion": 1, "traceEvents": [KERNEL], "baseTimeNanoseconds": 1_758_000_000_000_000_000})
    assert trace.base_ns + int(trace.ts[0]) == 1_758_000_000_000_010_500
    assert trace.metadata["schemaVersion"] == 1


def test_a_base_beyond_all_time_is_none(reads: Any) -> None:
    text = json.dumps({"traceEvents": [KERNEL], "baseTimeNanoseconds": 0})
    assert reads(text.replace("0}", "1e999}")).base_ns == 0


def test_metadata_behind_the_events_with_many_devices(reads: Any) -> None:
    devices = [{"id": i, "name": "H100"} for i in range(8)]
    trace = reads({"traceEvents": [KERNEL], "deviceProperties": devices, "distributedInfo": {"rank": 3}})
    assert trace.metadata == {"deviceProperties": devices, "distributedInfo": {"rank": 3}}
    assert not trace.loss


def test_no_device_properties(reads: Any) -> None:
    assert reads({"deviceProperties": [], "traceEvents": [KERNEL]}).metadata == {"deviceProperties": []}


def test_display_unit_does_not_change_the_times(reads: Any) -> None:
    assert reads({"traceEvents": [KERNEL], "displayTimeUnit": "ns"}).ts.tolist() == [10_500]


def test_processes_with_names(reads: Any) -> None:
    trace = reads([KERNEL | {"pid": pid, "tid": "PyTorch Profiler"} for pid in ("Spans", "Traces", "")])
    assert trace.pid.tolist() == [-1, -1, -1]
    assert trace.tid.tolist() == [-1, -1, -1]


def test_ranks_merged_into_one_file(reads: Any) -> None:
    assert reads([KERNEL | {"pid": 300_000_542, "args": {"rank": 3, "pid_raw": 542}}]).pid.tolist() == [300_000_542]


@pytest.mark.parametrize("args", [[], "text", 5, True, ["a", {"b": 1}]])
def test_args_of_another_type(reads: Any, args: object) -> None:
    trace = reads([KERNEL | {"args": args}, KERNEL])
    assert rows(trace)[0] == rows(trace)[1]
    assert not trace.loss


def test_half_a_character(reads: Any) -> None:
    """JSON can escape what no output can encode."""
    odd = "a \ud800 b"
    trace = reads({"traceEvents": [KERNEL | {"name": odd, "args": {"Collective name": odd}}], "traceName": odd})
    assert (trace.names, trace.collectives.name, trace.metadata) == (("a ? b",), ("a ? b",), {"traceName": "a ? b"})


def test_argument_values_of_odd_types(reads: Any) -> None:
    odd = {"stream": "7", "correlation": 5.0, "bytes": [1, 2], "External id": None, "blocks per SM": "0.5"}
    trace = reads([KERNEL | {"args": odd}])
    assert rows(trace) == [("gemm", "kernel", 10_500, 2_250, 0, 7, 7, 5, -1, -1, None)]
    assert trace.blocks_per_sm.tolist() == [0.5]


def test_numbers_beyond_64_bits(reads: Any) -> None:
    trace = reads([KERNEL | {"args": {"correlation": 1 << 63, "bytes": 10**400, "stream": 1 << 40}}])
    assert (trace.correlation[0], trace.bytes[0], trace.stream[0]) == (-1, -1, -1)


def test_rocm_kernel_and_its_collective(reads: Any) -> None:
    args = {"stream": "0x7f", "correlation": 12, "kind": "Dispatch Kernel", "grid": [1, 1, 1]}
    nccl = {"Collective name": "allreduce", "In msg nelems": 1024, "dtype": "Float", "Seq": "4", "Group size": 8}
    trace = reads([KERNEL | {"name": "ncclDevKernel_Generic", "args": args}, KERNEL | {"cat": "cpu_op", "args": nccl}])
    table = trace.collectives
    assert trace.stream.tolist() == [-1, -1]
    assert (table.row.tolist(), table.name, table.group, table.dtype) == ([1], ("allreduce",), ("",), ("Float",))
    assert (table.elements_in[0], table.elements_out[0], table.group_size[0], table.seq[0]) == (1024, -1, 8, 4)


def test_other_phases_are_not_events(reads: Any) -> None:
    flow = {"ph": "s", "id": 5, "pid": 0, "tid": 7, "ts": 10.5, "cat": "ac2g", "name": "ac2g"}
    meta = {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}
    assert len(reads([meta, flow, KERNEL, flow | {"ph": "f", "bp": "e"}])) == 1


def test_memory_instants_give_the_peak_of_each_device(reads: Any) -> None:
    def memory(device: int, reserved: int, kind: int = 1) -> dict[str, Any]:
        args = {"Device Type": kind, "Device Id": device, "Total Allocated": reserved - 9, "Total Reserved": reserved}
        return {"ph": "i", "name": "[memory]", "ts": 1, "args": args}

    trace = reads([KERNEL, memory(0, 100), memory(0, 300), memory(0, 200), memory(1, 50), memory(0, 999, kind=0)])
    assert most_reserved(trace.memory) == 300
    most = {device: series.most.tolist() for device, series in trace.memory.items()}
    assert most == {HOST: [990], 0: [291], 1: [41]}


def test_hundreds_of_thousands_of_metadata_records(reads: Any) -> None:
    meta = {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "x"}}
    assert len(reads([*(20_000 * [meta]), KERNEL, *(20_000 * [meta])])) == 1


# -- exactness -------------------------------------------------------------------------------------------------------


def us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


relative_ns = st.integers(0, (1 << 43) * 1000 - 1)
absolute_ns = st.integers(10**18, 4 * 10**18)
stamps = st.lists(relative_ns, min_size=1, max_size=20) | st.lists(absolute_ns | relative_ns, min_size=1, max_size=20)


@given(stamps, st.sampled_from(["{}", '"{}"']))
def test_nanoseconds_are_exact(tmp_path_factory: pytest.TempPathFactory, ns: list[int], written: str) -> None:
    event = '{"ph": "X", "cat": "cpu_op", "name": "k", "ts": %s, "dur": 1}'
    events = ", ".join(event % written.format(us(t)) for t in ns)
    path = saved(tmp_path_factory.getbasetemp() / "exact.json", '{"traceEvents": [' + events + "]}")
    assert read(path).ts.tolist() == ns


@given(st.lists(relative_ns, min_size=1, max_size=20))
def test_durations_are_exact(tmp_path_factory: pytest.TempPathFactory, ns: list[int]) -> None:
    event = '{"ph": "X", "cat": "cpu_op", "name": "k", "ts": 1, "dur": %s}'
    events = ", ".join(event % us(t) for t in ns)
    path = saved(tmp_path_factory.getbasetemp() / "exact.json", '{"traceEvents": [' + events + "]}")
    assert read(path).dur.tolist() == ns


# -- what is refused, and what a file can do to the memory -----------------------------------------------------------


def test_long_names_are_cut(reads: Any) -> None:
    trace = reads([KERNEL | {"name": "x" * 1_000_000}])
    assert trace.names == ("x" * 4096,)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ('{"traceEvents": []}', "list of events is empty"),
        ([{"ph": "M", "name": "process_name"}], "1 metadata records"),
        ([{"ph": "X", "name": "k"}], "none of its 1 events"),
        ("[]", "a JSON array without profiler events"),
        ('[{"a": 1}, {"a": 2}]', "a JSON array without profiler events"),
        ("[1, 2]", "a JSON array without profiler events"),
        ("[[1, 2], [3, 4]]", "memory timeline"),
        ('{"a": 1}', "JSON without a traceEvents array"),
        ('{"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}', "speedscope"),
        ('{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}', "Chakra"),
        ('{"rocprofiler-sdk-tool": []}', "rocprof"),
        ('{"segments": [], "device_traces": []}', "memory snapshot"),
        ("<!DOCTYPE html><html></html>", "web page"),
        ("step 1: loss 0.5\n", "no JSON"),
        (b"\x7fELF\x02\x01\x00\x00", "binary"),
        (b"PK\x03\x04rest", "zip"),
        (b"SQLite format 3\x00", "Nsight"),
    ],
)
def test_refused(reads: Any, content: object, why: str) -> None:
    with pytest.raises(UserError, match=why) as error:
        reads(content)
    assert error.value.exit_code == 3


@pytest.mark.long
def test_a_bomb_of_one_giant_string_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [{"ph": "X", "name": "')
        for _ in range(80):
            file.write(b"x" * (1 << 20))
    with pytest.raises(UserError, match="64 MiB"):
        read(path)


@pytest.mark.long
def test_a_bomb_before_the_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"a": "')
        for _ in range(80):
            file.write(b"x" * (1 << 20))
    with pytest.raises(UserError, match="JSON without a traceEvents array"):
        read(path)


@pytest.mark.long
def test_a_bomb_behind_the_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(json.dumps({"traceEvents": [KERNEL, KERNEL]}).encode()[:-1] + b', "a": "')
        for _ in range(80):
            file.write(b"x" * (1 << 20))
    with pytest.raises(UserError, match="64 MiB"):
        read(path)


def test_nesting_without_end(reads: Any) -> None:
    deep = '{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "args": {"a": ' + "[" * 100_000
    with pytest.raises(UserError):
        reads(deep)
