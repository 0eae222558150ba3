"""The memory estimate as printed."""

from rich.text import Text

from diagnose.diagnosis import Diagnosis
from diagnose.report.text.page import Extent, Page
from diagnose.report.views.capacity import CapacityTable, capacity_view


def print_capacity(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the job's need of device memory by its sizes, as a part of the details."""
    view = capacity_view(diagnosis)
    if not extent.details or view is None:
        return
    page.entries("memory:", [Text(line) for line in view.lines])
    for table in view.tables:
        page.gap()
        page.hanging(f"{table.caption}:")
        for row in table.rows:
            page.hanging(_line(table, row))
    page.gap()


def _line(table: CapacityTable, row: tuple[str, ...]) -> str:
    """A part with its size; else what the row is about, and each amount with its head."""
    name, *amounts = row
    if len(amounts) == 1:
        return f"{amounts[0]:>10}  {name}"
    told = (f"{head}: {amount}" for head, amount in zip(table.heads[1:], amounts, strict=True))
    return f"{name} - {'; '.join(told)}"
