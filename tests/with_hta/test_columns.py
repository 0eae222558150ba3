"""What is handed over, checked against the columns it comes from; HolisticTraceAnalysis itself is not needed."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import synchronised
from kineto import COMMUNICATION, COMPUTE, Trace

from diagnose.commands.hta.frame import NOT_LINKED, iterations, partners
from diagnose.commands.hta.traces import all_ranks, one_rank
from diagnose.commands.hta.waits import awaited
from diagnose.errors import UserError
from diagnose.trace import Loading, read
from diagnose.trace import Trace as Loaded

SAMPLES = Path(__file__).parents[2] / "sample_traces"


def rows(trace: Loaded, *names: str) -> list[int]:
    return [at for at, name in enumerate(trace.name) if trace.names[name] in names]


def test_a_kernel_and_its_launch_are_partners(tmp_path: Path) -> None:
    job = Trace()
    job.op("aten::mm", [[8, 8], [8, 8]], kernel="gemm", gpu_us=10)
    trace = read(job.write(tmp_path / "t.json"))

    (kernel,), (launch,), (operator,) = rows(trace, "gemm"), rows(trace, "cudaLaunchKernel"), rows(trace, "aten::mm")

    linked = partners(trace)
    assert (linked[kernel], linked[launch], linked[operator]) == (launch, kernel, NOT_LINKED)


def test_of_several_events_with_one_correlation_the_last_counts(tmp_path: Path) -> None:
    times = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    launch = {"cat": "cuda_runtime", "name": "launch", "args": {"correlation": 5}}
    kernel = {"cat": "kernel", "name": "kernel", "args": {"correlation": 5, "stream": 7}}
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [times | e for e in (launch, kernel, launch, kernel)]}))

    assert partners(read(tmp_path / "t.json")).tolist() == [3, 2, 3, 2]


def test_a_kernel_belongs_to_the_step_that_launched_it(tmp_path: Path) -> None:
    job = Trace(first_step=4)
    for _ in range(2):
        with job.step():
            job.launch("late", us=1000)  # the second step begins while the first one's kernel runs
    job.host(5000)
    job.cpu_op("after", 5)
    trace = read(job.write(tmp_path / "t.json"))

    found = iterations(trace, partners(trace))

    assert found[rows(trace, "late")].tolist() == [4, 5]
    assert found[rows(trace, "after")].tolist() == [-1]


def test_what_a_synchronisation_waited_for_is_found_in_the_text(tmp_path: Path) -> None:
    text = synchronised.with_waits(synchronised.steps(3).json())
    (tmp_path / "t.json").write_text(json.dumps(text))
    trace = read(tmp_path / "t.json")

    stream, record = awaited(trace)

    waits = rows(trace, "Stream Wait Event")
    assert len(waits) == 3
    assert set(stream[waits]) == {COMMUNICATION}
    assert record[waits].tolist() == (trace.correlation[waits] + synchronised.RECORD).tolist()
    assert (np.delete(stream, waits) == -1).all()


def test_waits_are_found_where_blocks_of_text_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.json").write_text(json.dumps(synchronised.with_waits(synchronised.steps(3).json())))
    trace = read(tmp_path / "t.json")
    whole = awaited(trace)
    for size in (64, 100, 997):
        monkeypatch.setattr("diagnose.trace.source.BLOCK_BYTES", size)

        assert np.array_equal(awaited(trace), whole)


ARGUMENTS = {"stream": -1, "correlation": -1, "bytes": -1, "memory_bw_gbps": 0.0, "wait_on_stream": -1,
             "wait_on_cuda_event_record_corr_id": -1, "input_dims": "-1", "input_strides": "-1", "group_size": 0,
             "collective_name": ""}  # fmt: skip


class Symbols:
    """A symbol table as HolisticTraceAnalysis's: texts that know their place."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {"taken": 0}

    def add_symbols(self, texts: Any) -> None:
        for text in texts:
            self.ids.setdefault(text, len(self.ids))

    def get_sym_id_map(self) -> dict[str, int]:
        return self.ids


@pytest.fixture
def frame(tmp_path: Path) -> SimpleNamespace:
    """One step of the synchronised job as loaded, as the frame, and the symbol table."""
    pytest.importorskip("pandas", reason="frames need pandas, of the extra hta")
    from diagnose.commands.hta.frame import analysed, frame_of

    (tmp_path / "t.json").write_text(json.dumps(synchronised.with_waits(synchronised.steps(1).json())))
    trace, row = analysed(read(tmp_path / "t.json"))
    symbols = Symbols()
    specs = [SimpleNamespace(name=name, default_value=value) for name, value in ARGUMENTS.items()]
    return SimpleNamespace(trace=trace, df=frame_of(trace, row, 0, specs, symbols), symbols=symbols)


