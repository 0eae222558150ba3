"""Views of what to change, what would not help, and what could not be judged, for every report."""

import msgspec

from diagnose.diagnosis import Diagnosis, Finding, PlanStep
from diagnose.diagnosis.terms import may_slow
from diagnose.report.views.gains import gain_of, reason_wide, together
from diagnose.report.views.to_try import command_with
from diagnose.report.views.user_code import no_line, where_line
from diagnose.report.views.why import percent
from diagnose.report.views.words import first_sentence, flags_line, patch_lines, to_capture

BELOW_NOISE = "smaller than the noise"
UNMEASURABLE = "too little for a short run to measure"
EFFORTS = {"setting": "a setting", "code": "a change of code", "cluster": "a change of the cluster"}


class Headline(msgspec.Struct, frozen=True):
    """The change first, `action: gain`, then the fault that it mends; of a rule without an action its name alone.

    `slows`: whether the change may slow the step down, so that its gain is no good news.
    """

    action: str
    gain: str
    fault: str
    slows: bool = False

    @property
    def line(self) -> str:
        """The change with its gain."""
        return f"{self.action}: {self.gain}" if self.gain else self.action


class ChangeView(msgspec.Struct, frozen=True):
    """One change with its own gain, that of the plan so far, and the lines to copy, `flags` for a script.

    `where` are the lines of the user's code that it is about, `record` how such predictions turned out before, "" if
    unknown; `apply` is the command that runs the job with it, with the script unedited, "" if no run can.
    """

    rule: str
    headline: Headline
    severity: str
    together: str
    says: str
    do: str
    effort: str
    numerics: bool
    typed: list[str]
    flags: str
    apply: str
    where: str
    record: str


class Full(msgspec.Struct, frozen=True):
    """A finding in full; `where` are its lines of code, `no_line` the reason why there are none.

    `record` is how such predictions turned out before, "" if unknown.
    """

    finding: Finding
    headline: Headline
    typed: list[str]
    flags: str
    apply: str
    where: str
    no_line: str
    record: str


class CaptureAdvice(msgspec.Struct, frozen=True):
    """What to capture, `things` items, and the rules that can then be judged, each with the reason why it could not."""

    what: str
    things: int
    rules: list[tuple[str, str]]


class PlanView(msgspec.Struct, frozen=True):
    """The next change, if `is_judged`, and the plan. `nothing` is why there is no next change, "" if there is one.

    `joined` says why the next change is not of the class that bounds the step, "" if it is.

    `together` is the gain of the whole plan and `numerics` its rules that can change the training's results; `withheld`
    is the reason why nothing that needs a replay is predicted. `also` are the findings with no place elsewhere.
    """

    nothing: str
    joined: str
    is_judged: bool
    next: Full | None
    plan: list[ChangeView]
    together: str
    numerics: list[str]
    noise: str
    withheld: str
    also: list[Full]


def plan_view(diagnosis: Diagnosis) -> PlanView:
    """The next change, the plan, and the findings that are in neither."""
    answer, plan, replay = diagnosis.next, diagnosis.plan, diagnosis.replay
    told = {step.rule for step in plan} | {answer.rule}
    chosen = diagnosis.finding(answer.rule)
    return PlanView(
        nothing=answer.says if chosen is None else "",
        joined=answer.of_another_class,
        is_judged=answer.kind != "unknown",
        next=None if chosen is None else _full(chosen, diagnosis),
        plan=[_change(diagnosis, at) for at in range(len(plan))],
        together=together(plan[-1].together) if len(plan) > 1 and replay.valid else "",
        numerics=[step.rule for step in plan if step.numerics],
        noise=_noise_line(diagnosis),
        withheld="" if replay.valid else replay.because,
        also=[_full(f, diagnosis) for f in diagnosis.findings if f.rule not in told and f.class_ != "validity"],
    )


