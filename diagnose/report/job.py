"""The ranks of a job: who is waited for, and the classes of all ranks side by side."""

from collections.abc import Sequence

from rich.text import Text

from diagnose.diagnosis import Diagnosis, RankReport, Straggler
from diagnose.facts import duration, spoken
from diagnose.report.ledger import Basis, basis
from diagnose.report.page import Page, plain
from diagnose.report.words import LATENESS

RANKS_SHOWN = 8
_SHORT = {
    "data": "data",
    "host": "host",
    "communication": "comm",
    "memory": "mem",
    "compute": "comp",
    "unexplained": "rest",
}
_DEVICE_CELLS = 12


def print_job(page: Page, diagnosis: Diagnosis, details: bool = False) -> None:
    """The stragglers, then a table of the ranks, worst first; nothing for a single rank."""
    of = basis(diagnosis)
    for i, straggler in enumerate(diagnosis.stragglers):
        page.paragraph(told(straggler, diagnosis, of), label="" if i else "straggler:")
    if len(diagnosis.ranks) > 1:
        _table(page, worst_first(diagnosis), details)
    if diagnosis.stragglers or len(diagnosis.ranks) > 1:
        page.gap()


def told(straggler: Straggler, diagnosis: Diagnosis, of: Basis) -> str:
    """Why a rank is late, and what each other rank waits for it."""
    share = waited_share(straggler, diagnosis, of)
    waits = f"each other rank waits {duration(share * of.step_ns)} per step for it ({spoken(share, 'share')} of the"
    return f"rank {straggler.rank} is late {LATENESS[straggler.cause]}; {waits} {of.name.removeprefix('device ')})"


def waited_share(straggler: Straggler, diagnosis: Diagnosis, of: Basis) -> float:
    """Share of the other ranks' steps that they wait for this one."""
    others = [rank for rank in diagnosis.ranks if rank.rank != straggler.rank]
    total = sum(entry.ns for rank in others for entry in rank.ledger)
    even = of.total_ns * len(others) / max(len(diagnosis.ranks), 1)
    return straggler.waiting_ns_caused / max(total or even, 1)


def worst_first(diagnosis: Diagnosis) -> list[RankReport]:
    """The ranks that others wait for, then the ranks that lose most of their step, then by number."""
    caused = {straggler.rank: straggler.waiting_ns_caused for straggler in diagnosis.stragglers}

    def order(rank: RankReport) -> tuple[int, int, int]:
        return -caused.get(rank.rank, 0), -_lost_percent(rank), rank.rank

    return sorted(diagnosis.ranks, key=order)


def _lost_percent(rank: RankReport) -> int:
    return round(100 * sum(e.share for e in rank.ledger if e.class_ not in ("compute", "memory")))


def _table(page: Page, ranks: Sequence[RankReport], details: bool) -> None:
    devices = {plain(rank.device) for rank in ranks}
    same = f"; all on {min(devices)}" if len(devices) == 1 else ""
    page.paragraph(f"each class in % of the rank's own step{same}", label="ranks:", most=2)
    page.line(Text("  rank verdict             " + "".join(f"{name:>5}" for name in _SHORT.values()), "dim"))
    device_width = page.width - 27 - 5 * len(_SHORT) - 2 if len(devices) > 1 else 0
    shown = ranks if details else ranks[:RANKS_SHOWN]
    for rank in shown:
        shares = {key: sum(e.share for e in rank.ledger if e.class_ == key) for key in _SHORT}
        cells = "".join(f"{100 * share:5.0f}" for share in shares.values())
        device = page.fitted(plain(rank.device), device_width) if device_width >= _DEVICE_CELLS else ""
        page.line(Text.assemble(f"{rank.rank:>6} ", page.fitted(rank.verdict.class_, 20), cells, "  ", (device, "dim")))
    if len(shown) < len(ranks):
        page.line(Text(f"       +{len(ranks) - len(shown):,} more: --details", "dim"))
