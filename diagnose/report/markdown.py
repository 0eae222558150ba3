"""The report as GitHub-flavoured Markdown for a pull request or a language model: short whatever the job."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diagnose.defects import netted
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import Postmortem, Traffic
from diagnose.facts import duration, spoken
from diagnose.report.github import Inline, Writer, bold, spaced, tokens
from diagnose.report.heat import HOST_CLASSES, by_host, heat_of, worst_first
from diagnose.report.html import About
from diagnose.report.html.changes import Change, Changes, changes_view
from diagnose.report.html.summary import Provenance, Summary, provenance_view, summary_view
from diagnose.report.job_words import (
    TRAFFIC_HEADS,
    beyond,
    change_line,
    clocks_line,
    passing_line,
    replay_line,
    traffic_cells,
)
from diagnose.report.ledger import basis, rows
from diagnose.report.words import GUARDS, causes_named, counted, speedup

MOST_TOKENS = 4_000
RANKS_SHOWN = 8
_WRITERS = tuple(
    Writer(rows=rows, prose=prose, name=name)
    for rows, prose, name in ((14, 400, 90), (10, 260, 70), (7, 180, 60), (5, 120, 48), (3, 90, 36), (2, 60, 24))
)
_SOURCES = ("read", "lost", "devices", "replay", "diagnose", "command", "files")
_SMALLEST = Writer(rows=1, prose=40, name=16)


@dataclass(frozen=True)
class _Seen:
    """The diagnosis, and the views of it that the HTML report shows too."""

    diagnosis: Diagnosis
    summary: Summary
    changes: Changes
    source: Provenance


def markdown(diagnosis: Diagnosis, about: About) -> str:
    """The whole document, at most `MOST_TOKENS` tokens: the longer the lists and names, the more of them are cut."""
    source = provenance_view(diagnosis, about.version, about.command)
    seen = _Seen(diagnosis, summary_view(diagnosis), changes_view(diagnosis), source)
    for writer in _WRITERS:
        text = _document(seen, writer)
        if tokens(text) <= MOST_TOKENS:
            return text
    return _document(seen, _SMALLEST)


def _document(seen: _Seen, to: Writer) -> str:
    sections: Sequence[tuple[str, Callable[[], str]]] = (
        ("", lambda: _verdict(seen.summary, to)),
        ("Where the step goes", lambda: _ledger(seen.diagnosis, to)),
        ("What to change", lambda: _plan(seen.changes, seen.summary.of, to)),
        ("Findings", lambda: _findings(seen, to)),
        ("Ranks", lambda: _job(seen.diagnosis, to)),
        ("What would not help", lambda: _not_advised(seen, to)),
        ("What was not judged", lambda: _not_judged(seen.changes, to)),
        ("Source", lambda: _source(seen.source, to)),
    )
    told = [(title, netted(title.lower() or "the verdict", body, to.text)) for title, body in sections]
    blocks = [block for title, body in told if body for block in (f"### {title}" if title else "", body) if block]
    return "\n\n".join(blocks) + "\n"


def _joined(blocks: Sequence[str]) -> str:
    return "\n\n".join(block for block in blocks if block)


def _verdict(seen: Summary, to: Writer) -> str:
    line = spaced(
        (
            bold(to.text(seen.class_)),
            f"{seen.step_ns} per {seen.of}",
            f"MFU {seen.mfu}",
            f"confidence {seen.confidence}",
        )
    )
    notes = [spaced((bold(to.code(note.rule)), note.severity, to.text(note.says))) for note in seen.notes]
    late = [f"Straggler: {told}" for told in seen.stragglers]
    applied = [f"Applied: {seen.applied}"] if seen.applied else []
    missing = [f"Missing: {seen.missing}"] if seen.missing else []
    mfu = [seen.warning, *(seen.mfu_details or [seen.mfu_line])]
    history = [f"History: {says}" for says in seen.history]
    grounds = [seen.because, seen.between], applied, late, missing, history, [*notes, f"Steps: {seen.steps}", *mfu]
    return _joined([f"## diagnose: {line}", *map(to.items, grounds)])


def _ledger(diagnosis: Diagnosis, to: Writer) -> str:
    """The waterfall's classes, each with its parts behind it."""
    of = basis(diagnosis)
    found = [
        (
            bold(to.text(row.name)) if row.style else to.text(row.name.strip()),
            Inline(of.per_step(row.ns)),
            Inline(f"{100 * row.share:.1f} %"),
        )
        for row in rows(diagnosis.waterfall, named=causes_named(diagnosis))
    ]
    mean = f"{duration(of.step_ns)}, mean of {of.count:,}" if of.count > 1 else duration(of.step_ns)
    heads = ("part", "per step", f"of the {of.name} ({mean})")
    whole = "Rows in bold add up to the step; those below one are its parts." if found else ""
    return _joined([whole, Writer(3 * to.rows, to.prose, to.name).table(heads, found)])


def _plan(changes: Changes, step: str, to: Writer) -> str:
    first = changes.next
    opened = changes.plan[0].rule if changes.plan else ""
    alone: str = to.text(changes.nothing)
    if not changes.nothing and first is not None and first.rule != opened:
        head = spaced((bold(Inline(f"First: {to.code(first.rule)}")), first.severity, changes.next_gain))
        alone = _change(head, first.says, first.do, changes.next_typed, to)
    planned = [_planned(i, change, step, to) for i, change in enumerate(changes.plan[: to.rows], 1)]
    hidden = len(changes.plan) - len(planned)
    together = f"Together {changes.together}" if changes.together else ""
    kept = f"numerics change with {', '.join(changes.numerics)}" if changes.numerics and together else ""
    withheld = f"No gain is predicted that needs a replay: {changes.withheld}" if changes.withheld else ""
    told = (together, kept, changes.noise, withheld)
    end = spaced((*map(to.text, told), f"+{hidden} more" if hidden else ""))
    return _joined([alone, *planned, end])


