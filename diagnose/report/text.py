"""The terminal report: verdict, ledger, what to change next, what would not help, what could not be judged."""

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from diagnose.diagnosis import Diagnosis, Finding, NotJudged, PlanStep, Straggler, TraceSummary
from diagnose.facts import duration, spoken
from diagnose.report.ledger import STYLE, basis, print_ledger, print_ranks
from diagnose.report.page import Page, joined, plain
from diagnose.report.words import counted, evidence_line, mfu_line, patch_lines, speedup

_SEVERITY_STYLE = {"critical": "bold red", "warning": "bold yellow", "info": "cyan"}
_STEP_SOURCES = {
    "window": "the whole capture, no step marks were found",
    "pattern": "found by the repeating pattern of kernels",
}


def render(diagnosis: Diagnosis, console: Console) -> None:
    """Print `diagnosis`. A pure function of it: nothing is measured or judged here."""
    page = Page(console)
    _verdict(page, diagnosis)
    _steps(page, diagnosis)
    _loss(page, diagnosis.trace)
    page.gap()
    print_ledger(page, diagnosis)
    page.gap()
    first = _next(page, diagnosis)
    _then(page, diagnosis.plan, first)
    _also(page, [finding for finding in diagnosis.findings if finding is not first])
    _not(page, diagnosis)
    _not_judged(page, diagnosis.not_judged)
    if len(diagnosis.ranks) > 1:
        print_ranks(page, diagnosis.ranks, diagnosis.stragglers)
    _stragglers(page, diagnosis)
    _footer(page, diagnosis)


def _verdict(page: Page, diagnosis: Diagnosis) -> None:
    verdict, mfu = diagnosis.verdict, diagnosis.mfu
    style = STYLE.get(verdict.class_.removesuffix("-bound"), "red")
    speed = f"{duration(basis(diagnosis).step_ns)} per step"
    known = "MFU unknown" if mfu.value is None else f"MFU {spoken(mfu.value, 'share')}"
    name = Text(verdict.class_, f"bold {style}")
    page.paragraph(joined([name, speed, known, f"confidence {verdict.confidence}"]), label="verdict:")
    if len(verdict.between) > 1:
        page.paragraph(f"between {' and '.join(verdict.between)}: they are too close to tell apart")
    if verdict.because:
        page.paragraph(plain(verdict.because))
    page.paragraph(Text(mfu_line(mfu), "dim" if mfu.value is not None else ""))


def _steps(page: Page, diagnosis: Diagnosis) -> None:
    steps = diagnosis.steps
    source = plain(_STEP_SOURCES.get(steps.source, f"marked by {steps.source}"))
    over = f" over {len(diagnosis.ranks)} ranks" if len(diagnosis.ranks) > 1 else ""
    host = ""
    if steps.device_time_ns is None:
        host = "; no GPU activity, so host steps are accounted"
    elif steps.count and abs(steps.time_ns - steps.device_time_ns) > 0.05 * steps.device_time_ns:
        host = f"; on the host a step takes {duration(steps.time_ns / steps.count)}"
    page.paragraph(f"{steps.count:,} counted{over}, {source}{host}", label="steps:")


def _loss(page: Page, trace: TraceSummary) -> None:
    loss = trace.loss
    if not (loss.events or loss.bytes or loss.truncated):
        return
    parts = [
        counted(loss.events, "event") if loss.events else "",
        f"{spoken(loss.bytes, 'bytes')} of {spoken(trace.bytes, 'bytes')}" if loss.bytes else "",
        "the file ends early" if loss.truncated else "",
    ]
    kinds = f" ({', '.join(plain(kind) for kind in loss.kinds)})" if loss.kinds else ""
    page.paragraph(Text("; ".join(part for part in parts if part) + kinds, "yellow"), label="lost:")


def _headline(finding: Finding) -> Text:
    severity = Text(finding.severity, _SEVERITY_STYLE[finding.severity])
    gain = Text(speedup(finding.predicted_speedup), "bold green")
    return joined([Text(plain(finding.rule), "bold"), severity, gain])


def _next(page: Page, diagnosis: Diagnosis) -> Finding | None:
    """The finding that opens the plan, else the first one."""
    if not diagnosis.findings:
        unknown = f"; {counted(len(diagnosis.not_judged), 'rule')} could not judge it" if diagnosis.not_judged else ""
        page.paragraph(f"nothing to change: no rule fired{unknown}", label="next:")
        return None
    opener = diagnosis.plan[0].rule if diagnosis.plan else ""
    first = next((f for f in diagnosis.findings if f.rule == opener), diagnosis.findings[0])
    page.paragraph(_headline(first), label="next:")
    page.paragraph(plain(first.says))
    if first.evidence:
        page.field("evidence", evidence_line(first.evidence))
    page.field("do", plain(first.do))
    for i, line in enumerate(patch_lines(first.patch)):
        page.field("or" if i else "type", Text(line, "bold"))
    return first


def _then(page: Page, plan: Sequence[PlanStep], first: Finding | None) -> None:
    rest = [step for step in plan if first is None or step.rule != first.rule]
    for i, step in enumerate(rest):
        typed = patch_lines(step.patch)[:1]
        parts: list[Text | str] = [
            Text(plain(step.rule), "bold"),
            Text(speedup(step.predicted_speedup), "green"),
            *typed,
        ]
        page.paragraph(joined(parts), label="" if i else "then:")


def _also(page: Page, findings: Sequence[Finding]) -> None:
    if findings:
        page.gap()
    for i, finding in enumerate(findings):
        page.paragraph(_headline(finding), label="" if i else "also:")
        page.paragraph(plain(finding.says), indent=2)
        page.paragraph(Text.assemble(("do: ", "dim"), plain(finding.do)), indent=2)


def _not(page: Page, diagnosis: Diagnosis) -> None:
    if diagnosis.not_advised:
        page.gap()
    for i, item in enumerate(diagnosis.not_advised):
        page.paragraph(joined([Text(plain(item.what), "bold"), plain(item.because)]), label="" if i else "not:")


def _not_judged(page: Page, items: Sequence[NotJudged]) -> None:
    """Rules that miss the same measurement share one entry."""
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        by_reason[plain(item.because), plain(item.capture_next)].append(plain(item.rule))
    if by_reason:
        page.gap()
    for i, ((because, capture_next), rules) in enumerate(by_reason.items()):
        page.paragraph(joined([Text(", ".join(rules), "bold"), because]), label="" if i else "not judged:")
        if capture_next:
            page.paragraph(Text.assemble(("capture: ", "dim"), capture_next), indent=2)


def _stragglers(page: Page, diagnosis: Diagnosis) -> None:
    def told(straggler: Straggler) -> str:
        waiting = duration(straggler.waiting_ns_caused)
        cause = plain(straggler.cause).replace("_", " ")
        return f"rank {straggler.rank} is late (cause: {cause}); the other ranks waited {waiting} in all counted steps"

    for i, straggler in enumerate(diagnosis.stragglers):
        page.paragraph(told(straggler), label="" if i else "straggler:")


def _footer(page: Page, diagnosis: Diagnosis) -> None:
    trace = diagnosis.trace
    page.gap()
    size = spoken(trace.bytes, "bytes")
    page.paragraph(
        Text(f"{counted(len(trace.files), 'file')}, {counted(trace.events, 'event')}, {size}", "dim"), label="read:"
    )
    if diagnosis.findings:
        page.paragraph(Text("diagnose explain RULE tells more about a rule", "dim"))
