"""Ranks and causes as a heat map: which rank loses its step to what."""

from collections.abc import Sequence

import msgspec

from diagnose.attribution.causes import WAITING
from diagnose.diagnosis import CauseClass, Diagnosis, RankReport
from diagnose.report.views.words import Named, cause_name

SHOWN_FROM = 0.01  # a cause below one per cent of every rank's step gets no row
_LEVELS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
HOST_CLASSES: tuple[CauseClass, ...] = ("data", "host", "communication", "memory", "compute", "unexplained")


def level(share: float) -> int:
    """The step of the colour scale that a share falls in, 0 to 7."""
    return sum(share >= least for least in _LEVELS)


class HeatSectionRow(msgspec.Struct, frozen=True):
    """A cause with its class and, for each column, its share of that rank's step."""

    name: str
    class_: CauseClass
    shares: tuple[float, ...]


class HeatSection(msgspec.Struct, frozen=True):
    """The ranks shown, and a row for each cause, largest first; each column adds up to 1."""

    ranks: tuple[RankReport, ...]
    rows: tuple[HeatSectionRow, ...]


def heat_of(ranks: Sequence[RankReport], most_rows: int = 0, named: Named = cause_name) -> HeatSection:
    """The heat map of the ranks; causes beyond `most_rows` (0: none) or too small for a row are added up."""
    shares: dict[tuple[str, CauseClass], list[float]] = {}
    for column, rank in enumerate(ranks):
        for entry in rank.ledger:
            shares.setdefault((entry.cause, entry.class_), [0.0] * len(ranks))[column] += entry.share
    rows = [HeatSectionRow(named(cause), class_, tuple(of_cause)) for (cause, class_), of_cause in shares.items()]
    rows.sort(key=lambda row: -sum(row.shares))
    large = [row for row in rows if max(row.shares) >= SHOWN_FROM]
    shown = large[:most_rows] if most_rows else large
    rest = [row for row in rows if row not in shown]
    if rest:
        summed = tuple(sum(row.shares[column] for row in rest) for column in range(len(ranks)))
        shown = [*shown, HeatSectionRow("1 other" if len(rest) == 1 else f"{len(rest)} others", "unexplained", summed)]
    return HeatSection(tuple(ranks), tuple(shown))


def worst_first(diagnosis: Diagnosis) -> list[RankReport]:
    """The ranks that others wait for, then the ranks that lose most of their step, then by number."""
    caused = {straggler.rank: straggler.waiting_ns_caused for straggler in diagnosis.stragglers}

    def order(rank: RankReport) -> tuple[int, int, int]:
        return -caused.get(rank.rank, 0), -_lost_percent(rank), rank.rank

    return sorted(diagnosis.ranks, key=order)


def _lost_percent(rank: RankReport) -> int:
    return round(100 * sum(e.share for e in rank.ledger if e.class_ not in ("compute", "memory")))


class HostRow(msgspec.Struct, frozen=True):
    """A host: means over its ranks, as shares of their steps; `shares` in the order of `HOST_CLASSES`.

    `waiting` for late ranks is in the shares too, in the class of what made those late.
    """

    name: str
    ranks: int
    shares: tuple[float, ...]
    waiting: float


def by_host(ranks: Sequence[RankReport]) -> list[HostRow]:
    """The hosts that are named, the one that waits least first: the late host waits for no other."""
    by_name: dict[str, list[RankReport]] = {}
    for rank in sorted(ranks, key=lambda r: r.rank):
        if rank.host:
            by_name.setdefault(rank.host, []).append(rank)
    return sorted((_host(name, of_host) for name, of_host in by_name.items()), key=lambda host: host.waiting)


def _host(name: str, ranks: Sequence[RankReport]) -> HostRow:
    shares: dict[str, float] = dict.fromkeys(HOST_CLASSES, 0.0)
    waiting = 0.0
    for entry in (entry for rank in ranks for entry in rank.ledger):
        shares[entry.class_] += entry.share / len(ranks)
        waiting += entry.share / len(ranks) if entry.cause in WAITING else 0.0
    return HostRow(name, len(ranks), tuple(shares.values()), waiting)
