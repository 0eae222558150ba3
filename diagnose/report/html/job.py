"""The post-mortem of a job under the heat map: late ranks and their cost, hosts, collectives, changes, clocks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import Clock, Postmortem, Straggler
from diagnose.facts import duration, spoken
from diagnose.report.views.breakdown import CLASS_NAMES, basis
from diagnose.report.views.heat import HOST_CLASSES, by_host
from diagnose.report.views.job_words import (
    TRAFFIC_HEADS,
    change_gain,
    change_line,
    clocks_line,
    excess,
    hours,
    money,
    passing_line,
    replay_line,
    slow_link_line,
    suspected_line,
    traffic_cells,
    waited_share,
)
from diagnose.report.views.words import counted

ROWS_SHOWN = 64
LINES_SHOWN = 16


@dataclass(frozen=True)
class HtmlRow:
    """A row of cells, the first of which names it; `detail` stands below that name, `mark` refers to a note."""

    cells: tuple[str, ...]
    detail: str = ""
    mark: int = 0


@dataclass(frozen=True)
class HtmlTable:
    """A table: the columns in `texts` are not numbers, and `more` is a note on rows that are not shown."""

    caption: str
    heads: tuple[str, ...]
    rows: list[HtmlRow]
    texts: tuple[int, ...] = (0,)
    more: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownLines:
    """Sentences, and what of them is not shown."""

    shown: list[str]
    more: str = ""


@dataclass(frozen=True)
class JobSection:
    """The joined ranks; what is not known is empty."""

    mismatches: ShownLines
    stragglers: HtmlTable | None
    suspected: ShownLines
    slow_links: ShownLines
    passing: ShownLines
    hosts: HtmlTable | None
    traffic: HtmlTable | None
    changes: HtmlTable | None
    replay: str
    clocks: str
    clock_table: HtmlTable | None


def job_view(diagnosis: Diagnosis) -> JobSection | None:
    """The post-mortem; None if the ranks were not joined."""
    postmortem = diagnosis.postmortem
    if postmortem is None:
        return None
    return JobSection(
        mismatches=_lines([mismatch.says for mismatch in postmortem.mismatches], "mismatch", "mismatches"),
        stragglers=_stragglers(diagnosis),
        suspected=_lines([suspected_line(straggler) for straggler in postmortem.suspected], "rank", "ranks"),
        slow_links=_lines([slow_link_line(link) for link in postmortem.slow_links], "slow link", "slow links"),
        passing=_lines([passing_line(straggler) for straggler in postmortem.passing], "passing rank", "passing ranks"),
        hosts=_hosts(diagnosis),
        traffic=_traffic(postmortem),
        changes=_changes(postmortem),
        replay=replay_line(postmortem),
        clocks=clocks_line(postmortem),
        clock_table=_clocks(postmortem.clocks) if clocks_line(postmortem) else None,
    )


def _lines(says: Sequence[str], one: str, many: str) -> ShownLines:
    hidden = len(says) - LINES_SHOWN
    return ShownLines(list(says[:LINES_SHOWN]), f"+{hidden:,} {one if hidden == 1 else many}" if hidden > 0 else "")


def _table(
    caption: str, heads: Sequence[str], rows: Sequence[HtmlRow], noun: str, texts: tuple[int, ...] = (0,)
) -> HtmlTable | None:
    """The first rows as a table; None without rows."""
    hidden = len(rows) - ROWS_SHOWN
    more = f"+{counted(hidden, noun)}" if hidden > 0 else ""
    return HtmlTable(caption, tuple(heads), list(rows[:ROWS_SHOWN]), texts, more) if rows else None


def _stragglers(diagnosis: Diagnosis) -> HtmlTable | None:
    """The cost of late ranks; columns without any known value are left out."""
    late, step = diagnosis.stragglers, basis(diagnosis).name
    columns = [
        ("rank", [f"rank {straggler.rank}" for straggler in late]),
        ("when", [straggler.persistence for straggler in late]),
        ("beyond the other ranks, per step", _known([_beyond(straggler) for straggler in late])),
        ("late in steps", [f"{straggler.steps_late:,}" for straggler in late]),
        (f"others wait, of their {step}", [spoken(waited_share(straggler, diagnosis), "share") for straggler in late]),
        ("explained, of its lateness", _known([spoken(straggler.explained_share, "share") for straggler in late])),
        ("GPU-hours lost per day", _known([hours(straggler.gpu_hours_per_day) for straggler in late])),
        ("cost per day", _known([money(straggler.cost_per_day) for straggler in late])),
    ]
    told = {head: cells for head, cells in columns if cells}
    rows = [
        HtmlRow(cells, f"on {straggler.host}" if straggler.host else "")
        for straggler, cells in zip(late, zip(*told.values(), strict=True), strict=True)
    ]
    texts = (0, 1, 2) if "beyond the other ranks, per step" in told else (0, 1)
    return _table("Late ranks, and what they cost the others", tuple(told), rows, "rank", texts)


def _beyond(straggler: Straggler) -> str:
    return ", ".join(f"{cause} {time}" for cause, time in excess(straggler)) or "unknown"


def _known(cells: list[str]) -> list[str]:
    return cells if any(cell != "unknown" for cell in cells) else []


def _hosts(diagnosis: Diagnosis) -> HtmlTable | None:
    hosts = by_host(diagnosis.ranks)
    if len(hosts) < 2:
        return None
    heads = ("host", "ranks", *(CLASS_NAMES[name] for name in HOST_CLASSES), "of it, waiting for late ranks")
    rows = [
        HtmlRow((host.name, f"{host.ranks:,}", *(_percent(share) for share in (*host.shares, host.waiting))))
        for host in hosts
    ]
    caption = "Hosts: mean over the ranks of each, in percent of their step; the host that waits least first"
    return _table(caption, heads, rows, "host")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _traffic(postmortem: Postmortem) -> HtmlTable | None:
    """The collectives; what is noted of several stands once below."""
    notes = tuple(dict.fromkeys(traffic.note for traffic in postmortem.traffic[:ROWS_SHOWN] if traffic.note))
    several = len({traffic.group for traffic in postmortem.traffic}) > 1
    rows = [
        HtmlRow(
            traffic_cells(traffic),
            f"group {traffic.group}" if several and traffic.group else "",
            notes.index(traffic.note) + 1 if traffic.note in notes else 0,
        )
        for traffic in postmortem.traffic
    ]
    caption = "Collectives, those most exposed first; the times of transfer and waiting are medians per collective"
    table = _table(caption, TRAFFIC_HEADS, rows, "row")
    return replace(table, notes=notes) if table else None


def _changes(postmortem: Postmortem) -> HtmlTable | None:
    rows = [HtmlRow((change.change, change_gain(change)), change_line(change)) for change in postmortem.changes]
    return _table("What the whole job would gain", ("change", "speed of the job"), rows, "change")


def _clocks(clocks: Sequence[Clock]) -> HtmlTable | None:
    """Each rank's clock against the first."""
    rows = [
        HtmlRow((f"rank {clock.rank}", _time(clock.offset_ns), _drift(clock.drift_ppm), _time(clock.residual_ns)))
        for clock in clocks
    ]
    return _table("Clocks against that of the first rank", ("rank", "to add", "drift", "residual"), rows, "rank")


def _time(ns: int | None) -> str:
    return "unknown" if ns is None else duration(ns)


def _drift(ppm: float | None) -> str:
    return "unknown" if ppm is None else f"{ppm:,.2f} ppm"
