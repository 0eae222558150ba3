"""The ranks of a job: who is waited for and what that costs, a heat map of the causes, the collectives, the hosts."""

from collections.abc import Sequence

from rich.text import Text

from diagnose.diagnosis import Diagnosis, RankReport
from diagnose.facts import duration, scaled, spoken
from diagnose.postmortem import Postmortem, Straggler, Traffic
from diagnose.report.heat import Heat, HeatRow, by_host, heat_of, worst_first
from diagnose.report.ledger import STYLE, Basis, basis
from diagnose.report.page import Page, plain, widest
from diagnose.report.words import LATENESS, counted, spans, speedup

RANKS_SHOWN = 12
CAUSES_SHOWN = 8
TRAFFIC_SHOWN = 3
HOSTS_SHOWN = 8
_CELL = 5
_CLASSES = ("data", "host", "communication", "memory", "compute", "unexplained")
_SHORT = {"communication": "comm", "memory": "mem", "compute": "comp", "unexplained": "rest", "undecided": "?"}
_HOT, _WARM = 0.20, 0.05


def print_job_verdict(page: Page, diagnosis: Diagnosis) -> None:
    """The job in lines: the ranks that are late, why, what that costs, and what of the job is missing."""
    of = basis(diagnosis)
    for i, straggler in enumerate(diagnosis.stragglers):
        page.paragraph(told(straggler, diagnosis, of), label="" if i else "straggler:")
    found, missing = diagnosis.postmortem, diagnosis.trace.missing_ranks
    if found is None:
        return
    if missing:
        of_all = len(missing) + len(diagnosis.ranks)
        text = f"no trace of rank {spans(missing)} of {of_all:,}; who is late may be among them"
        page.paragraph(Text(text, "yellow"), label="missing:", most=2)
    for i, mismatch in enumerate(found.mismatches):
        page.paragraph(Text(plain(mismatch.says), "yellow"), label="" if i else "mismatch:", most=2)


def told(straggler: Straggler, diagnosis: Diagnosis, of: Basis) -> str:
    """Why a rank is late, what each other rank waits for it, and what that rests on."""
    others = [rank for rank in diagnosis.ranks if rank.rank != straggler.rank]
    each = straggler.waiting_ns_caused / max(sum(rank.steps for rank in others), 1)
    share = spoken(waited_share(straggler, diagnosis), "share")
    where = f" on {plain(straggler.host)}" if straggler.host else ""
    late = f"rank {straggler.rank}{where} is late {LATENESS[straggler.cause]}"
    waits = f"each other rank waits {duration(each)} per step for it ({share} of the {of.name.removeprefix('device ')})"
    return "; ".join([late, waits, *(plain(more) for more in (straggler.because, straggler.first_diverging) if more)])


def waited_share(straggler: Straggler, diagnosis: Diagnosis) -> float:
    """Share of the other ranks' steps that they wait for this one."""
    others = [rank for rank in diagnosis.ranks if rank.rank != straggler.rank]
    return straggler.waiting_ns_caused / max(sum(entry.ns for rank in others for entry in rank.ledger), 1)


def print_job(page: Page, diagnosis: Diagnosis, details: bool = False) -> None:
    """The heat map of the ranks, the hosts, the collectives and what changes would buy; nothing for a single rank."""
    if len(diagnosis.ranks) < 2:
        return
    _heat(page, diagnosis, details)
    _hosts(page, diagnosis, details)
    if diagnosis.postmortem is not None:
        _traffic(page, diagnosis.postmortem, details)
        _changes(page, diagnosis.postmortem)
        if details:
            _clocks(page, diagnosis.postmortem)
    page.gap()


