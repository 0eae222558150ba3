"""Loaded traces handed to HolisticTraceAnalysis: its analyses run on our columns, its parser never runs.

Needs the extra `hta`. `trace_analysis` makes the object that its users know; `critical_path` asks it for one step.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hta.trace_analysis import TraceAnalysis

    from diagnose.trace import Loading, Trace

__all__ = ["trace_analysis"]


def trace_analysis(
    source: "str | Path | Mapping[int, Trace]",
    *,
    run: str | None = None,
    include_last_profiler_step: bool = False,
    loading: "Loading | None" = None,
) -> "TraceAnalysis":
    """HolisticTraceAnalysis of the trace, or of the folder with one trace for each rank, at `source`.

    Times are microseconds with their nanoseconds, as HTA_DISABLE_NS_ROUNDING=1 makes HolisticTraceAnalysis read them.

    Args:
        source: a file, a folder, or the URL of one; or loaded traces by rank.
        run: which run, when a folder holds several.
        include_last_profiler_step: whether the last step counts too, as in the constructor of TraceAnalysis.
        loading: how the traces are loaded.

    Raises:
        UserError: HolisticTraceAnalysis cannot be used as it is installed, or a trace cannot be read.
    """
    from diagnose.commands.hta.installed import require

    require()
    from diagnose.commands.hta.build import analysis_of
    from diagnose.commands.hta.traces import all_ranks
    from diagnose.trace import Loading

    if isinstance(source, Mapping):
        return analysis_of(source, include_last_profiler_step)
    with all_ranks(source, run, loading or Loading()) as traces:
        return analysis_of(traces, include_last_profiler_step)
