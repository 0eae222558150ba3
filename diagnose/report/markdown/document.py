"""The report as GitHub-flavoured Markdown for a pull request or a language model: short whatever the job.

The named ranges in Markdown.

The user's functions with their share of Python time, in Markdown, or why they are unknown.

The sections of the document put together under their titles, the long ones behind the answer folded.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from diagnose.diagnosis import Diagnosis
from diagnose.errors.defects import netted
from diagnose.facts import duration, spoken
from diagnose.report.markdown.draft import Draft, blocks
from diagnose.report.markdown.github import MOST_TOKENS, Inline, Writer, bold, shortened, spaced
from diagnose.report.markdown.job import job, ranks
from diagnose.report.views.applied import applied_view
from diagnose.report.views.breakdown import basis, outside_line, rows
from diagnose.report.views.capacity import capacity_view
from diagnose.report.views.changes import ChangeView, Full, Headline, captures_view, findings_view, plan_view
from diagnose.report.views.cost import cost_lines
from diagnose.report.views.goodput import goodput_view
from diagnose.report.views.job_words import late_stage_lines, missing_line
from diagnose.report.views.operators import longest_operators_line
from diagnose.report.views.ranges import OF, idle_line, ranges_view
from diagnose.report.views.sections import LeftOut, spelled
from diagnose.report.views.slow_steps import slow_steps_view
from diagnose.report.views.summary import (
    About,
    history_lines,
    late_rank_lines,
    notes_of,
    provenance_view,
    steps_line,
    verdict_view,
)
from diagnose.report.views.user_code import user_code_view
from diagnose.report.views.windows import windows_lines
from diagnose.report.views.words import GUARDS, causes_named

_SOURCES = ("read", "lost", "devices", "replay", "diagnose", "command", "files")
_TOO_LONG = LeftOut(f"the document stays below {MOST_TOKENS:,} tokens; --html has it")


def markdown(diagnosis: Diagnosis, about: About, most: int = MOST_TOKENS, only: Collection[str] | None = None) -> str:
    """Write the document in at most `most` tokens: the longer the lists and names, the more of them are cut.

    Args:
        diagnosis: the diagnosis to show.
        about: the program that writes it.
        most: number of tokens, as `tokens` counts them.
        only: names of sections, if not all of them are wanted.
    """
    chosen = {name: section for name, section in SECTIONS.items() if only is None or name in only}
    return shortened(most, lambda writer: put_together(Draft(diagnosis, about, writer), chosen))


def _verdict(draft: Draft) -> str:
    view, to = verdict_view(draft.diagnosis), draft.to
    line = spaced(
        (
            bold(to.text(view.class_)),
            f"{view.step_ns} per {view.of}",
            f"MFU {view.mfu}",
            f"confidence {view.confidence}",
        )
    )
    between = f"Between {view.between}." if view.between else ""
    return blocks([f"## diagnose: {line}", to.items([view.because, between, view.training])])


def _applied(draft: Draft) -> str:
    view = applied_view(draft.diagnosis)
    return draft.to.items([f"Applied: {view.line}"]) if view else ""


def _late_ranks(draft: Draft) -> str:
    stages = [f"Late stage: {line}" for line in late_stage_lines(draft.diagnosis)]
    return draft.to.items([*(f"Straggler: {line}" for line in late_rank_lines(draft.diagnosis)), *stages])


def _missing(draft: Draft) -> str:
    line = missing_line(draft.diagnosis)
    return draft.to.items([f"Missing: {line}"]) if line else ""


def _windows(draft: Draft) -> str:
    return draft.to.items([f"Window: {line}" for line in windows_lines(draft.diagnosis)[:2]])


def _history(draft: Draft) -> str:
    return draft.to.items([f"History: {says}" for says in history_lines(draft.diagnosis)])


def _cost(draft: Draft) -> str:
    return draft.to.items(cost_lines(draft.diagnosis) or [])


def _goodput(draft: Draft) -> str:
    lines = goodput_view(draft.diagnosis) or []
    return draft.to.items([f"{label.capitalize()}: {line}" if label else line for label, line in lines])


def _slow_steps(draft: Draft) -> str:
    return draft.to.items([f"Slow {view.line}" for view in (slow_steps_view(draft.diagnosis) or ())[: draft.to.rows]])


def _notes(draft: Draft) -> tuple[str, ...]:
    to = draft.to
    return tuple(
        spaced((bold(to.code(note.rule)), note.severity, to.text(note.says))) for note in notes_of(draft.diagnosis)
    )


def _steps(draft: Draft) -> tuple[str, ...]:
    """The counted steps, and how MFU was computed."""
    view = verdict_view(draft.diagnosis)
    return f"Steps: {steps_line(draft.diagnosis)}", view.warning, *(view.mfu_details or [view.mfu_line])


def _host_operators(draft: Draft) -> tuple[str, ...]:
    """The longest operators of a job without GPU activity."""
    line = longest_operators_line(draft.diagnosis)
    return (f"Operators: {draft.to.text(line)}",) if line else ()


def _breakdown(draft: Draft) -> str:
    """The waterfall's classes, each with its parts behind it."""
    diagnosis, to, of = draft.diagnosis, draft.to, basis(draft.diagnosis)
    listed = [
        (
            bold(to.text(row.name)) if row.class_ else to.text(row.name.strip()),
            Inline(of.per_step(row.ns)),
            Inline(f"{100 * row.share:.1f} %"),
        )
        for row in rows(diagnosis.waterfall, named=causes_named(diagnosis))
    ]
    step = ", ".join(filter(None, (duration(of.step_ns), of.average)))
    heads = ("part", "per step", f"of the {of.name} ({step})")
    whole = "Rows in bold add up to the step; those below one are its parts." if listed else ""
    table = Writer(3 * to.rows, to.prose, to.name).table(heads, listed)
    return blocks([whole, table, to.text(outside_line(diagnosis))])


