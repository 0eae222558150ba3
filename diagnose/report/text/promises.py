"""The terminal report of `diagnose ledger`: a line for each rule, and what stands behind it."""

from rich.console import Console
from rich.text import Text

from diagnose.diagnosis.track_record import TrackRecord
from diagnose.facts import spoken
from diagnose.patch.promises.tally import LedgerReport
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

_HEAD = ("rule", "promises", "in the range", "achieved / predicted", "newest")
_EMPTY = (
    "No promise has been put to the test on this machine. `diagnose run --json d.json -- train.py` predicts what a "
    "change gains, and `diagnose run --apply d.json -- train.py` measures it: that is one entry."
)
_LEGEND = (
    "achieved / predicted: median of the achieved speedup over the middle of the predicted range; 1 is as predicted"
)


def render(report: LedgerReport, place: str, console: Console) -> None:
    """Print `report`.

    Args:
        report: what is kept.
        place: the file that holds it, as it is printed.
        console: where it goes.
    """
    page = Page(console)
    if report.all_rules is None:
        page.paragraph(_EMPTY, label="ledger:")
    else:
        _table(page, [*report.rules, report.all_rules])
        page.gap()
        page.paragraph(Text(_LEGEND, "dim"))
    lost = counted(report.unreadable_lines, "line") if report.unreadable_lines else ""
    page.paragraph(plain(place) + (f" ({lost} cannot be read)" if lost else ""), label="kept in:")
    page.paragraph(plain(f"off: {report.off_because}" if report.off_because else "on"), label="appending:")


def _table(page: Page, records: list[TrackRecord]) -> None:
    rows = [_HEAD, *map(_cells, records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    widths[0] = min(widths[0], page.width - sum(widths[1:]) - 2 * len(widths))
    for number, row in enumerate(rows):
        first, *rest = zip(row, widths, strict=True)
        cells = [page.fitted(*first), *(text.rjust(width) for text, width in rest)]
        page.line(Text("  ".join(cells), "bold" if number == 0 else ""))


def _cells(record: TrackRecord) -> tuple[str, ...]:
    share = spoken(record.inside / record.promises, "share")
    return (
        plain(record.rule or "all rules"),
        str(record.promises),
        f"{record.inside} ({share})",
        f"{record.achieved_of_predicted:.2f}",
        record.newest,
    )
