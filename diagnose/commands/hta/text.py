"""The critical path as printed: what it consists of, and its longest operators and kernels."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from diagnose.facts import duration, spoken
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain

if TYPE_CHECKING:
    from diagnose.commands.hta.critical_path import CriticalPath, PathPart

_CATEGORIES = {
    "cpu_bound": "host",
    "data_loading": "data loading",
    "gpu_compute_bound": "kernels and copies",
    "gpu_communication_bound": "collectives",
    "gpu_kernel_kernel_overhead": "gap after a kernel",
    "gpu_kernel_launch_overhead": "launch latency",
}
_CATEGORY_CELLS = max(map(len, _CATEGORIES.values()))
_LONGEST_SHOWN = 8
_INACCURATE = "the trace does not record what synchronisations wait for, so the path may miss dependencies"


def render_critical_path(path: "CriticalPath", console: Console) -> None:
    """Print the path of one step; every percentage is of the path."""
    page = Page(console)
    page.gap()
    step = f"{plain(path.step)} of rank {path.rank}"
    page.paragraph(
        f"{duration(path.ns)} in {step}, which takes {duration(path.step_ns)} on the host", label="critical:"
    )
    page.paragraph(Text("the longest chain of dependent work, by HolisticTraceAnalysis; % of the path", "dim"))
    for part in path.categories:
        page.line(_row(page, part, path.ns, ""))
    page.paragraph("operators and kernels by name", label="longest:")
    for part in path.names[:_LONGEST_SHOWN]:
        page.line(_row(page, part, path.ns, f"{part.count:>6,} x  {plain(part.name)}"))
    if not path.has_synchronisations:
        page.paragraph(Text(_INACCURATE, "yellow"), label="note:")


def render_no_critical_path(distortion: float, console: Console) -> None:
    """Print why there is no path: that of a step which the profiler makes so many times as long is not the job's."""
    page = Page(console)
    page.gap()
    longer = spoken(distortion, "factor")
    page.paragraph(f"not told: the profiler makes steps {longer} as long, and their path its own", label="critical:")


def _row(page: Page, part: "PathPart", whole_ns: float, text: str) -> Text:
    category = _CATEGORIES.get(part.category, plain(part.category))
    figures = f"  {part.ns / 1e6:>9,.2f} ms  {100 * part.ns / whole_ns:>5.1f} %  {category:<{_CATEGORY_CELLS}}"
    return Text(page.fitted(figures + text, page.width))
