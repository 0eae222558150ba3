"""The memory ledger as printed."""

from rich.text import Text

from diagnose.diagnosis import Diagnosis
from diagnose.report.text.page import Extent, Page
from diagnose.report.views.capacity import capacity_view


def print_capacity(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """What the job takes of device memory by its sizes; only a part of the details."""
    view = capacity_view(diagnosis)
    if not extent.details or view is None:
        return
    page.entries("memory:", [Text(line) for line in view.lines])
    for name, size in view.parts:
        page.hanging(f"{size:>10}  {name}")
    for name, freed, largest in view.room:
        page.hanging(f"with {name}: {freed} less, micro-batch up to {largest}")
    page.gap()
