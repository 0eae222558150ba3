"""The ranks side by side: each cause's share of the rank's own step."""

from collections import defaultdict
from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis, RankReport
from diagnose.report.views.heat import worst_first

CAUSES_SHOWN = 9
RANKS_SHOWN = 64
VISIBLE = 0.005
_LEVELS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)


@dataclass(frozen=True)
class Cell:
    """A share with the step of the colour scale that it falls in, 0 to 7."""

    share: float
    level: int


@dataclass(frozen=True)
class HeatSectionRow:
    """One rank."""

    rank: RankReport
    late: bool
    cells: list[Cell]
    rest: Cell


@dataclass(frozen=True)
class HeatSection:
    """`causes` are (cause, class), those with most time first; `rest` is what the other causes hold together."""

    causes: list[tuple[str, str]]
    rows: list[HeatSectionRow]
    hidden: int
    devices: list[str]


def heat_view(diagnosis: Diagnosis) -> HeatSection | None:
    """The table; None for a single rank."""
    if len(diagnosis.ranks) < 2:
        return None
    causes = _causes(diagnosis)
    late = {straggler.rank for straggler in diagnosis.stragglers}
    shown = sorted(worst_first(diagnosis)[:RANKS_SHOWN], key=lambda rank: rank.rank)
    return HeatSection(
        causes=causes,
        rows=[_row(rank, [cause for cause, _ in causes], rank.rank in late) for rank in shown],
        hidden=len(diagnosis.ranks) - len(shown),
        devices=sorted({rank.device for rank in diagnosis.ranks}),
    )


def _causes(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """The causes that hold most on any rank."""
    most: dict[tuple[str, str], float] = defaultdict(float)
    for rank in diagnosis.ranks:
        for entry in rank.ledger:
            most[entry.cause, entry.class_] = max(most[entry.cause, entry.class_], entry.share)
    ordered = sorted((key for key, share in most.items() if share >= VISIBLE), key=lambda key: -most[key])
    return ordered[:CAUSES_SHOWN]


def _row(rank: RankReport, causes: list[str], late: bool) -> HeatSectionRow:
    shares = {entry.cause: entry.share for entry in rank.ledger}
    rest = sum(share for cause, share in shares.items() if cause not in causes)
    return HeatSectionRow(rank, late, [_cell(shares.get(cause, 0.0)) for cause in causes], _cell(rest))


def _cell(share: float) -> Cell:
    return Cell(share, sum(share >= level for level in _LEVELS))
