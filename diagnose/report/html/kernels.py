"""The kernel table: short names to read, full names to search."""

from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis, KernelRow
from diagnose.facts import duration
from diagnose.report.views.plain import plain
from diagnose.report.views.words import cause_name, counted, short_name

FIRST_SHOWN = 20
_FAMILIES = {"comm": "collectives", "memcpy": "copies"}


@dataclass(frozen=True)
class KernelView:
    """One kernel as shown; `row` keeps the numbers that columns are sorted by, `full` is "" where `short` is all."""

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


def _view(row: KernelRow) -> KernelView:
    short = short_name(row.name) if row.name else counted(row.names, "other name")
    family = _FAMILIES.get(row.family) or (cause_name(row.family) if row.family else "")
    digits = 0 if row.count >= 100 or float(row.count).is_integer() else 1
    return KernelView(
        row=row,
        short=short,
        full=row.name if plain(row.name) != short else "",
        kind=" · ".join(filter(None, (row.class_, family if family != row.class_ else ""))),
        ns=duration(row.ns),
        mean=duration(row.mean_ns),
        count=f"{row.count:,.{digits}f}",
        above="" if row.above_roof_ns is None else duration(row.above_roof_ns),
    )
