"""The ranks of a job in Markdown: a heat map of the worst, the hosts, the collectives, and the gain of changes."""

from diagnose.diagnosis import Diagnosis, bounding
from diagnose.diagnosis.postmortem import Postmortem, Traffic
from diagnose.report.markdown.draft import Draft, blocks
from diagnose.report.markdown.github import Inline, Writer
from diagnose.report.views.heat import HOST_CLASSES, by_host, heat_of, worst_first
from diagnose.report.views.job_words import (
    TRAFFIC_HEADS,
    beyond,
    change_gain,
    change_line,
    clocks_line,
    passing_line,
    replay_line,
    slow_link_line,
    suspected_line,
    traffic_cells,
)
from diagnose.report.views.words import causes_named, counted

RANKS_SHOWN = 8


def ranks(draft: Draft) -> str:
    """The worst ranks side by side; nothing for a single rank."""
    diagnosis, to = draft.diagnosis, draft.to
    if len(diagnosis.ranks) < 2:
        return ""
    ordered = worst_first(diagnosis)
    shown = ordered[: min(RANKS_SHOWN, to.rows)]
    heat = heat_of(shown, min(to.rows, 8), causes_named(diagnosis))
    cells = [(to.text(row.name), *(Inline(f"{100 * share:.0f}") for share in row.shares)) for row in heat.rows]
    bound = ("bound by", *(bounding(rank.verdict.class_) for rank in shown))
    table = Writer(len(cells) + 1, to.prose, to.name).table(
        ("% of the rank's own step", *(f"rank {rank.rank}" for rank in shown)), [*cells, bound]
    )
    hidden = len(ordered) - len(shown)
    return blocks([table, f"+{counted(hidden, 'rank')} that lose less" if hidden else ""])


def job(draft: Draft) -> str:
    """The results of joining the ranks; "" if they were not joined."""
    diagnosis, to = draft.diagnosis, draft.to
    postmortem = diagnosis.postmortem
    if len(diagnosis.ranks) < 2 or postmortem is None:
        return ""
    disagree = [f"Mismatch: {mismatch.says}" for mismatch in postmortem.mismatches]
    passing = [f"Passing: {passing_line(straggler)}" for straggler in postmortem.passing]
    suspected = [f"Suspected: {suspected_line(straggler)}" for straggler in postmortem.suspected]
    links = [f"Slow link: {slow_link_line(link)}" for link in postmortem.slow_links]
    late = [f"Late {line}" for straggler in diagnosis.stragglers if (line := beyond(straggler))]
    replay, clocks = replay_line(postmortem), clocks_line(postmortem)
    grounds = [f"Whole job: {replay}" if replay else "", f"Clocks: {clocks}" if clocks else ""]
    traffic = to.table(TRAFFIC_HEADS, [_message(message, to) for message in postmortem.traffic])
    lists = (to.items(lines) for lines in (_changes(postmortem), disagree, suspected, links, passing, late, grounds))
    return blocks([_hosts(diagnosis, to), traffic, *lists])


def _message(traffic: Traffic, to: Writer) -> tuple[str, ...]:
    kind, *figures = traffic_cells(traffic)
    return to.code(kind), *figures


def _changes(postmortem: Postmortem) -> list[str]:
    return [f"Whole job, {change_gain(change)}: {change_line(change)}" for change in postmortem.changes]


def _hosts(diagnosis: Diagnosis, to: Writer) -> str:
    """The hosts side by side, the one that waits least first."""
    hosts = by_host(diagnosis.ranks)
    if len(hosts) < 2:
        return ""
    heads = ("% of its ranks' step", "ranks", *HOST_CLASSES, "of it, waiting for late ranks")
    rows = [
        (
            to.code(host.name),
            f"{host.ranks:,}",
            *(Inline(f"{100 * share:.0f}") for share in (*host.shares, host.waiting)),
        )
        for host in hosts
    ]
    return to.table(heads, rows)
