"""The critical path of one step of one rank, found by HolisticTraceAnalysis from our frames."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from diagnose.commands.hta.build import LoadedAnalysis, analysis_of, quiet
from diagnose.commands.hta.waits import CATEGORY
from diagnose.errors import UserError
from diagnose.timeline.steps import host_steps
from diagnose.trace import Trace
from diagnose.trace.vocabulary import STEP_MARKS

_FIRST_IS_LEFT_OUT_FROM = 3


@dataclass(frozen=True)
class PathPart:
    """The part of the path with one name: an operator, a kernel, or all of one category.

    `ns` is its time on the path, `count` the number of pieces; `category` is HolisticTraceAnalysis's `bound_by`.
    """

    name: str
    category: str
    ns: int
    count: int


@dataclass(frozen=True)
class CriticalPath:
    """The longest chain of dependent work in one step.

    Attributes:
        rank: the one whose step it is.
        step: the name of the step's mark.
        step_ns: how long the step took on the host.
        ns: length of the path; it may end after the host's step, with the last kernel launched in it.
        categories: its parts by category, longest first.
        names: its operators and kernels by name, longest first.
        has_synchronisations: whether the trace records the targets of synchronisations.
    """

    rank: int
    step: str
    step_ns: int
    ns: int
    categories: tuple[PathPart, ...]
    names: tuple[PathPart, ...]
    has_synchronisations: bool


def critical_path(rank: int, trace: Trace) -> CriticalPath:
    """The critical path of the rank's typical step: that of median duration, the first of three or more left out.

    Raises:
        UserError: the trace has no GPU activity or no marked step, or HolisticTraceAnalysis finds no path.
    """
    row = typical_step(trace)
    if not ((trace.stream >= 0) & (trace.correlation >= 0)).any():
        raise UserError("no critical path", where=trace.path, why="the trace holds no GPU activity")
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # HolisticTraceAnalysis's own
        analysis = analysis_of({rank: trace}, include_last_profiler_step=True)
        edges = _edges(analysis, rank, trace.names[trace.name[row]], trace.path)
    return CriticalPath(
        rank=rank,
        step=trace.names[trace.name[row]],
        step_ns=int(trace.dur[row]),
        ns=sum(ns for _, _, ns in edges),
        categories=_summed((category, category, ns) for _, category, ns in edges),
        names=_summed(edge for edge in edges if edge[0]),
        has_synchronisations=bool(trace.rows_of(CATEGORY).any()),
    )


def typical_step(trace: Trace) -> int:
    """The row of the marked step of median duration; of two in the middle the shorter one.

    Raises:
        UserError: no step is marked in a way that HolisticTraceAnalysis understands.
    """
    marks = host_steps(trace)
    if marks.source not in STEP_MARKS:
        do = "call the profiler's step() after each training step, or record with `diagnose run`"
        raise UserError("no critical path", where=trace.path, why="the trace marks no steps", do=do)
    counted = marks.host[1:] if len(marks.host) >= _FIRST_IS_LEFT_OUT_FROM else marks.host
    durations = counted[:, 1] - counted[:, 0]
    begin, end = counted[np.argsort(durations, kind="stable")[(len(durations) - 1) // 2]]
    named = trace.named(lambda name: name.startswith(marks.source))
    return int(np.flatnonzero(named & (trace.stream < 0) & (trace.ts == begin) & (trace.ts + trace.dur == end))[0])


def _edges(analysis: LoadedAnalysis, rank: int, step: str, path: str) -> list[tuple[str, str, int]]:
    """Name, category and nanoseconds of each piece of the path."""
    try:
        graph = analysis.critical_path_analysis(rank, step, _instance(analysis, rank, step))
        if graph is None or not graph[1]:
            raise ValueError("it reports no success")
        edges = graph[0].get_critical_path_breakdown()
    except UserError:
        raise
    except Exception as error:  # whatever an analysis raises on a trace that it does not expect
        why = f"HolisticTraceAnalysis fails on {step}: {type(error).__name__}: {error}"
        raise UserError("no critical path", where=path, why=why) from error
    names = edges["s_name"].fillna("")
    ns = (edges["duration"] * 1000).round().astype(int).tolist()
    return [piece for piece in zip(names, edges["bound_by"], ns, strict=True) if piece[2] > 0]


def _instance(analysis: LoadedAnalysis, rank: int, step: str) -> int:
    """Index of the step on the host among the annotations that contain the name."""
    frame, ids = analysis.t.get_trace(rank), analysis.t.symbol_table.get_sym_id_map()
    containing = frame[frame["name"].isin([number for name, number in ids.items() if step in name])]
    wanted = (containing["name"] == ids[step]) & (containing["stream"] < 0)
    return int(np.flatnonzero(wanted)[0])


def _summed(edges: Iterable[tuple[str, str, int]]) -> tuple[PathPart, ...]:
    """One part for each name and category, longest first."""
    durations: dict[tuple[str, str], list[int]] = {}
    for name, category, ns in edges:
        durations.setdefault((name, category), []).append(ns)
    parts = [PathPart(*key, ns=sum(each), count=len(each)) for key, each in durations.items()]
    return tuple(sorted(parts, key=lambda part: (-part.ns, part.name)))