def _plan(draft: Draft) -> str:
    changes, to = plan_view(draft.diagnosis), draft.to
    first = changes.next
    opened = changes.plan[0].rule if changes.plan else ""
    alone: str = to.text(changes.nothing)
    if not changes.nothing and first is not None and first.finding.rule != opened:
        head = spaced((_headline("First: ", first.headline, to), first.finding.severity))
        alone = _change(head, first.finding.says, first.finding.do, first, to)
    planned = [_planned(i, change, to) for i, change in enumerate(changes.plan[: to.rows], 1)]
    hidden = len(changes.plan) - len(planned)
    together = f"Together {changes.together}" if changes.together else ""
    kept = f"numerics change with {', '.join(changes.numerics)}" if changes.numerics and together else ""
    withheld = f"No gain is predicted that needs a replay: {changes.withheld}" if changes.withheld else ""
    told = (together, kept, changes.noise, withheld)
    end = spaced((*map(to.text, told), f"+{hidden} more" if hidden else ""))
    return blocks([to.text(changes.joined), alone, *planned, end])


def _planned(number: int, change: ChangeView, to: Writer) -> str:
    so_far = f"{change.together} so far" if change.together else ""
    numerics = "can change the results" if change.numerics else ""
    name = _headline(f"{number}. ", change.headline, to)
    head = spaced((name, change.severity, so_far, to.text(change.effort), numerics))
    return _change(head, change.says, change.do, change, to)


def _headline(number: str, told: Headline, to: Writer) -> Inline:
    """The change with its gain, then the fault."""
    action = to.text(told.action) if told.fault else to.code(told.action)
    gain = f" ({told.gain})" if told.gain else ""
    return spaced((Inline(f"{bold(Inline(f'{number}{action}'))}{gain}"), to.code(told.fault)))