def findings_view(diagnosis: Diagnosis) -> list[Full]:
    """Every finding."""
    return [_full(finding, diagnosis) for finding in diagnosis.findings]


def _full(finding: Finding, diagnosis: Diagnosis) -> Full:
    return Full(
        finding=finding,
        headline=headline(finding, _explained_gain(finding, diagnosis)),
        typed=patch_lines(finding.patch),
        flags=flags_line(finding.patch),
        apply=command_with(diagnosis, finding.rule, finding.patch),
        where=where_line(finding.where),
        no_line=no_line(finding),
        record=record_line(diagnosis, finding.rule),
    )


def record_line(diagnosis: Diagnosis, rule: str) -> str:
    """How earlier predictions of the rule turned out, by the user's own record; "" if there are none."""
    own = next((record for record in diagnosis.track_records if record.rule == rule), None)
    return f"on this machine {own.inside} of {own.promises} such gains fell in the predicted range" if own else ""


def headline(finding: Finding, told: str) -> Headline:
    """The finding by what to do about it."""
    fault, slows = finding.rule if finding.action else "", may_slow(finding.predicted_speedup)
    return Headline(finding.action or finding.rule, told, fault, slows)


def _explained_gain(finding: Finding, diagnosis: Diagnosis) -> str:
    """The gain, whether a short run can measure it, and why its range is wide."""
    step = next((step for step in diagnosis.plan if step.rule == finding.rule and step.unmeasurable), None)
    told = gain_of(finding)
    return _with_notes(told, UNMEASURABLE if step else "", reason_wide(finding))


def _with_notes(told: str, note: str, wide: str) -> str:
    return "; ".join(filter(None, (told, note, wide and f"wide, because {wide}"))) if told else ""


def _change(diagnosis: Diagnosis, at: int) -> ChangeView:
    step = diagnosis.plan[at]
    finding = diagnosis.finding(step.rule)
    told = _planned_gain(step)
    return ChangeView(
        rule=step.rule,
        headline=_planned_headline(finding, step, told) if finding else Headline(step.rule, told, ""),
        severity=finding.severity if finding else "",
        together=together(step.together) if at else "",
        says=first_sentence(finding.says) if finding else "",
        do=finding.do if finding else "",
        effort=EFFORTS.get(step.effort, step.effort),
        numerics=step.numerics,
        typed=patch_lines(step.patch),
        flags=flags_line(step.patch),
        apply=command_with(diagnosis, step.rule, step.patch),
        where=where_line(finding.where) if finding else "",
        record=record_line(diagnosis, step.rule),
    )


def _planned_headline(finding: Finding, step: PlanStep, told: str) -> Headline:
    return msgspec.structs.replace(headline(finding, told), slows=may_slow(step.predicted_speedup))


def _planned_gain(step: PlanStep) -> str:
    """The gain of the change at its place in the plan, with a note if that is less than the noise."""
    note = BELOW_NOISE if step.below_noise else UNMEASURABLE if step.unmeasurable else ""
    return _with_notes(gain_of(step), note, "")


def _noise_line(diagnosis: Diagnosis) -> str:
    """An explanation of "smaller than the noise" for this job, "" if no change of the plan is."""
    noise = diagnosis.fact("mean_step_noise_share")
    if isinstance(noise, str) or noise is None or not any(step.below_noise for step in diagnosis.plan):
        return ""
    return f"the noise: these steps tell the mean step to {percent(noise)}; record more steps to see smaller gains"


def captures_view(diagnosis: Diagnosis) -> list[CaptureAdvice]:
    """Rules by what to capture, most rules first; those that no capture would help come last."""
    by_capture: dict[str, CaptureAdvice] = {}
    for item in diagnosis.not_judged:
        what = to_capture(item)
        by_capture.setdefault(what, CaptureAdvice(what, len(item.captures), [])).rules.append((item.rule, item.because))
    return sorted(by_capture.values(), key=lambda capture: (not capture.what, -len(capture.rules)))
