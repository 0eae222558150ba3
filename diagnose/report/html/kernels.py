"""The kernel table: short names to read, full names to search."""

from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis, KernelRow, OperatorRow
from diagnose.facts import duration
from diagnose.report.views.plain import plain
from diagnose.report.views.words import cause_name, counted, short_name, times

FIRST_SHOWN = 20
_FAMILIES = {"comm": "collectives", "memcpy": "copies"}


@dataclass(frozen=True)
class KernelView:
    """One kernel as shown; `row` keeps the numbers that columns are sorted by, `full` is "" if `short` is all."""

    row: KernelRow
    short: str
    full: str
    kind: str
    ns: str
    mean: str
    count: str
    above: str


def kernels_view(diagnosis: Diagnosis) -> list[KernelView] | None:
    """Every row of the diagnosis, in its order; None without kernels."""
    return [_view(row) for row in diagnosis.kernels] or None


@dataclass(frozen=True)
class OperatorView:
    """One operator as shown; `row` keeps the numbers that columns are sorted by."""

    row: OperatorRow
    name: str
    ns: str
    mean: str
    count: str


def host_operators_view(diagnosis: Diagnosis) -> list[OperatorView] | None:
    """The operators of a job without a GPU, in their order; None without any."""
    rows = [
        OperatorView(
            row, row.name or counted(row.names, "other name"), duration(row.ns), duration(row.mean_ns), times(row.count)
        )
        for row in diagnosis.host_operators
    ]
    return rows or None


def _view(row: KernelRow) -> KernelView:
    short = short_name(row.name) if row.name else counted(row.names, "other name")
    family = _FAMILIES.get(row.family) or (cause_name(row.family) if row.family else "")
    return KernelView(
        row=row,
        short=short,
        full=row.name if plain(row.name) != short else "",
        kind=" · ".join(filter(None, (row.class_, family if family != row.class_ else ""))),
        ns=duration(row.ns),
        mean=duration(row.mean_ns),
        count=times(row.count),
        above="" if row.above_roof_ns is None else duration(row.above_roof_ns),
    )
