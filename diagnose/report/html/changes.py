"""What to change, what would not help, and what could not be judged, in the terminal's words."""

from collections import defaultdict
from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis, Finding, NotAdvised, Patch
from diagnose.report.changes import any_numerics, first_change, noise_line, nothing_pays, nothing_text, planned_gain
from diagnose.report.words import first_sentence, flags_line, patch_lines, speedup, to_capture

EFFORTS = {"setting": "a setting", "code": "a change of code", "cluster": "a change of the cluster"}


@dataclass(frozen=True)
class Change:
    """One change: its own `gain`, that of the plan so far, and the lines to copy, `flags` for a script."""

    rule: str
    severity: str
    gain: str
    together: str
    says: str
    do: str
    effort: str
    numerics: bool
    typed: list[str]
    flags: str


@dataclass(frozen=True)
class Full:
    """A finding with everything that is known of it."""

    finding: Finding
    gain: str
    typed: list[str]
    flags: str


@dataclass(frozen=True)
class Capture:
    """What to capture, and the rules that can be judged then, each with the reason why it could not."""

    what: str
    rules: list[tuple[str, str]]


@dataclass(frozen=True)
class Changes:
    """`nothing` says why there is no next change, "" where there is one."""

    nothing: str
    next: Finding | None
    next_gain: str
    next_typed: list[str]
    plan: list[Change]
    together: str
    numerics: list[str]
    noise: str
    withheld: str
    also: list[tuple[Finding, str]]
    findings: list[Full]
    not_advised: tuple[NotAdvised, ...]
    captures: list[Capture]


def changes_view(diagnosis: Diagnosis) -> Changes:
    """The plan and all that stands beside it."""
    first, plan, replay = first_change(diagnosis), diagnosis.plan, diagnosis.replay
    nothing = first is None or nothing_pays(diagnosis)
    planned = {step.rule for step in plan}
    unplanned = [f for f in diagnosis.findings if f.rule not in planned and f.class_ != "validity" and f is not first]
    return Changes(
        nothing=nothing_text(diagnosis) if nothing else "",
        next=None if nothing else first,
        next_gain="" if first is None else speedup(first.predicted_speedup),
        next_typed=[] if first is None else patch_lines(first.patch),
        plan=[_change(diagnosis, at) for at in range(len(plan))],
        together=speedup(plan[-1].cumulative_speedup) if len(plan) > 1 and replay.valid else "",
        numerics=[step.rule for step in plan if step.numerics] if any_numerics(plan) else [],
        noise=noise_line(diagnosis),
        withheld="" if replay.valid else replay.because,
        also=[(finding, first_sentence(finding.says)) for finding in unplanned],
        findings=[_full(finding) for finding in diagnosis.findings],
        not_advised=diagnosis.not_advised,
        captures=_captures(diagnosis),
    )


def _full(finding: Finding) -> Full:
    return Full(finding, speedup(finding.predicted_speedup), patch_lines(finding.patch), flags_line(finding.patch))


def _change(diagnosis: Diagnosis, at: int) -> Change:
    step = diagnosis.plan[at]
    finding = next((f for f in diagnosis.findings if f.rule == step.rule), None)
    patch: Patch | None = step.patch
    return Change(
        rule=step.rule,
        severity=finding.severity if finding else "",
        gain=planned_gain(step),
        together=speedup(step.cumulative_speedup) if at else "",
        says=first_sentence(finding.says) if finding else "",
        do=finding.do if finding else "",
        effort=EFFORTS.get(step.effort, step.effort),
        numerics=step.numerics,
        typed=patch_lines(patch),
        flags=flags_line(patch),
    )


def _captures(diagnosis: Diagnosis) -> list[Capture]:
    """Rules by what to capture, most rules first; those that no capture would help come last."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for item in diagnosis.not_judged:
        found[to_capture(item)].append((item.rule, item.because))
    ordered = sorted(found.items(), key=lambda group: (not group[0], -len(group[1])))
    return [Capture(what, rules) for what, rules in ordered]
