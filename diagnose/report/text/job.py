"""The ranks of a job: who is waited for and what that costs, a heat map of the causes, the collectives, the hosts."""

from rich.text import Text

from diagnose.diagnosis import Diagnosis, bounding
from diagnose.diagnosis.postmortem import Postmortem, Traffic
from diagnose.facts import duration, spoken
from diagnose.report.text.breakdown import STYLE
from diagnose.report.text.page import Extent, Page, widest
from diagnose.report.views.heat import HOST_CLASSES, HeatSection, HeatSectionRow, by_host, heat_of, worst_first
from diagnose.report.views.job_words import (
    beyond,
    change_gain,
    change_line,
    clocks_line,
    exposed_parts,
    late_stage_lines,
    missing_line,
    passing_line,
    rate,
    replay_line,
    slow_link_line,
    suspected_line,
)
from diagnose.report.views.plain import plain
from diagnose.report.views.summary import late_rank_lines
from diagnose.report.views.words import causes_named, counted

RANKS_SHOWN = 12
CAUSES_SHOWN = 8
TRAFFIC_SHOWN = 3
HOSTS_SHOWN = 8
PASSING_SHOWN = 2
_CELL = 5
_SHORT = {"communication": "comm", "memory": "mem", "compute": "comp", "unexplained": "rest", "undecided": "?"}
_HOT, _WARM = 0.20, 0.05


