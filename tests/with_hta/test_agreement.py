"""HolisticTraceAnalysis gives the same numbers from our frames as from its own parser. Needs the extra hta.

pytest tests/with_hta -m compat
"""

import gzip
import json
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synchronised

REASON = "needs HolisticTraceAnalysis, of the extra hta"
hta = pytest.importorskip("hta.trace_analysis", reason=REASON)
pd = pytest.importorskip("pandas", reason=REASON)

from hta.common import trace as hta_trace  # noqa: E402
from hta.common import trace_parser  # noqa: E402

from diagnose.commands.hta import installed, trace_analysis  # noqa: E402
from diagnose.commands.hta.critical_path import critical_path, typical_step  # noqa: E402
from diagnose.errors import UserError  # noqa: E402
from diagnose.formulas.kineto import DOUBLE_IS_EXACT_BELOW_US  # noqa: E402
from diagnose.trace import read  # noqa: E402

pytestmark = [pytest.mark.compat, pytest.mark.filterwarnings("ignore")]

SAMPLES = Path(__file__).parents[2] / "sample_traces"
REAL = Path(os.environ.get("DIAGNOSE_REAL_TRACES", ""))
BUNDLED = [SAMPLES / f"synthetic-{name}.json.gz"
           for name in ("communication-bound", "memory-bound", "sync-every-step", "tiny-kernels")]  # fmt: skip
LABELLED = sorted(REAL.glob("*/*.json.gz")) if os.environ.get("DIAGNOSE_REAL_TRACES") else []
MADE = Path("waits-recorded.json")
TRACES = [*BUNDLED, MADE, *(file for file in LABELLED if file.parent.name != "damaged")]
FINDS_PATHS = True
try:
    installed.require_critical_path()
except UserError:
    FINDS_PATHS = False

Analysis = Callable[[Any], Any]


def parts_of_path(analysis: Any) -> Any:
    """The critical path of the second step: nodes, edges, and the microseconds of each category and name."""
    graph, found = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=1)
    pieces = graph.get_critical_path_breakdown()
    size = pd.Series(
        {"nodes": len(graph.nodes), "edges": len(graph.edges), "on the path": len(graph.critical_path_nodes)}
    )
    named = pieces.groupby(["bound_by", "s_name"], dropna=False).duration.agg(["sum", "count"])
    return found, size, named.reset_index().sort_values(["bound_by", "s_name"]).reset_index(drop=True)


ANALYSES: dict[str, Analysis] = {
    "temporal breakdown": lambda ta: ta.get_temporal_breakdown(visualize=False),
    "overlap": lambda ta: ta.get_comm_comp_overlap(visualize=False),
    "idle time": lambda ta: ta.get_idle_time_breakdown(ranks=[0], visualize=False)[0],
    "kernels": lambda ta: ta.get_gpu_kernel_breakdown(visualize=False),
    "launches": lambda ta: ta.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0],
    "queue length": lambda ta: ta.get_queue_length_summary(ranks=[0]),
    "critical path": parts_of_path,
}


def outcome(analysis: Analysis, on: Any) -> Any:
    """What it returns, or the type of what it raises."""
    try:
        return analysis(on)
    except Exception as error:
        return type(error)


def same(one: Any, other: Any) -> bool:
    """Whether two outcomes are equal; floats within 1e-9 of their size, or a picosecond."""
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    tolerance = {"check_dtype": False, "check_index_type": False, "rtol": 1e-9, "atol": 1e-6}
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, **tolerance)
    elif isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other, **tolerance)
    else:
        return bool(one == other)
    return True


def with_exact_times(path: Path, folder: Path) -> Path:
    """The file, or a copy with a clock that begins at 0 where doubles do not hold it to the nanosecond."""
    text = gzip.decompress(path.read_bytes()).decode()
    stamps = re.compile(r'("ts"\s*:\s*)(\d+)(\.\d+)')
    first = min((int(stamp[2]) for stamp in stamps.finditer(text)), default=0)
    if first < DOUBLE_IS_EXACT_BELOW_US:
        return path
    copy = folder / f"from-0-{path.name}"
    copy.write_bytes(gzip.compress(stamps.sub(lambda m: f"{m[1]}{int(m[2]) - first}{m[3]}", text).encode(), 1))
    return copy


def rounds(patch: pytest.MonkeyPatch, wanted: bool) -> None:
    """As HTA_DISABLE_NS_ROUNDING=0 or 1, which newer versions read only once."""
    patch.setattr(trace_parser.hta_options, "disable_ns_rounding", lambda: not wanted)


