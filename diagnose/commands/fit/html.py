"""The heat map as one self-contained page, in the style and under the policy of the report's."""

from dataclasses import dataclass
from pathlib import Path

from diagnose.commands.fit.heat_map import HeatCell, HeatMap, cell_words
from diagnose.formulas.mfu_words import mfu_scale
from diagnose.report.html.page import framed
from diagnose.report.views.summary import About
from diagnose.report.views.words import counted

_STYLES = ("report.css", "figures.css")
_TEMPLATE = Path(__file__).with_name("page.html")
_LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # of the MFU: the steps of the colour scale


@dataclass(frozen=True)
class ShownCell:
    """A cell with its colour, its figure, the class that leads the step, and all of it in words."""

    head: str
    level: int
    figure: str
    bound: str
    words: str


def heat_map_page(heat: HeatMap, about: About) -> str:
    """The whole page. Every text is escaped; nothing is predicted here."""
    sizes = zip(heat.counts, heat.nodes, strict=True)
    heads = [f"{counted(gpus, 'GPU')}, {counted(nodes, 'node')}" for gpus, nodes in sizes]
    rows = [(row, [_shown(cell, head) for cell, head in zip(row.cells, heads, strict=True)]) for row in heat.rows]
    title = f"Best MFU by model and number of {heat.gpu}"
    return framed(_TEMPLATE, about, title, _STYLES, heads=heads, rows=rows, headline=title, scale=mfu_scale())


def _shown(cell: HeatCell, head: str) -> ShownCell:
    share, bound = cell.mfu_share, cell.bound
    return ShownCell(
        head=head,
        level=0 if share is None else sum(share >= level for level in _LEVELS),
        figure="-" if share is None else f"{100 * share:.0f}",
        bound=bound or "does not run",
        words=cell_words(cell),
    )
