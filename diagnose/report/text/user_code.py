"""Print the user's functions by Python time, with their share of the samples or of the recorded calls."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from diagnose.diagnosis import Diagnosis
from diagnose.report.text.columns import TextColumn, heads, line, room
from diagnose.report.text.page import Extent, Page
from diagnose.report.views.user_code import FunctionView, user_code_view
from diagnose.report.views.words import counted

SHOWN, SHOWN_IN_DETAIL = 5, 30
_COLUMNS = (
    TextColumn("own", 9),
    TextColumn("with calls", 12, least=64),
    TextColumn("doing", 13, least=50, is_word=True),
)


def print_user_code(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the user's functions, with `details` or if the host bounds the step."""
    view = user_code_view(diagnosis)
    if view is None or not (extent.details or diagnosis.verdict.class_ == "host-bound"):
        return
    if view.unknown:
        page.paragraph(f"where it is, is unknown: {view.unknown}", label="python:")
    else:
        cost = f"; {view.cost}" if view.cost else ""
        page.paragraph(f"where it is, in % of {view.of}{cost}", label="python:")
        _listed(page, view.functions, SHOWN_IN_DETAIL if extent.details else SHOWN)
    page.gap()


def _listed(page: Page, functions: Sequence[FunctionView], most: int) -> None:
    page.line(Text(line(page, _COLUMNS, "function (hottest line)", heads(_COLUMNS)), "dim"))
    for each in functions[:most]:
        cells = {"own": each.share, "with calls": each.total, "doing": each.row.doing}
        fits = cell_len(each.place) <= room(page, _COLUMNS)
        page.line(Text(line(page, _COLUMNS, each.place if fits else each.in_file, cells)))
    if len(functions) > most:
        page.line(Text(f"  +{counted(len(functions) - most, 'function')}", "dim"))
