"""What to change next, what comes after it, what would not help, and what could not be judged."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from rich.cells import cell_len
from rich.text import Text

from diagnose.diagnosis import Diagnosis, Finding, NotAdvised, NotJudged, PlanStep
from diagnose.facts import spoken
from diagnose.report.ledger import basis
from diagnose.report.page import LABEL, Page, joined, plain
from diagnose.report.words import (
    counted,
    evidence_line,
    first_sentence,
    flags_line,
    patch_lines,
    speedup,
    to_capture,
)

NOT_SHOWN = 4
CAPTURES_SHOWN = 4
WORTH_DOING = 1.02
AT_ACHIEVABLE = ("model-flops", "padding", "recompute", "lower-precision", "below-datasheet")
MOST_LINES = 2  # of one entry below the plan
SEVERITY_STYLE = {"critical": "bold red", "warning": "bold yellow", "info": "cyan"}


def print_changes(page: Page, diagnosis: Diagnosis, details: bool = False) -> None:
    """The first change in full; `details` adds the other findings in full and every reason."""
    step = basis(diagnosis).name
    first = first_change(diagnosis)
    if first is None or nothing_pays(diagnosis):
        page.paragraph(nothing_text(diagnosis), label="next:")
        first = None
    else:
        page.paragraph(headline(first), label="next:")
        _full(page, first, step, details)
    later = [planned for planned in diagnosis.plan if first is None or planned.rule != first.rule]
    page.entries("then:", [_planned(planned, diagnosis, step) for planned in later])
    _together(page, diagnosis)
    if noise_line(diagnosis):
        page.paragraph(Text(noise_line(diagnosis), "yellow"))
    rest = [finding for finding in diagnosis.findings if finding is not first]
    _all_others(page, rest, step) if details else _unplanned(page, rest, later, step)
    page.gap()
    _not(page, diagnosis.not_advised, step, details)
    if details:
        _not_judged(page, diagnosis.not_judged)
    else:
        _to_capture(page, diagnosis.not_judged)


def _together(page: Page, diagnosis: Diagnosis) -> None:
    """What the whole plan buys, or why nothing is predicted."""
    replay, plan = diagnosis.replay, diagnosis.plan
    if not replay.valid:
        why = f"no gain is predicted that needs a replay: {plain(replay.because)}"
        page.paragraph(why, label="" if plan else "gains:")
    elif len(plan) > 1 and plan[-1].cumulative_speedup is not None:
        kept = "numerics change with " + ", ".join(p.rule for p in plan if p.numerics) if any_numerics(plan) else ""
        page.paragraph(joined([Text(f"together {speedup(plan[-1].cumulative_speedup)}", "green"), kept]))


def nothing_pays(diagnosis: Diagnosis) -> bool:
    """Whether every change is known to buy less than 2 %: none is planned, and what is not predicted is no warning."""
    if diagnosis.plan or not diagnosis.replay.valid or diagnosis.verdict.class_ == "undecided":
        return False
    if any(f.class_ == "validity" and f.severity == "critical" for f in diagnosis.findings):
        return False
    return not any(_may_pay(finding) for finding in diagnosis.findings if finding.class_ != "validity")


def _may_pay(finding: Finding) -> bool:
    if finding.predicted_speedup is None:
        return finding.severity != "info"
    return finding.predicted_speedup[1] >= WORTH_DOING


def nothing_text(diagnosis: Diagnosis) -> str:
    """That nothing is left to change, how near the hardware that is, and what could not be judged."""
    if diagnosis.plan:
        return "nothing that stands out from the noise of the steps; the changes below may still pay over a long run"
    fired = any(finding.class_ != "validity" for finding in diagnosis.findings)
    why = "no change is predicted to buy 2 %" if fired else "no rule fired"
    unknown = f"; {counted(len(diagnosis.not_judged), 'rule')} could not judge it" if diagnosis.not_judged else ""
    head = "nothing worth doing" if nothing_pays(diagnosis) else "nothing to change"
    return f"{head}: {why}{_of_achievable(diagnosis)}{unknown}"


def _of_achievable(diagnosis: Diagnosis) -> str:
    """The share of the step that its FLOPs need at the fastest product measured on this GPU, else MFU, else nothing."""
    points = {part.part: part.points for part in diagnosis.waterfall}
    if "below-datasheet" in points:
        needed = sum(points.get(part, 0.0) for part in AT_ACHIEVABLE)
        return f"; its FLOPs need {needed:.0f} % of the step at the fastest products measured on such a GPU"
    mfu = diagnosis.mfu.value
    return "" if mfu is None else f"; MFU is {spoken(mfu, 'share')}"


def planned_gain(step: PlanStep) -> str:
    """What the change buys in its place of the plan, and whether that is less than the noise."""
    gain = speedup(step.predicted_speedup)
    return f"{gain}, below the noise" if step.below_noise and gain else gain


def noise_line(diagnosis: Diagnosis) -> str:
    """What "below the noise" means here, "" where no change of the plan is."""
    noise = next((fact.value for fact in diagnosis.facts if fact.name == "step_noise_share"), None)
    if noise is None or not any(step.below_noise for step in diagnosis.plan):
        return ""
    apart = spoken(noise, "share")
    return f"below the noise: less than the {apart} by which steps of this window lie apart; more steps tell more"


def any_numerics(plan: Sequence[PlanStep]) -> bool:
    """Whether a change of the plan can change the training's results."""
    return any(planned.numerics for planned in plan)