def _change(head: str, says: str, do: str, change: ChangeView | Full, to: Writer) -> str:
    shell = bool(change.typed) and all(line.startswith("export ") for line in change.typed)
    beside = ((change.where, f"Where: {change.where}."), (change.record, f"So far: {change.record}."))
    text = " ".join(filter(None, (to.text(says), *(to.text(line) for known, line in beside if known), to.text(do))))
    tried = spaced(("Or, the script unedited:", to.code(change.apply))) if change.apply else ""
    return blocks([head, text, to.fence(change.typed, "sh" if shell else "python"), tried])


def _findings(draft: Draft) -> str:
    """Every finding with its gain alone, then what they rest on."""
    findings, to = draft.diagnosis.findings, draft.to
    planned = {change.rule for change in draft.diagnosis.plan}
    listed = [
        (
            to.code(f.rule),
            f.severity,
            f.class_,
            full.headline.gain,
            "in the plan" if f.rule in planned else f.says,
        )
        for full in findings_view(draft.diagnosis)
        for f in [full.finding]
    ]
    evidence = [
        (to.code(f.rule), to.code(e.fact), to.text(spoken(e.value, e.unit)), e.of)
        for f in findings
        for e in f.evidence
        if e.fact not in GUARDS
    ]
    return blocks(
        [
            to.table(("finding", "severity", "class", "gain alone", "says"), listed),
            to.table(("finding", "fact", "value", "of"), evidence),
        ]
    )


def _capacity(draft: Draft) -> str:
    view, to = capacity_view(draft.diagnosis), draft.to
    if view is None:
        return ""
    tables = [block for table in view.tables for block in (table.caption, to.table(table.heads, table.rows))]
    return blocks([to.items(view.lines), *tables])


def _not_advised(draft: Draft) -> str:
    diagnosis, to = draft.diagnosis, draft.to
    changes = [(to.code(item.what), item.because) for item in diagnosis.not_advised]
    return to.table(("change", "because"), changes)


def _not_judged(draft: Draft) -> str:
    """A table of captures, the rules that can then be judged, and why they could not be."""
    to, listed = draft.to, []
    for capture in captures_view(draft.diagnosis):
        names = [to.code(rule) for rule, _ in capture.rules]
        more = [f"+{len(names) - to.rows} more"] if len(names) > to.rows else []
        reasons = "; ".join(dict.fromkeys(because for _, because in capture.rules))
        listed.append((capture.what or "nothing would help", Inline(", ".join([*names[: to.rows], *more])), reasons))
    return to.table(("capture", "to judge", "missing now"), listed)


def _provenance(draft: Draft) -> str:
    view, to = provenance_view(draft.diagnosis), draft.to
    rows = [*view.rows, *draft.about.rows(draft.diagnosis)]
    files = spaced(to.code(file) for file in view.files[: to.rows])
    more = f" +{len(view.files) - to.rows} more" if len(view.files) > to.rows else ""
    named = [(name, to.code(value) if name == "command" else value) for name, value in rows]
    listed = [*named, ("files", Inline(f"{files}{more}"))]
    return Writer(len(_SOURCES) + to.rows, to.prose, to.name).table(("source", "value"), sorted(listed, key=_place))


def _place(source: Sequence[str]) -> int:
    """The order of a source: versions of other software come last."""
    return _SOURCES.index(source[0]) if source[0] in _SOURCES else len(_SOURCES)


_HEADS = ("range", "opened by", "count", "time", "share", "GPU work", "idle")


def ranges_table(draft: Draft) -> str:
    """A sentence on the ranges in which the device idles, and a table of the ranges with most time."""
    rows, to = ranges_view(draft.diagnosis), draft.to
    if not rows:
        return ""
    of = f"Per step; shares are of {OF}, of idle time of the {basis(draft.diagnosis).name}."
    cells = [(to.code(v.name), v.row.by, v.count, v.time, v.share, v.gpu, v.idle) for v in rows]
    says = idle_line(draft.diagnosis)
    return blocks([to.text(f"{says[:1].upper()}{says[1:]}.") if says else "", to.text(of), to.table(_HEADS, cells)])