def print_late_ranks(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """The ranks that are late, why and what that costs, then those that are late at times only."""
    lines = late_rank_lines(diagnosis)
    for i, (straggler, line) in enumerate(zip(diagnosis.stragglers, lines, strict=True)):
        page.paragraph(line, label="" if i else "suspected" if straggler.suspected else "late rank")
        if extent.details and beyond(straggler):
            page.paragraph(Text(beyond(straggler), "dim"))
    for i, line in enumerate(late_stage_lines(diagnosis)):
        page.paragraph(line, label="" if i else "late stage")
    for straggler in diagnosis.postmortem.suspected if diagnosis.postmortem else ():
        page.paragraph(suspected_line(straggler), label="suspected")
    for link in diagnosis.postmortem.slow_links if diagnosis.postmortem else ():
        page.paragraph(slow_link_line(link), label="slow link", most=0 if extent.details else 2)
    if diagnosis.postmortem is not None:
        _passing(page, diagnosis.postmortem, extent.details)


def print_missing(page: Page, diagnosis: Diagnosis, _: Extent) -> None:
    """Print the ranks without a trace, and mismatches between the others."""
    if missing_line(diagnosis):
        page.paragraph(Text(missing_line(diagnosis), "yellow"), label="missing", most=2)
    for i, mismatch in enumerate(diagnosis.postmortem.mismatches if diagnosis.postmortem else ()):
        page.paragraph(Text(plain(mismatch.says), "yellow"), label="" if i else "mismatch", most=2)


def _passing(page: Page, job: Postmortem, details: bool) -> None:
    """Ranks that are late at times only."""
    shown = job.passing if details else job.passing[:PASSING_SHOWN]
    if shown:
        texts = [Text(passing_line(straggler)) for straggler in shown]
        page.entries("passing", texts, len(job.passing) - len(shown), most=2)


def print_job(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the hosts, the collectives, the gain of changes and the clocks; only a part of the details."""
    if len(diagnosis.ranks) < 2 or not extent.details:
        return
    job, details = diagnosis.postmortem, extent.details
    _hosts(page, diagnosis, details)
    if job is not None:
        _traffic(page, job, details)
        _changes(page, job, details)
        if details and clocks_line(job):
            page.paragraph(Text(clocks_line(job), "dim"), label="clocks")
    page.gap()


def print_ranks(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """The heat map; nothing for a single rank."""
    if len(diagnosis.ranks) < 2:
        return
    details = extent.details
    ordered = worst_first(diagnosis)
    name_width = min(max(page.width - 2 - _CELL * min(len(ordered), RANKS_SHOWN) - 1, 30), 46)
    fit = max((page.width - 3 - name_width) // _CELL, 1)
    devices = {plain(rank.device) for rank in ordered}
    same = f"; all on {min(devices)}" if len(devices) == 1 else ""
    shown, named = ordered if details else ordered[: min(RANKS_SHOWN, fit)], causes_named(diagnosis)
    page.paragraph(f"each cause in % of the rank's own step{same}", label="ranks", most=2)
    for at in range(0, len(shown), fit):
        _heat_block(page, heat_of(shown[at : at + fit], 0 if details else CAUSES_SHOWN, named), name_width)
    if len(shown) < len(ordered):
        page.line(Text(f"  +{counted(len(ordered) - len(shown), 'rank')} that lose less: --details, --rank N", "dim"))


def _heat_block(page: Page, heat: HeatSection, name_width: int) -> None:
    heads = "".join(f"{rank.rank:>{_CELL}}" for rank in heat.ranks)
    page.line(Text.assemble("  ", page.fitted("rank", name_width), " ", heads, style="dim"))
    for row in heat.rows:
        cells = [_cell(row, share) for share in row.shares]
        page.line(Text.assemble("  ", page.fitted(row.name, name_width), " ", *cells))
    verdicts = [_SHORT.get(name, name) for name in (bounding(rank.verdict.class_) for rank in heat.ranks)]
    page.line(Text.assemble("  ", page.fitted("bound by", name_width), " ", "".join(f"{v:>{_CELL}}" for v in verdicts)))


def _cell(row: HeatSectionRow, share: float) -> Text:
    colour = STYLE[row.class_]
    style = f"reverse {colour}" if share >= _HOT else colour if share >= _WARM else "dim"
    number = f"{100 * share:.0f}"
    return Text.assemble(" " * (_CELL - len(number) - 1), (f" {number}", style))


def _hosts(page: Page, diagnosis: Diagnosis, details: bool) -> None:
    """Each host's ranks together."""
    hosts = by_host(diagnosis.ranks)
    if len(hosts) < 2:
        return
    page.paragraph("mean over its ranks, in % of their step; the host that waits least first", label="hosts")
    name_width = widest([plain(host.name) for host in hosts], 24)
    heads = "".join(f"{_SHORT.get(name, name):>{_CELL}}" for name in (*HOST_CLASSES, "wait"))
    page.line(Text(f"  {page.fitted('host', name_width)} {'ranks':>5} {heads}", "dim"))
    for host in hosts if details else hosts[:HOSTS_SHOWN]:
        cells = "".join(f"{100 * share:{_CELL}.0f}" for share in (*host.shares, host.waiting))
        page.line(Text(f"  {page.fitted(plain(host.name), name_width)} {host.ranks:>5} {cells}"))
    if len(hosts) > HOSTS_SHOWN and not details:
        page.line(Text(f"  +{counted(len(hosts) - HOSTS_SHOWN, 'host')}: --details", "dim"))


def _traffic(page: Page, job: Postmortem, details: bool) -> None:
    shown = job.traffic if details else job.traffic[:TRAFFIC_SHOWN]
    hidden = len(job.traffic) - len(shown)
    if shown:
        page.entries("traffic", [Text(_message(traffic)) for traffic in shown], hidden)


def _message(traffic: Traffic) -> str:
    size = "" if traffic.bytes is None else f" of {spoken(traffic.bytes, 'bytes')}"
    text = f"{traffic.count_per_step:,.3g} {plain(traffic.kind)}{size} per step over {counted(traffic.ranks, 'rank')}: "
    text += f"transfer {duration(traffic.transfer_ns)}, waiting {duration(traffic.waiting_ns)} (median)"
    if traffic.busbw_gbs is not None:
        text += f", busbw {rate(traffic.busbw_gbs)}"
    if traffic.busbw_gbs is not None and traffic.expected_busbw_gbs is not None:
        text += f" of {traffic.expected_busbw_gbs:,.0f} GB/s expected at this size"
    text += f"; exposed communication {exposed_parts(traffic, ' of the step')}"
    return f"{text}; {plain(traffic.note)}" if traffic.note else text


def _changes(page: Page, job: Postmortem, details: bool) -> None:
    texts = [Text(f"{change_gain(change)}   {change_line(change)}") for change in job.changes]
    if replay_line(job) and (details or job.no_changes_because):
        texts.append(Text(replay_line(job), "dim"))
    for i, text in enumerate(texts):
        page.paragraph(text, label="" if i else "whole job", most=0 if details else 3)