@pytest.fixture(scope="module", params=TRACES, ids=lambda path: f"{path.parent.name}/{path.name}"[-40:])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """HolisticTraceAnalysis on its own reading of a trace without rounding, and on ours of the same."""
    path, folder = request.param, tmp_path_factory.mktemp("made")
    if path == MADE:
        path = folder / path
        path.write_text(json.dumps(synchronised.with_waits(synchronised.steps().json())))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rounds(patch, False)
        ours = trace_analysis({0: read(path)})
        try:
            theirs = hta.TraceAnalysis(
                trace_files={0: str(with_exact_times(path, folder) if path.suffix == ".gz" else path)}
            )
        except Exception as error:
            pytest.skip(f"its own parser fails: {type(error).__name__}: {error}"[:200])
    return theirs, ours


@pytest.mark.parametrize("name", ANALYSES)
def test_the_numbers_are_the_same(pair: tuple[Any, Any], name: str) -> None:
    if name == "critical path" and not FINDS_PATHS:
        pytest.skip("this HolisticTraceAnalysis finds no critical path with this pandas")
    theirs, ours = (outcome(ANALYSES[name], analysis) for analysis in pair)

    assert same(theirs, ours), (theirs, ours)


def test_the_numbers_of_all_ranks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds(monkeypatch, False)
    folder = SAMPLES / "synthetic-straggler"
    theirs, ours = hta.TraceAnalysis(trace_dir=str(folder)), trace_analysis(folder)

    for name in ("temporal breakdown", "overlap", "kernels"):
        assert same(ANALYSES[name](theirs), ANALYSES[name](ours))


def test_its_parser_is_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(hta_trace, "parse_trace_file")
    monkeypatch.delattr(hta_trace, "parse_trace_dataframe")

    assert len(trace_analysis(BUNDLED[0]).get_temporal_breakdown(visualize=False)) == 1


def test_rounding_is_what_makes_its_default_numbers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds(monkeypatch, True)
    rounded = hta.TraceAnalysis(trace_files={0: str(BUNDLED[3])}).get_temporal_breakdown(visualize=False)
    exact = trace_analysis(BUNDLED[3]).get_temporal_breakdown(visualize=False)

    lost = 1 - rounded["compute_time(us)"][0] / exact["compute_time(us)"][0]
    assert lost > 0.001  # of short kernels: the start is rounded up, the end down


@pytest.mark.skipif(not FINDS_PATHS, reason="this HolisticTraceAnalysis finds no critical path with this pandas")
def test_the_path_of_the_typical_step_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds(monkeypatch, False)
    trace = read(BUNDLED[2])
    step = trace.names[trace.name[typical_step(trace)]]
    theirs = hta.TraceAnalysis(trace_files={0: str(BUNDLED[2])}, include_last_profiler_step=True)

    pieces = theirs.critical_path_analysis(0, step, 0)[0].get_critical_path_breakdown()

    path, rounding = critical_path(0, trace), len(pieces)
    their_ns = {kind: 1e3 * us for kind, us in pieces.groupby("bound_by").duration.sum().items() if us > 1e-3}
    assert path.step == step
    assert path.ns == pytest.approx(sum(their_ns.values()), abs=rounding)
    assert {part.category: part.ns for part in path.categories} == pytest.approx(their_ns, abs=rounding)
    assert sum(part.ns for part in path.categories) == path.ns


@pytest.mark.skipif(not FINDS_PATHS, reason="this HolisticTraceAnalysis finds no critical path with this pandas")
def test_the_path_written_upon_the_trace_marks_its_own_events(tmp_path: Path) -> None:
    analysis = trace_analysis(BUNDLED[2])
    graph, _ = analysis.critical_path_analysis(0, "ProfilerStep", 1)

    written = analysis.overlay_critical_path_analysis(0, graph, str(tmp_path), only_show_critical_events=False)

    events = json.loads(gzip.decompress(Path(written).read_bytes()))["traceEvents"]
    marked = sorted(event["name"] for event in events if event.get("args", {}).get("critical") == 1 and "dur" in event)
    table, frame = analysis.t.symbol_table.get_sym_table(), analysis.t.get_trace(0)
    assert marked == sorted(table[frame["name"][number]] for number in graph.critical_path_events_set)


@pytest.mark.skipif(FINDS_PATHS, reason="this HolisticTraceAnalysis finds critical paths with this pandas")
def test_a_critical_path_that_would_fail_is_refused() -> None:
    with pytest.raises(UserError, match="fails with pandas"):
        trace_analysis(BUNDLED[0]).critical_path_analysis(0, "ProfilerStep", 1)