def user_code(draft: Draft) -> str:
    """A table of the functions with most time."""
    view, to = user_code_view(draft.diagnosis), draft.to
    if view is None:
        return ""
    if view.unknown:
        return to.text(f"The lines are unknown: {view.unknown}")
    cost = f"; {view.cost}" if view.cost else ""
    listed = [
        (f"{to.code(each.place)} {to.text(each.calls)}".strip(), each.share, each.total, each.row.doing)
        for each in view.functions
    ]
    table = to.table(("function (hottest line)", "own", "with calls", "doing"), listed)
    return blocks([to.text(f"In % of {view.of}{cost}."), table])


FOLDED_FROM_CHARACTERS = 250
Body = str | tuple[str, ...]  # blocks, or items of a list that goes on with those of the next section


@dataclass(frozen=True)
class Chapter:
    """A section of the document under its title, or "" if it continues the section above.

    If it `folds`, it is collapsed when long.
    """

    title: str
    write: Callable[[Draft], Body]
    folds: bool = False


def put_together(draft: Draft, sections: Mapping[str, Chapter | LeftOut]) -> str:
    """The document: each title with all that is written until the next one."""
    chapters: list[tuple[Chapter, list[Body]]] = []
    for name, section in sections.items():
        if isinstance(section, LeftOut):
            continue
        if section.title or not chapters:
            chapters.append((section, []))
        chapters[-1][1].append(netted(spelled(name), partial(section.write, draft), draft.to.text))
    return blocks([_chapter(part, _text(bodies, draft.to)) for part, bodies in chapters]) + "\n"


def _text(bodies: Iterable[Body], to: Writer) -> str:
    parts: list[str] = []
    items: list[str] = []
    for body in (*bodies, ""):
        if isinstance(body, tuple):
            items += body
            continue
        parts += [to.items(items), body]
        items = []
    return blocks(parts)


def _chapter(part: Chapter, text: str) -> str:
    """The text under its title, or folded behind it."""
    if not part.title or not text:
        return text
    if part.folds and len(text) >= FOLDED_FROM_CHARACTERS:
        return blocks([f"<details>\n<summary><b>{part.title}</b></summary>", text, "</details>"])
    return blocks([f"### {part.title}", text])


SECTIONS: dict[str, Chapter | LeftOut] = {  # in the order of the document
    "verdict": Chapter("", _verdict),
    "applied": Chapter("", _applied),
    "late_ranks": Chapter("", _late_ranks),
    "missing": Chapter("", _missing),
    "windows": Chapter("", _windows),
    "history": Chapter("", _history),
    "goodput": Chapter("", _goodput),
    "slow_steps": Chapter("", _slow_steps),
    "notes": Chapter("", _notes),
    "steps": Chapter("", _steps),
    "ledger": Chapter("Where the step goes", _breakdown),
    "host_operators": Chapter("", _host_operators),
    "plan": Chapter("What to change", _plan),
    "cost": Chapter("Cost", _cost),
    "findings": Chapter("Findings", _findings, folds=True),
    "user_code": Chapter("Where Python is", user_code, folds=True),
    "ranges": Chapter("Named ranges", ranges_table, folds=True),
    "capacity": Chapter("Memory", _capacity, folds=True),
    "ranks": Chapter("Ranks", ranks, folds=True),
    "job": Chapter("", job),
    "not_advised": Chapter("What would not help", _not_advised, folds=True),
    "not_judged": Chapter("What was not judged", _not_judged, folds=True),
    "provenance": Chapter("Source", _provenance, folds=True),
    "step_times": _TOO_LONG,
    "memory_over_time": _TOO_LONG,
    "job_timeline": _TOO_LONG,
    "timeline": _TOO_LONG,
    "roofline": _TOO_LONG,
    "kernels": _TOO_LONG,
}
