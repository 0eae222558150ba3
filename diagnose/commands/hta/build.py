"""A TraceAnalysis that is given its frames instead of reading files."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from hta.common import trace_parser
from hta.common.trace import Trace as HtaTrace
from hta.trace_analysis import TraceAnalysis

from diagnose.commands.hta.frame import analysed, clock_zero_ns, first_index, frame_of
from diagnose.commands.hta.installed import require_critical_path
from diagnose.errors import UserError
from diagnose.trace import Trace

_READABLE = (".json", ".gz")  # by HolisticTraceAnalysis


class LoadedTrace(HtaTrace):  # type: ignore[misc]
    """HolisticTraceAnalysis's trace of all ranks, made of loaded ones.

    A row's index is the place of its event among the complete events of the file, from `first_index` on.
    """

    def __init__(self, traces: Mapping[int, Trace], include_last_profiler_step: bool) -> None:
        super().__init__(trace_files={}, trace_dir=str(Path(next(iter(traces.values())).path).parent))
        self.trace_files = {rank: trace.path for rank, trace in traces.items()}
        self.events = {rank: len(trace) for rank, trace in traces.items()}
        self.first_index = {rank: first_index(trace) for rank, trace in traces.items()}
        zero_ns = clock_zero_ns(traces.values())
        self.traces: dict[int, pd.DataFrame] = {}
        for rank, trace in traces.items():
            kept, row = analysed(trace)
            index = row + self.first_index[rank]
            self.traces[rank] = frame_of(kept, index, zero_ns, self.parser_config.get_args(), self.symbol_table)
            self.meta_data[rank] = dict(trace.metadata)
        self._add_device_types()
        self.align_and_filter_trace(include_last_profiler_step)
        self.min_ts += zero_ns / 1000.0
        self.traces = {rank: _by_index(frame) for rank, frame in self.traces.items()}
        self.is_parsed = True

    def _add_device_types(self) -> None:
        if not hasattr(trace_parser, "infer_gpu_type"):  # before version 0.6
            return
        for meta in self.meta_data.values():
            meta["device_type"] = trace_parser.infer_gpu_type(meta, self.symbol_table.get_sym_id_map())

    def get_raw_trace_for_one_rank(self, rank: int = 0) -> dict[str, Any]:
        """The file's own text as a dictionary, its events in such an order that a row's index finds its event.

        Raises:
            UserError: HolisticTraceAnalysis cannot read the file, or events of it were lost or belong to other ranks.
        """
        path = self.trace_files[rank]
        if not path.endswith(_READABLE) or not Path(path).exists():
            do = "use a .json or .json.gz file on this machine"
            raise UserError("HolisticTraceAnalysis cannot read the trace again", where=path, do=do)
        raw: dict[str, Any] = super().get_raw_trace_for_one_rank(rank)
        complete = [event for event in raw["traceEvents"] if event.get("ph") == "X"]
        others = [event for event in raw["traceEvents"] if event.get("ph") != "X"]
        if len(complete) != self.events[rank]:
            why = f"it holds {len(complete)} complete events, and {self.events[rank]} are of this rank and sound"
            raise UserError("cannot write over the trace", where=path, why=why)
        before = self.first_index[rank]
        return raw | {"traceEvents": others[:before] + complete + others[before:]}


class LoadedAnalysis(TraceAnalysis):  # type: ignore[misc]
    """HolisticTraceAnalysis on traces that are loaded already."""

    def __init__(self, trace: LoadedTrace) -> None:
        self.t = trace

    def critical_path_analysis(self, *args: Any, **kwargs: Any) -> Any:
        """Run the analysis as TraceAnalysis does.

        Raises:
            UserError: the installed versions of HolisticTraceAnalysis and pandas fail at it.
        """
        require_critical_path()
        return super().critical_path_analysis(*args, **kwargs)


def analysis_of(traces: Mapping[int, Trace], include_last_profiler_step: bool) -> LoadedAnalysis:
    """HolisticTraceAnalysis of loaded traces by rank."""
    if not traces:
        raise UserError("no traces to analyse")
    return LoadedAnalysis(LoadedTrace(traces, include_last_profiler_step))


@contextmanager
def quiet() -> Iterator[None]:
    """Silence HolisticTraceAnalysis's log."""
    log = logging.getLogger("hta")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _by_index(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.set_index("index", drop=False)
    frame.index.names = [None]
    return frame
