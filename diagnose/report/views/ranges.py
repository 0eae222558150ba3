"""Views of the named ranges of the code, for every report."""

import msgspec

from diagnose.diagnosis import Diagnosis, RangeRow
from diagnose.facts import duration, spoken
from diagnose.report.views.breakdown import basis
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted, times

OF = "the host's step"
_WORTH_A_LINE = 0.05  # of the step
_MOST_OF = 0.9  # an inner range with this share of the outer one's idle time is more specific


class RangeView(msgspec.Struct, frozen=True):
    """One row as shown; `row` keeps the numbers that columns are sorted by. `gpu` and `idle` are "" without a GPU."""

    row: RangeRow
    name: str
    count: str
    time: str
    share: str
    gpu: str
    idle: str


def ranges_view(diagnosis: Diagnosis) -> list[RangeView] | None:
    """Every row of the diagnosis, in its order; None without ranges."""
    return [_view(row) for row in diagnosis.ranges] or None


def _view(row: RangeRow) -> RangeView:
    return RangeView(
        row=row,
        name=plain(row.name) or counted(row.names, "other name"),
        count=times(row.count),
        time=duration(row.ns),
        share=spoken(row.share, "share"),
        gpu="" if row.gpu_ns is None else duration(row.gpu_ns),
        idle="" if row.idle_share is None else spoken(row.idle_share, "share"),
    )


def idle_line(diagnosis: Diagnosis) -> str:
    """The job's own range in which the host is while the device idles longest, the innermost of several; else ""."""
    own = [row for row in diagnosis.ranges if row.by == "code" and row.name and row.idle_share is not None]
    most = max((row.idle_share or 0.0 for row in own), default=0.0)
    if most < _WORTH_A_LINE:
        return ""
    inner = min((row for row in own if (row.idle_share or 0.0) >= _MOST_OF * most), key=lambda row: row.ns)
    idle = spoken(inner.idle_share or 0.0, "share")
    return f"for {idle} of the {basis(diagnosis).name} the device idles while the host is in {plain(inner.name)}"
