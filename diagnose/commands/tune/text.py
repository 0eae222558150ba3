"""The table of trials of `diagnose tune` on a terminal: a row as soon as a run is judged, and the end."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.tune.answer import Rung, Tuning
from diagnose.commands.tune.views import (
    SHOWN,
    achieved,
    cells,
    differing,
    head,
    is_not_shown,
    known_columns,
    left_line,
    outcome,
    predicted,
    to_do,
)
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain

_WIDTHS = {"gpus": 4, "micro_batch": 5, "seq_len": 5, "model_precision": 7, "mixed_precision": 6, "liger": 5}
_WIDTH = 9
_BY_WORTH = ("step_ms", "tokens_per_s_per_gpu", "micro_batch", "memory_gb", "samples_per_s", "mixed_precision")
_LEAST_CHANGE, _MOST_CHANGE = 24, 44
_REST = 43  # cells of a row without its change and its figures
_STYLES = {"kept": "bold green", "rolled back": "dim", "refused": "dim"}


class TrialsPage:
    """Prints rows below headings that the first run decides."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._columns: tuple[str, ...] | None = None
        self._change = _MOST_CHANGE
        self._earlier: list[Rung] = []

    def add(self, rung: Rung) -> None:
        """Print the row of a run; the heads before the first."""
        if self._columns is None:
            self._columns = self._fitting(known_columns(rung.measured))
            taken = sum(_width(name) for name in self._columns)
            self._change = min(max(self._console.width - _REST - taken, _LEAST_CHANGE), _MOST_CHANGE)
            heads = [SHOWN[name] for name in self._columns]
            self._print("run", "change", heads, ("predicted", "measured", "outcome"), "bold")
        ends = predicted(rung.predicted), achieved(rung.achieved), outcome(rung)
        style = _STYLES.get(rung.decision, "")
        self._print(str(rung.number), differing(rung, self._earlier), cells(rung, self._columns), ends, style)
        if rung.outcome != "ok" or rung.decision == "refused" or is_not_shown(rung):
            self._console.print(Text(f"     {plain(rung.because)}", "dim"), soft_wrap=True)
        self._earlier.append(rung)

    def _fitting(self, known: tuple[str, ...]) -> tuple[str, ...]:
        """The most informative of the known columns, as many as fit."""
        room, kept = self._console.width - _REST - _LEAST_CHANGE, set()
        for name in sorted(known, key=lambda name: _BY_WORTH.index(name) if name in _BY_WORTH else len(_BY_WORTH)):
            if _width(name) <= room:
                kept.add(name)
                room -= _width(name)
        return tuple(name for name in known if name in kept)

    def _print(self, number: str, change: str, cells: list[str], ends: tuple[str, str, str], style: str) -> None:
        middle = "".join(f"{cell:>{_width(name)}}" for name, cell in zip(self._columns or (), cells, strict=True))
        line = (
            f"{number:>3}  {_cut(change, self._change):<{self._change}}{middle} {ends[0]:>12} {ends[1]:>8}  {ends[2]}"
        )
        self._console.print(Text(line, style), soft_wrap=True)


def render_end(tuning: Tuning, folder: str, console: Console) -> None:
    """Print the result of the tune: the speed, the patch, and the changes left to the user."""
    page = Page(console)
    page.gap()
    print_head(console, head(tuning), "bold green" if tuning.patch else "bold yellow")
    for i, left in enumerate(tuning.left):
        if i:
            page.paragraph(left_line(left), label="left")
        if do := to_do(left):
            page.paragraph(Text(do, "dim"), label="" if i else "to do")
    page.paragraph(Text(folder, "dim"), label="kept in")


def _width(column: str) -> int:
    return _WIDTHS.get(column, _WIDTH) + 1


def _cut(change: str, most: int) -> str:
    if len(change) <= most:
        return change
    at = change.rfind(", ", 0, most - 4)
    return change[: at if at > 0 else most - 3] + "..."
