"""The columns of one trace as the DataFrame that HolisticTraceAnalysis works on."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diagnose.arrays import Array, Floats, Ids, Ints
from diagnose.commands.hta.waits import awaited
from diagnose.formulas.kineto import DOUBLE_IS_EXACT_BELOW_US
from diagnose.trace import Trace
from diagnose.trace.arguments import listed
from diagnose.trace.source import Source

_NOT_EVENTS = ("", "Trace")
_COPIES = ("gpu_memcpy", "gpu_memset", "memcpy", "memset")
_NO_SHAPE = "-1"
_FIRST_PHASE = re.compile(rb'(?:"traceEvents"\s*:|\A)\s*\[\s*\{[^{}]*?"ph"\s*:\s*"(\w)"')
_LONGEST_HEAD = 4 << 20


def analysed(trace: Trace) -> tuple[Trace, Ints]:
    """The events that HolisticTraceAnalysis keeps, and the row of each."""
    keep = ~np.array([cat in _NOT_EVENTS for cat in trace.cats], bool)[trace.cat]
    return (trace if keep.all() else trace.select(keep)), np.flatnonzero(keep)


def first_index(trace: Trace) -> int:
    """The index of the trace's first row: 0 if it is the file's first event, else 1.

    Index 0 has a meaning: HolisticTraceAnalysis gives it to activities whose launch is not in the trace, and some of
    its analyses then join them to the row of that index, if there is one.
    """
    text = b""
    for block in Source(Path(trace.path)).blocks():
        text += block
        if (match := _FIRST_PHASE.search(text)) is not None:
            return 0 if match[1] == b"X" else 1
        if len(text) > _LONGEST_HEAD:
            break
    return 1


def clock_zero_ns(traces: Iterable[Trace]) -> int:
    """Offset to subtract from times: the first microsecond if doubles cannot hold the clock to the nanosecond, or 0."""
    first = min((int(trace.ts.min()) for trace in traces if len(trace)), default=0)
    return first // 1000 * 1000 if abs(first) >= DOUBLE_IS_EXACT_BELOW_US * 1000 else 0


def frame_of(trace: Trace, index: Ints, zero_ns: int, args: Sequence[Any], symbols: Any) -> pd.DataFrame:
    """One row for each event; times are float64 microseconds, names and categories ids of the symbol table.

    Args:
        trace: the events, without those that HolisticTraceAnalysis drops.
        index: the index of each row.
        zero_ns: the origin of the times.
        args: HolisticTraceAnalysis's specifications of the columns made of arguments.
        symbols: its symbol table, to which the names are added.
    """
    partner = partners(trace)
    columns: dict[str, Any] = {
        "index": index,
        "cat": _symbol_ids(symbols, trace.cats, trace.cat),
        "name": _symbol_ids(symbols, trace.names, trace.name),
        "pid": trace.pid,
        "tid": trace.tid,
        "ts": (trace.ts - zero_ns) / 1000.0,
        "dur": trace.dur / 1000.0,
    }
    ours = _arguments(trace)
    for spec in args:
        make = ours.get(spec.name)
        columns[spec.name] = _constant(spec.default_value, len(trace)) if make is None else make()
    columns["index_correlation"] = np.where(partner >= 0, index[partner], np.minimum(trace.correlation, 0))
    columns["iteration"] = iterations(trace, partner)
    columns["end"] = columns["ts"] + columns["dur"]
    return pd.DataFrame({name: _small(values) for name, values in columns.items()}, copy=False)


def _arguments(trace: Trace) -> dict[str, Callable[[], Any]]:
    """The columns that our trace has, by HolisticTraceAnalysis's name for them."""
    calls = trace.collectives
    waits: list[Any] = []

    def waited(part: int) -> Any:
        waits[:] = waits or awaited(trace)
        return waits[part]

    def of_calls(values: Any, absent: Any) -> Any:
        column = _constant(absent, len(trace))
        column[calls.row] = values
        return column

    return {
        "stream": lambda: trace.stream,
        "correlation": lambda: trace.correlation,
        "bytes": lambda: trace.bytes,
        "memory_bw_gbps": lambda: _copy_gbs(trace),
        "wait_on_stream": lambda: waited(0),
        "wait_on_cuda_event_record_corr_id": lambda: waited(1),
        "input_dims": lambda: _shapes(trace, 0),
        "input_type": lambda: _shapes(trace, 1),
        "external_id": lambda: trace.external_id,
        "collective_name": lambda: of_calls(calls.name, ""),
        "msg_dtype": lambda: of_calls(calls.dtype, ""),
        "in_msg_nelems": lambda: of_calls(np.maximum(calls.elements_in, 0), 0),
        "out_msg_nelems": lambda: of_calls(np.maximum(calls.elements_out, 0), 0),
        "group_size": lambda: of_calls(np.maximum(calls.group_size, 0), 0),
    }