def test_the_frame_has_a_row_for_each_event_and_exact_times(frame: SimpleNamespace) -> None:
    df, trace = frame.df, frame.trace

    assert len(df) == len(trace)
    assert np.array_equal(np.round(df["ts"] * 1000).astype(np.int64), trace.ts)
    assert np.array_equal(np.round(df["dur"] * 1000).astype(np.int64), trace.dur)
    assert df["end"].equals(df["ts"] + df["dur"])
    assert {str(df[name].dtype) for name in ("ts", "dur", "end", "memory_bw_gbps")} == {"float64"}
    assert {str(df[name].dtype) for name in ("index", "cat", "name", "stream", "correlation", "iteration")} == {"int32"}


def test_the_symbol_table_holds_the_names_that_occur_and_no_others(frame: SimpleNamespace) -> None:
    texts = {number: text for text, number in frame.symbols.ids.items()}

    assert [texts[n] for n in frame.df["name"]] == [frame.trace.names[n] for n in frame.trace.name]
    assert [texts[n] for n in frame.df["cat"]] == [frame.trace.cats[n] for n in frame.trace.cat]
    assert "PyTorch Profiler (0)" not in frame.symbols.ids  # of the category that is dropped


def test_absent_arguments_have_the_defaults_that_are_asked_for(frame: SimpleNamespace) -> None:
    df = frame.df
    on_host = df["stream"] == -1
    called = df["collective_name"] == "allreduce"
    waited = df["wait_on_stream"] != -1

    assert set(df[on_host]["memory_bw_gbps"]) == {0.0}
    assert set(df["input_strides"]) == {"-1"}  # not in our columns
    assert df["input_dims"].map(str).str.startswith("[[512, 512]").sum() == 2
    assert set(df[called]["group_size"]) == {2}
    assert set(df[waited]["stream"]) == {COMPUTE}


def test_links_are_by_index(frame: SimpleNamespace) -> None:
    df = frame.df.set_index("index", drop=False)
    kernels = df[(df["stream"] >= 0) & (df["index_correlation"] > 0)]

    launches = df.loc[kernels["index_correlation"]]

    assert len(kernels) >= 4
    assert launches["correlation"].tolist() == kernels["correlation"].tolist()
    assert launches["index_correlation"].tolist() == kernels["index"].tolist()


def test_a_clock_that_doubles_cannot_hold_starts_at_its_first_event(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="frames need pandas, of the extra hta")
    from diagnose.commands.hta.frame import clock_zero_ns

    absolute = '{"traceEvents": [{"ph": "X", "name": "a", "cat": "cpu_op", "ts": 1700000000000000.001, "dur": 1}]}'
    (tmp_path / "absolute.json").write_text(absolute)
    (tmp_path / "relative.json").write_text(absolute.replace("1700000000000000.001", "17.001"))

    assert clock_zero_ns([read(tmp_path / "absolute.json")]) == 1_700_000_000_000_000_000
    assert clock_zero_ns([read(tmp_path / "relative.json")]) == 0


@pytest.mark.parametrize(("before", "index"), [([], 0), ([{"ph": "M", "name": "process_name", "args": {"a": 1}}], 1)])
def test_only_the_files_first_event_gets_index_0(tmp_path: Path, before: list[Any], index: int) -> None:
    pytest.importorskip("pandas", reason="frames need pandas, of the extra hta")
    from diagnose.commands.hta.frame import first_index

    event = {"ph": "X", "name": "a", "cat": "cpu_op", "ts": 1, "dur": 1}
    (tmp_path / "t.json").write_text(json.dumps({"deviceProperties": [{}], "traceEvents": [*before, event]}))

    assert first_index(read(tmp_path / "t.json")) == index


def test_the_ranks_of_a_folder() -> None:
    folder = SAMPLES / "synthetic-straggler"
    with all_ranks(folder, None, Loading()) as traces:
        assert sorted(traces) == [0, 1, 2, 3, 4, 5, 6, 7]
    with one_rank(folder, None, Loading(), None) as (first, _), one_rank(folder, None, Loading(), 3) as (rank, trace):
        assert (first, rank, trace.metadata["distributedInfo"]["rank"]) == (0, 3, 3)
    with pytest.raises(UserError, match="no rank 9"), one_rank(folder, None, Loading(), 9):
        pass