def _planned(number: int, change: Change, step: str, to: Writer) -> str:
    so_far = f"{change.together} so far" if change.together else ""
    numerics = "can change the results" if change.numerics else ""
    name = bold(Inline(f"{number}. {to.code(change.rule)}"))
    head = spaced((name, change.severity, change.gain, so_far, to.text(change.effort), numerics))
    return _change(head, change.says, change.do, change.typed, to)


def _change(head: str, says: str, do: str, typed: Sequence[str], to: Writer) -> str:
    shell = bool(typed) and all(line.startswith("export ") for line in typed)
    return _joined([head, f"{to.text(says)} {to.text(do)}".strip(), to.fence(typed, "sh" if shell else "python")])


def _findings(seen: _Seen, to: Writer) -> str:
    """Every finding with its gain alone, then what they rest on."""
    findings = seen.diagnosis.findings
    planned = {change.rule for change in seen.changes.plan}
    found = [
        (
            to.code(f.rule),
            f.severity,
            f.class_,
            speedup(f.predicted_speedup),
            "in the plan" if f.rule in planned else f.says,
        )
        for f in findings
    ]
    evidence = [
        (to.code(f.rule), to.code(e.fact), to.text(spoken(e.value, e.unit)), e.of)
        for f in findings
        for e in f.evidence
        if e.fact not in GUARDS
    ]
    return _joined(
        [
            to.table(("finding", "severity", "class", "gain alone", "says"), found),
            to.table(("finding", "fact", "value", "of"), evidence),
        ]
    )


def _job(diagnosis: Diagnosis, to: Writer) -> str:
    if len(diagnosis.ranks) < 2:
        return ""
    found = diagnosis.postmortem
    if found is None:
        return _heat(diagnosis, to)
    disagree = [f"Mismatch: {mismatch.says}" for mismatch in found.mismatches]
    passing = [f"Passing: {passing_line(straggler)}" for straggler in found.passing]
    late = [f"Late {told}" for straggler in diagnosis.stragglers if (told := beyond(straggler))]
    replay, clocks = replay_line(found), clocks_line(found)
    grounds = [f"Whole job: {replay}" if replay else "", f"Clocks: {clocks}" if clocks else ""]
    lists = [_changes(found, to), *(to.items(told) for told in (disagree, passing, late, grounds))]
    return _joined(
        [
            _heat(diagnosis, to),
            _hosts(diagnosis, to),
            to.table(TRAFFIC_HEADS, [_message(own, to) for own in found.traffic]),
            *lists,
        ]
    )


def _message(own: Traffic, to: Writer) -> tuple[str, ...]:
    kind, *figures = traffic_cells(own)
    return to.code(kind), *figures


def _changes(found: Postmortem, to: Writer) -> str:
    return to.items([f"Whole job, {speedup(change.speedup)}: {change_line(change)}" for change in found.changes])


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


def _heat(diagnosis: Diagnosis, to: Writer) -> str:
    """The worst ranks side by side."""
    ordered = worst_first(diagnosis)
    shown = ordered[: min(RANKS_SHOWN, to.rows)]
    heat = heat_of(shown, min(to.rows, 8), causes_named(diagnosis))
    cells = [(to.text(row.name), *(Inline(f"{100 * share:.0f}") for share in row.shares)) for row in heat.rows]
    bound = ("bound by", *(rank.verdict.class_.removesuffix("-bound") for rank in shown))
    table = Writer(len(cells) + 1, to.prose, to.name).table(
        ("% of the rank's own step", *(f"rank {rank.rank}" for rank in shown)), [*cells, bound]
    )
    hidden = len(ordered) - len(shown)
    return _joined([table, f"+{counted(hidden, 'rank')} that lose less" if hidden else ""])


def _not_advised(seen: _Seen, to: Writer) -> str:
    told = [(to.code(own.what), own.because) for own in seen.changes.not_advised]
    return to.table(("change", "because"), told)


def _not_judged(changes: Changes, to: Writer) -> str:
    """What to capture, the rules that can be judged then, and why they could not be."""
    found = []
    for capture in changes.captures:
        names = [to.code(rule) for rule, _ in capture.rules]
        more = [f"+{len(names) - to.rows} more"] if len(names) > to.rows else []
        reasons = "; ".join(dict.fromkeys(because for _, because in capture.rules))
        found.append((capture.what or "nothing would help", Inline(", ".join([*names[: to.rows], *more])), reasons))
    return to.table(("capture", "to judge", "missing now"), found)


def _source(seen: Provenance, to: Writer) -> str:
    files = spaced(to.code(file) for file in seen.files[: to.rows])
    more = f" +{len(seen.files) - to.rows} more" if len(seen.files) > to.rows else ""
    named = [(name, to.code(value) if name == "command" else value) for name, value in seen.rows]
    listed = [*named, ("files", Inline(f"{files}{more}"))]
    return Writer(len(_SOURCES) + to.rows, to.prose, to.name).table(("source", "value"), sorted(listed, key=_place))


def _place(source: Sequence[str]) -> int:
    """Where a source stands: versions of other software come last."""
    return _SOURCES.index(source[0]) if source[0] in _SOURCES else len(_SOURCES)