def first_change(diagnosis: Diagnosis) -> Finding | None:
    """What makes the answer unsafe, else what opens the plan, else the first finding that is not about the capture.

    A plan of noise opens with nothing: then it is a finding of which no gain is known, or None.
    """
    findings = diagnosis.findings
    if findings and findings[0].class_ == "validity" and findings[0].severity == "critical":
        return findings[0]
    if diagnosis.plan and diagnosis.plan[0].below_noise:
        planned_rules = {step.rule for step in diagnosis.plan}
        rest = (f for f in findings if f.class_ != "validity" and f.rule not in planned_rules)
        return next((f for f in rest if f.predicted_speedup is None and f.severity != "info"), None)
    opener = diagnosis.plan[0].rule if diagnosis.plan else ""
    planned = next((f for f in findings if f.rule == opener), None)
    return planned or next((f for f in findings if f.class_ != "validity"), findings[0] if findings else None)


def headline(finding: Finding) -> Text:
    """Rule, severity and prediction."""
    severity = Text(finding.severity, SEVERITY_STYLE[finding.severity])
    gain = Text(speedup(finding.predicted_speedup), "bold green")
    return joined([Text(plain(finding.rule), "bold"), severity, gain])


def _full(page: Page, finding: Finding, step: str, details: bool) -> None:
    page.paragraph(plain(finding.says))
    if finding.evidence:
        page.field("evidence", evidence_line(finding.evidence))
    page.field("do", plain(finding.do))
    if details and finding.assumes:
        page.field("assumes", plain(finding.assumes))
    for i, line in enumerate(patch_lines(finding.patch)):
        page.field("" if i else "type", Text(line, "bold"))
    if details and flags_line(finding.patch):
        page.field("or", Text(flags_line(finding.patch), "bold"))


def brief(finding: Finding, step: str) -> Text:
    """Rule, prediction, and what to type; the first sentence when there is nothing to type."""
    return _brief(finding.rule, finding, speedup(finding.predicted_speedup), patch_lines(finding.patch), step)


def _planned(planned: PlanStep, diagnosis: Diagnosis, step: str) -> Text:
    finding = next((f for f in diagnosis.findings if f.rule == planned.rule), None)
    return _brief(planned.rule, finding, planned_gain(planned), patch_lines(planned.patch), step)


def _brief(rule: str, finding: Finding | None, gain: str, typed: Sequence[str], step: str) -> Text:
    says = first_sentence(finding.says) if finding else ""
    return joined([Text(plain(rule), "bold"), Text(gain, "green"), "; ".join(typed) or says])


def _all_others(page: Page, findings: Sequence[Finding], step: str) -> None:
    for i, finding in enumerate(findings):
        page.gap()
        page.paragraph(headline(finding), label="" if i else "also:")
        _full(page, finding, step, details=True)


def _unplanned(page: Page, findings: Sequence[Finding], plan: Sequence[PlanStep], step: str) -> None:
    """Findings with no place in the plan: the severe ones with a sentence, the others by name."""
    planned = {planned.rule for planned in plan}
    rest = [f for f in findings if f.rule not in planned and f.class_ != "validity"]
    entries = [
        joined([Text(plain(f.rule), "bold"), f.severity, first_sentence(f.says)]) for f in rest if f.severity != "info"
    ]
    names = ", ".join(plain(f.rule) for f in rest if f.severity == "info")
    if names:
        entries.append(Text(f"{names} (info: --details)"))
    page.entries("also:", entries, most=MOST_LINES)


def _not(page: Page, items: Sequence[NotAdvised], step: str, details: bool) -> None:
    shown = items if details else items[:NOT_SHOWN]
    texts = [joined([Text(plain(item.what), "bold"), plain(item.because)]) for item in shown]
    page.entries("not:", texts, len(items) - len(shown), most=0 if details else MOST_LINES)


def _to_capture(page: Page, items: Sequence[NotJudged]) -> None:
    """One line for each thing to capture, with the rules that it lets judge; least to do, then most rules first."""
    by_capture: dict[str, list[str]] = defaultdict(list)
    for item in items:
        by_capture[to_capture(item)].append(plain(item.rule))
    useless = len(by_capture.pop("", []))
    groups = sorted(by_capture.items(), key=lambda group: (group[0].count("; "), -len(group[1])))
    shown = [group for group in groups if group[0].count("; ") < 2][:CAPTURES_SHOWN]
    lines = [_capture_line(page, capture, rules) for capture, rules in shown]
    hidden = useless + sum(len(rules) for _, rules in groups) - sum(len(rules) for _, rules in shown)
    page.entries("not judged:", lines, hidden, most=MOST_LINES)


def _capture_line(page: Page, capture: str, rules: Sequence[str]) -> Text:
    """As many rules as fit the line, at least one, and how many more there are."""
    room = page.width - LABEL
    for shown in range(len(rules), 0, -1):
        more = f", +{len(rules) - shown}" if shown < len(rules) else ""
        line = Text.assemble((capture, "bold"), f" -> {', '.join(islice(rules, shown))}{more}")
        if cell_len(line.plain) <= room:
            break
    return line


def _not_judged(page: Page, items: Sequence[NotJudged]) -> None:
    """Every reason; rules that miss the same measurement share one entry."""
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        by_reason[plain(item.because), plain(item.capture_next)].append(plain(item.rule))
    for i, ((because, capture_next), rules) in enumerate(by_reason.items()):
        page.paragraph(joined([Text(", ".join(rules), "bold"), because]), label="" if i else "not judged:")
        if capture_next:
            page.field("do", capture_next)
