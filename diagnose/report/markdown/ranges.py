"""The named ranges in Markdown."""

from diagnose.report.markdown.draft import Draft, blocks
from diagnose.report.views.breakdown import basis
from diagnose.report.views.ranges import OF, idle_line, ranges_view

_HEADS = ("range", "opened by", "count", "time", "share", "GPU work", "idle")


def ranges_table(draft: Draft) -> str:
    """A sentence on the ranges in which the device idles, and a table of the ranges with most time."""
    rows, to = ranges_view(draft.diagnosis), draft.to
    if not rows:
        return ""
    of = f"Per step; shares are of {OF}, of idle time of the {basis(draft.diagnosis).name}."
    cells = [(to.code(v.name), v.row.by, v.count, v.time, v.share, v.gpu, v.idle) for v in rows]
    says = idle_line(draft.diagnosis)
    return blocks([to.text(f"{says[:1].upper()}{says[1:]}.") if says else "", to.text(of), to.table(_HEADS, cells)])
