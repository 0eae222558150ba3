"""Results of torch.compile on the job's code: graph breaks, recompilations, and code that fell back to eager."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

_NOT_TOLD = Unknown("no record says what torch.compile did, nor does --torch-trace", DIAGNOSE_RUN)
_NONE = nothing_helps("no code is concerned")
_SHOWN = 3
_LONGEST = 300

Row = Mapping[str, Any]


def _compiled(m: Measured) -> Sequence[Row] | Unknown:
    """The compilations; none if it is known that nothing is compiled."""
    listed = m.record.get("compilations.compiled")
    if isinstance(listed, list):
        return [row for row in listed if row.get("file") and row.get("function")]
    return () if m.record.flag("compiled") is False else _NOT_TOLD


def _broken(rows: Sequence[Row]) -> Counter[str]:
    """Places of graph breaks after which the rest of the function is compiled separately.

    The reason for a break is in the previous compilation, of the code that leads there.
    """
    places: dict[str, str] = {}
    before: dict[tuple[object, object], Row] = {}
    for row in rows:
        function = row["file"], row["function"]
        if row.get("broken_at") is not None:
            why = ", ".join(before.get(function, {}).get("because") or ())
            places.setdefault(_place(row, row["broken_at"]), f" ({why})" if why else "")
        before[function] = row
    return Counter(place + why for place, why in places.items())


def _again(rows: Sequence[Row]) -> Counter[str]:
    again = (row for row in rows if row.get("again") is not None)
    return Counter(f"{_place(row, row.get('line'))} ({row['again']})" for row in again)


def _failed(rows: Sequence[Row]) -> Counter[str]:
    failed = (row for row in rows if row.get("failed") is not None)
    return Counter(f"{_place(row, row.get('failed_at') or row.get('line'))} ({row['failed']})" for row in failed)


def _place(row: Row, line: object) -> str:
    return f"{row['file']}:{line} in {row['function']}"


def _places(places: Counter[str]) -> Value:
    if not places:
        return Unknown("there is none", _NONE)
    listed = [f"{place}{f', {count} times' if count > 1 else ''}" for place, count in places.most_common(_SHOWN)]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ("; ".join(listed) + more)[:_LONGEST]


def _most_again(rows: Sequence[Row]) -> int:
    again = Counter(_place(row, row.get("line")) for row in rows if row.get("again") is not None)
    return max(again.values(), default=0)


def _from(m: Measured, told: Callable[[Sequence[Row]], Value]) -> Value:
    """The value that `told` computes from the compilations, if they are known; else Unknown."""
    rows = _compiled(m)
    return rows if isinstance(rows, Unknown) else told(rows)


@metric("count", needs_gpu=False)
def graph_breaks(m: Measured) -> Value:
    """Lines at which torch.compile ended a graph before the function ends: what follows is a graph of its own."""
    return _from(m, lambda rows: len(_broken(rows)))


@metric("text", needs_gpu=False)
def graph_break_lines(m: Measured) -> Value:
    """The lines of these graph breaks, and torch's reason for each."""
    return _from(m, lambda rows: _places(_broken(rows)))


@metric("count", needs_gpu=False)
def recompilations(m: Measured) -> Value:
    """Recompilations of the same code, because an assumption of it has changed: the number for the code with most."""
    return _from(m, _most_again)


@metric("share", "the time since the first compilation", needs_gpu=False)
def recompile_share(m: Measured) -> Value:
    """Compiling code again, by torch's own clock, of the time from the first compilation to the end of the window."""
    again, since = (m.record.number(f"compilations.{of}_ns") for of in ("again", "since_first"))
    if again is None or not since:
        return Unknown("no record says how long torch.compile took", DIAGNOSE_RUN)
    return min(again / since, 1.0)


@metric("count", needs_gpu=False)
def recompile_limit(m: Measured) -> Value:
    """Versions of the same code that torch compiles before it runs the code uncompiled."""
    limit = m.record.number("compilations.limit")
    return Unknown("no record says when torch gives up compiling", DIAGNOSE_RUN) if limit is None else limit


@metric("text", needs_gpu=False)
def recompiled_lines(m: Measured) -> Value:
    """The code that was recompiled, and the reason."""
    return _from(m, lambda rows: _places(_again(rows)))


@metric("count", needs_gpu=False)
def failed_compilations(m: Measured) -> Value:
    """Compilations that failed: their code runs uncompiled, without any message."""
    return _from(m, lambda rows: sum(_failed(rows).values()))


@metric("text", needs_gpu=False)
def failed_compilation_lines(m: Measured) -> Value:
    """The code that failed to compile, and the kind of the error."""
    return _from(m, lambda rows: _places(_failed(rows)))