def _heat(page: Page, diagnosis: Diagnosis, details: bool) -> None:
    ordered = worst_first(diagnosis)
    name_width = min(max(page.width - 2 - _CELL * min(len(ordered), RANKS_SHOWN) - 1, 30), 46)
    fit = max((page.width - 3 - name_width) // _CELL, 1)
    devices = {plain(rank.device) for rank in ordered}
    same = f"; all on {min(devices)}" if len(devices) == 1 else ""
    shown = ordered if details else ordered[: min(RANKS_SHOWN, fit)]
    page.paragraph(f"each cause in % of the rank's own step{same}", label="ranks:", most=2)
    for at in range(0, len(shown), fit):
        _heat_block(page, heat_of(shown[at : at + fit], 0 if details else CAUSES_SHOWN), name_width)
    if len(shown) < len(ordered):
        page.line(Text(f"  +{counted(len(ordered) - len(shown), 'rank')} that lose less: --details, --rank N", "dim"))


def _heat_block(page: Page, heat: Heat, name_width: int) -> None:
    heads = "".join(f"{rank.rank:>{_CELL}}" for rank in heat.ranks)
    page.line(Text.assemble("  ", page.fitted("rank", name_width), " ", heads, style="dim"))
    for row in heat.rows:
        cells = [_cell(row, share) for share in row.shares]
        page.line(Text.assemble("  ", page.fitted(row.name, name_width), " ", *cells))
    verdicts = [_SHORT.get(name, name) for r in heat.ranks for name in [r.verdict.class_.removesuffix("-bound")]]
    page.line(Text.assemble("  ", page.fitted("bound by", name_width), " ", "".join(f"{v:>{_CELL}}" for v in verdicts)))


def _cell(row: HeatRow, share: float) -> Text:
    colour = STYLE[row.class_]
    style = f"reverse {colour}" if share >= _HOT else colour if share >= _WARM else "dim"
    number = f"{100 * share:.0f}"
    return Text.assemble(" " * (_CELL - len(number) - 1), (f" {number}", style))


def _hosts(page: Page, diagnosis: Diagnosis, details: bool) -> None:
    """Each host's ranks together, those that wait least for others first: the late host waits for nobody."""
    hosts = by_host(diagnosis.ranks)
    if len(hosts) < 2:
        return
    page.paragraph("mean over its ranks, in % of their step; the host that waits least first", label="hosts:")
    ordered = sorted(hosts.items(), key=lambda item: _waiting(item[1]))
    name_width = widest([plain(name) for name in hosts], 24)
    heads = "".join(f"{_SHORT.get(name, name):>{_CELL}}" for name in (*_CLASSES, "wait"))
    page.line(Text(f"  {page.fitted('host', name_width)} {'ranks':>5} {heads}", "dim"))
    for name, ranks in ordered if details else ordered[:HOSTS_SHOWN]:
        shares = [_mean(ranks, class_) for class_ in _CLASSES] + [_waiting(ranks)]
        cells = "".join(f"{100 * share:{_CELL}.0f}" for share in shares)
        page.line(Text(f"  {page.fitted(plain(name), name_width)} {len(ranks):>5} {cells}"))
    if len(ordered) > HOSTS_SHOWN and not details:
        page.line(Text(f"  +{counted(len(ordered) - HOSTS_SHOWN, 'host')}: --details", "dim"))


def _mean(ranks: Sequence[RankReport], class_: str) -> float:
    return sum(entry.share for rank in ranks for entry in rank.ledger if entry.class_ == class_) / len(ranks)


def _waiting(ranks: Sequence[RankReport]) -> float:
    late = [entry.share for rank in ranks for entry in rank.ledger if entry.cause.startswith("late-rank-")]
    return sum(late) / len(ranks)


def _traffic(page: Page, found: Postmortem, details: bool) -> None:
    shown = found.traffic if details else found.traffic[:TRAFFIC_SHOWN]
    hidden = len(found.traffic) - len(shown)
    if shown:
        page.entries("traffic:", [Text(_message(own)) for own in shown], hidden)


def _message(own: Traffic) -> str:
    size = "" if own.bytes is None else f" of {spoken(own.bytes, 'bytes')}"
    text = f"{own.count_per_step:,.3g} {plain(own.kind)}{size} per step over {counted(own.ranks, 'rank')}: "
    text += f"transfer {duration(own.transfer_ns)}, waiting {duration(own.waiting_ns)} (median)"
    if own.busbw_gbs is not None:
        text += f", busbw {scaled(1e9 * own.busbw_gbs, 1000, ('B/s', 'kB/s', 'MB/s', 'GB/s'))}"
    if own.busbw_gbs is not None and own.expected_busbw_gbs is not None:
        text += f" of {own.expected_busbw_gbs:,.0f} GB/s expected at this size"
    text += f"; {spoken(own.exposed_share, 'share')} of the step exposed"
    return f"{text}; {plain(own.note)}" if own.note else text


def _changes(page: Page, found: Postmortem) -> None:
    texts = [Text(f"{speedup(change.speedup)}   {plain(change.says)}") for change in found.changes]
    for i, text in enumerate(texts):
        page.paragraph(text, label="" if i else "whole job:", most=2)


def _clocks(page: Page, found: Postmortem) -> None:
    known = [clock for clock in found.clocks if clock.offset_ns is not None and clock.residual_ns is not None]
    if not known:
        return
    apart = max(abs(clock.offset_ns or 0) for clock in known)
    residual = max(clock.residual_ns or 0 for clock in known)
    alike = "alike" if found.clocks_agree else "otherwise"
    agree = "" if found.clocks_agree is None else f", and by start times {alike}"
    text = f"{counted(len(known), 'rank')} aligned: up to {duration(apart)} apart, residual {duration(residual)}"
    text += f"; waiting is told by durations, which needs no clock{agree}"
    page.paragraph(Text(text, "dim"), label="clocks:")
