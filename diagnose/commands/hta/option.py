"""`diagnose analyze --critical-path`: the critical path of one rank, by HolisticTraceAnalysis."""

from typing import TYPE_CHECKING

from diagnose.trace import Loading

if TYPE_CHECKING:
    from diagnose.commands.hta.critical_path import CriticalPath


def refuse_without_hta() -> None:
    """Refuses before any trace is read.

    Raises:
        UserError: HolisticTraceAnalysis is not installed, or not so that it finds critical paths.
    """
    from diagnose.commands.hta.installed import require, require_critical_path

    require()
    require_critical_path()


def critical_path_at(path: str, run: str | None, loading: Loading, rank: int | None) -> "CriticalPath":
    """The critical path of the rank's typical step, of the first rank by default.

    Raises:
        UserError: there is no such rank, or no critical path is found.
    """
    from diagnose.commands.hta.critical_path import critical_path
    from diagnose.commands.hta.traces import one_rank

    with one_rank(path, run, loading, rank) as (number, trace):
        return critical_path(number, trace)
