"""The terminal report of `diagnose ledger`: a line for each rule, and the source of the figures."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from diagnose.commands.ledger.answer import LedgerReport
from diagnose.diagnosis.track_record import TrackRecord
from diagnose.facts import spoken
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

_GAP, _LEAST_NAME, _LEAST_COLUMNS = 2, 12, 3
_DIVIDED = "achieved / predicted"
_HEAD = ("rule", "predictions", "in the range", _DIVIDED, "newest")
_EMPTY = (
    ScreenLine("result", "no prediction has been measured on this machine yet"),
    ScreenLine("next", "diagnose run --json d.json -- train.py, then diagnose run --apply d.json -- train.py"),
)
_LEGEND = "median of the achieved speedup over the middle of the predicted range; 1 is as predicted"


def render(report: LedgerReport, place: str, console: Console) -> None:
    """Print `report`.

    Args:
        report: the track records.
        place: the file that holds it, as it is printed.
        console: where it goes.
    """
    print_head(console, _EMPTY if report.all_rules is None else [_result(report.all_rules)])
    page = Page(console)
    if report.all_rules is not None:
        shown = _table(page, [*report.rules, report.all_rules])
        page.gap()
        if _DIVIDED in shown:
            page.paragraph(Text(f"{_DIVIDED}: {_LEGEND}", "dim"))
    lost = counted(report.unreadable_lines, "line") if report.unreadable_lines else ""
    page.paragraph(plain(place) + (f" ({lost} cannot be read)" if lost else ""), label="kept in")
    page.paragraph(plain(f"off: {report.off_because}" if report.off_because else "on"), label="appending")


def _result(record: TrackRecord) -> ScreenLine:
    """How many predictions came true."""
    of = f"{record.inside} of {counted(record.promises, 'prediction')}"
    side = "more" if record.achieved_of_predicted >= 1 else "less"
    middle = f"the median gain is {record.achieved_of_predicted:.2f}x the middle of the range, {side} than predicted"
    return ScreenLine("result", f"{of} came true: the measured gain lies in the predicted range; {middle}")


def _table(page: Page, records: Sequence[TrackRecord]) -> tuple[str, ...]:
    """The headings of as many columns as fit; the names of rules are cut to what is left."""
    rows = [_HEAD, *map(_cells, records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    while len(widths) > _LEAST_COLUMNS and sum(widths[1:]) + _GAP * (len(widths) - 1) + _LEAST_NAME > page.width:
        widths.pop()
    named = min(widths[0], page.width - sum(widths[1:]) - _GAP * (len(widths) - 1))
    for number, (name, *figures) in enumerate(rows):
        cells = [
            page.fitted(name, named),
            *(text.rjust(width) for text, width in zip(figures, widths[1:], strict=False)),
        ]
        page.line(Text((" " * _GAP).join(cells), "bold" if number == 0 else ""))
    return _HEAD[: len(widths)]


def _cells(record: TrackRecord) -> tuple[str, ...]:
    share = spoken(record.inside / record.promises, "share")
    return (
        plain(record.rule or "all rules"),
        str(record.promises),
        f"{record.inside} ({share})",
        f"{record.achieved_of_predicted:.2f}",
        record.newest,
    )