def _symbol_ids(symbols: Any, texts: Sequence[str], ids: Ids) -> Ids:
    """`ids` of our texts as ids of the symbol table, which gets the texts that occur and no others."""
    occurring = np.flatnonzero(np.bincount(ids, minlength=len(texts))).tolist()
    symbols.add_symbols(texts[at] for at in occurring)
    table = symbols.get_sym_id_map()
    known = np.full(len(texts), -1, np.int32)
    known[occurring] = [table[texts[at]] for at in occurring]
    return known[ids]


def _constant(value: Any, rows: int) -> Array:
    return np.full(rows, value, object if isinstance(value, str) else None)


def _copy_gbs(trace: Trace) -> Floats:
    """Bytes per nanosecond of copies and fills, as Kineto writes it; 0 elsewhere."""
    copies = trace.rows_of(*_COPIES) & (trace.bytes >= 0) & (trace.dur > 0)
    return np.where(copies, trace.bytes / np.maximum(trace.dur, 1), 0.0)


def _shapes(trace: Trace, part: int) -> Array:
    """The recorded arguments of the operators; each row is the list of its operator."""
    values = np.empty(len(trace.shapes) + 1, object)
    values[:-1] = [listed(shape[part]) if shape[part] else _NO_SHAPE for shape in trace.shapes] or None
    values[-1] = _NO_SHAPE  # what ABSENT, -1, points to
    return values[trace.shape]


def _small(values: Array) -> Array:
    """Integers in 32 bits if they fit, for half the memory; narrower ones would overflow in its sums."""
    if values.dtype.kind != "i":
        return values
    limits = np.iinfo(np.int32)
    fits = not len(values) or (limits.min <= int(values.min()) and int(values.max()) <= limits.max)
    return values.astype(np.int32 if fits else np.int64)


# Columns that HolisticTraceAnalysis derives row by row, derived here from whole columns.

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
_ON_DEVICE_WITHOUT_STREAM = ("Event Sync", "Context Sync")
NOT_LINKED = -1


def partners(trace: Trace) -> Ints:
    """For each row, the row of its launch or of the activity it launched; NOT_LINKED without one; shape (rows,).

    Launch and activity share their correlation; of several the last in the file counts.
    """
    synchronises = trace.named(lambda name: name in _ON_DEVICE_WITHOUT_STREAM)
    on_device = ((trace.stream >= 0) & (trace.correlation >= 0)) | synchronises
    partner = np.full(len(trace), NOT_LINKED, np.int64)
    correlated = trace.correlation != -1
    device, host = np.flatnonzero(on_device & correlated), np.flatnonzero(~on_device & correlated)
    partner[host] = _last_with(trace.correlation[host], trace.correlation[device], device)
    partner[device] = _last_with(trace.correlation[device], trace.correlation[host], host)
    return partner


def _last_with(wanted: Ints, keys: Ints, rows: Ints) -> Ints:
    """The last of the `rows` with each wanted key; NOT_LINKED without one."""
    if not len(keys):
        return np.full(len(wanted), NOT_LINKED, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], wanted, side="right") - 1
    last = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (keys[last] == wanted), rows[last], NOT_LINKED)


def iterations(trace: Trace, partner: Ints) -> Ints:
    """The number of the profiler step that each row belongs to, -1 outside of them; shape (rows,).

    Host rows belong to the step in which they begin, activities to that of their launch.
    """
    steps = _steps_at(trace)
    on_device = (trace.stream >= 0) & (trace.correlation >= 0)
    linked = partner[on_device]
    steps[on_device] = np.where(linked == NOT_LINKED, -1, steps[linked])
    return steps


def _steps_at(trace: Trace) -> Ints:
    """The step in which each row begins; if several are open, on host or device, the last in the file."""
    steps = np.full(len(trace), -1, np.int64)
    numbers = {at: int(match[1]) for at, name in enumerate(trace.names) if (match := _STEP.match(name))}
    rows = np.flatnonzero(np.isin(trace.name, list(numbers)))
    order = np.argsort(trace.ts, kind="stable")
    begins = trace.ts[order]
    for row in rows:
        begin, end = np.searchsorted(begins, (trace.ts[row], trace.ts[row] + trace.dur[row]))
        steps[order[begin:end]] = numbers[int(trace.name[row])]
    return steps
