"""The cells of a row other than step and time: the run that it belongs to, and other events."""

from collections.abc import Sequence
from typing import Any

from diagnose.decoding import encodable
from diagnose.series.columns import event_columns, label_columns
from diagnose.series.log_events import event, kind_of
from diagnose.series.tracks import LogEvent

SEPARATOR = "\n"  # between the cells of a name
_LARGEST = 1e15


class RunLabels:
    """The (job, run) of each row, by their place among those that came before."""

    def __init__(self, names: Sequence[str]) -> None:
        self.job, self.run = label_columns(names)
        self.places = self.run + self.job
        self.known: dict[tuple[str, str], int] = {}

    def of(self, row: Sequence[Any]) -> int:
        """The place of the row's (job, run)."""
        job, run = (SEPARATOR.join(_cell(row, at) for at in places) for places in (self.job, self.run))
        return self.known.setdefault((job, run), len(self.known))


class RowEvents:
    """Events in the cells of a row: an evaluation, another epoch, words."""

    def __init__(self, names: Sequence[str]) -> None:
        self.places = event_columns(names)
        self.timed = {at for at in self.places if "runtime" in names[at].lower()}
        self.epoch: float | None = None

    def take(self, row: Sequence[Any], count: int, events: list[LogEvent]) -> None:
        """Add the row's events to `events`; `count` rows came before."""
        for at, kind in self.places.items():
            cell = _cell(row, at)
            if not cell or cell.lower() in ("nan", "none", "null"):
                continue
            if kind == "epoch":
                epoch = _whole(cell)
                if epoch is not None and self.epoch is not None and epoch > self.epoch:
                    events.append(event("epoch", f"epoch {epoch:.0f} begins", count))
                self.epoch = self.epoch if epoch is None else epoch
            elif found := kind or kind_of(cell):
                events.append(event(found, self._words(at, cell) if kind else cell, count))

    def _words(self, at: int, cell: str) -> str:
        return f"evaluated for {cell} s" if at in self.timed else "evaluated"


def _cell(row: Sequence[Any], at: int) -> str:
    value = row[at] if at < len(row) else None
    return "" if value is None else encodable(str(value)[:200]).strip()


def _whole(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return float(int(value)) if abs(value) < _LARGEST else None
