"""The one measured fact behind a verdict: who waits for what or runs what, in ms and in % of the step."""

from pathlib import PurePosixPath

from diagnose.attribution.causes import CAUSES
from diagnose.attribution.leading import WORKS
from diagnose.diagnosis import CauseClass, Diagnosis, Finding, Period, bounding
from diagnose.facts import HOST_STEP, STEP, duration
from diagnose.report.views.breakdown import Basis, basis
from diagnose.report.views.job_words import is_late, late_stage_lines, waited_share
from diagnose.report.views.operators import longest_operators
from diagnose.report.views.plain import plain
from diagnose.report.views.user_code import placed
from diagnose.report.views.words import causes_named

WORTH_NAMING = 0.05  # of the step: a smaller part explains little
NAMED = 2
_TOLD_PART = 0.2  # of what a slow step takes beyond the others
_MOST_OF = 0.7  # of its class: a finding that explains less is not the reason for the verdict
_ON_GPU: dict[CauseClass, str] = {
    "data": "The {gpu} {wait} for data for",
    "host": "The {gpu} {wait} for the host for",
    "communication": "Communication that nothing hides takes",
    "memory": "Kernels that wait for GPU memory take",
    "compute": "Arithmetic kernels take",
    "unexplained": "Time that the trace does not explain takes",
}
_ON_CPU: dict[CauseClass, str] = {
    "data": "The training thread waits for data for",
    "host": "Python and the code around the operators take",
    "communication": "Communication that nothing hides takes",
    "memory": "Operators that move memory take",
    "compute": "Operators that compute take",
    "unexplained": "Time that the trace does not explain takes",
}
_NO_WORKERS = "no loader workers run, so loading and training take turns"


def why_lines(diagnosis: Diagnosis) -> list[str]:
    """Sentences on what limits the step, the most telling first; empty if the capture shows no step."""
    verdict, of = diagnosis.verdict, basis(diagnosis)
    if verdict.withheld or not of.total_ns:
        numbers = verdict.doubts[0].says if verdict.doubts else verdict.because
        operators = longest_operators(diagnosis)
        longest = [f"The longest operators on the host: {', '.join(operators)}."] if operators else []
        return [*([_sentence(numbers)] if numbers not in ("", verdict.withheld) else []), *longest]
    classes = [c for c in map(bounding, verdict.between or (verdict.class_,)) if c != "undecided"]
    if not classes:
        return [_sentence(verdict.because), _of_class(diagnosis, _largest_class(diagnosis), of)]
    told = [_of_class(diagnosis, class_, of, again=class_ != classes[0]) for class_ in classes]
    finding = _finding_of(diagnosis, classes[0])
    if diagnosis.period is not None and _mostly_period(diagnosis, classes[0]):
        told = [period_sentence(diagnosis.period)]
    elif len(classes) == 1 and finding is not None:
        told = [_of_finding(finding, diagnosis, of)]
    return [*told, *_where(diagnosis), *_late(diagnosis, of)]


def _mostly_period(diagnosis: Diagnosis, class_: CauseClass) -> bool:
    """Whether the slow step of the period is most of what its class takes."""
    period = diagnosis.period
    if period is None:
        return False
    own = sum(share for cause, share in period.cause_shares.items() if CAUSES[cause].class_ == class_)
    whole = sum(entry.ns for entry in diagnosis.ledger)
    return own * period.share * whole > 0.5 * sum(entry.ns for entry in diagnosis.ledger if entry.class_ == class_)


def period_sentence(period: Period) -> str:
    """How often a slow step comes, what it takes, and what of the time that is."""
    what = f": {period.what or _parts_of(period)}" if period.what or period.recorded_step is not None else ""
    often = f"Every {period.every_steps:,} steps one" if period.regular else f"One step in {period.every_steps:,}"
    told = f"{often} takes {duration(period.more_ns)} more"
    on = f", on rank {period.rank} alone, for which the others wait" if period.rank is not None else ""
    return f"{told}, {percent(period.share)} of the time{on}{what}."


def _parts_of(period: Period) -> str:
    """The largest causes of what the recorded slow step takes beyond the others."""
    shares = sorted(period.cause_shares.items(), key=lambda each: -each[1])
    told = [f"{percent(share)} {CAUSES[cause].spoken}" for cause, share in shares[:2] if share >= _TOLD_PART]
    return f"of that {' and '.join(told)}, by step {period.recorded_step:,}"


def _largest_class(diagnosis: Diagnosis) -> CauseClass:
    """The class that takes most of the step."""
    sums = class_ns(diagnosis)
    return max(sums, key=lambda class_: sums[class_])


def class_ns(diagnosis: Diagnosis) -> dict[CauseClass, int]:
    """The time of each class over all counted steps."""
    sums: dict[CauseClass, int] = dict.fromkeys(_ON_GPU, 0)
    for part in diagnosis.waterfall or diagnosis.ledger:
        sums[part.class_] += part.ns
    return sums


def _sentence(text: str) -> str:
    """The clause as a sentence."""
    clause = plain(text).rstrip(".")
    return f"{clause[:1].upper()}{clause[1:]}."


def _finding_of(diagnosis: Diagnosis, class_: CauseClass) -> Finding | None:
    """The finding that explains most of the class, if it explains half of it; the chosen change's own comes first."""
    of_class = [f for f in diagnosis.findings if f.class_ == class_ and f.title and _share(f, diagnosis) is not None]
    of_class.sort(key=lambda f: (f.rule != diagnosis.next.rule, -(_share(f, diagnosis) or 0.0)))
    share = class_ns(diagnosis)[class_] / max(basis(diagnosis).total_ns, 1)
    return next((f for f in of_class if (_share(f, diagnosis) or 0.0) >= _MOST_OF * share), None)


def _share(finding: Finding, diagnosis: Diagnosis) -> float | None:
    """The first share of the step that the finding rests on."""
    shares = (e.value for e in finding.evidence if e.unit == "share" and e.of in (STEP, HOST_STEP))
    of_usual = next((float(value) for value in shares if not isinstance(value, str)), None)
    return of_usual if of_usual is None else of_usual * usual_part(diagnosis)


def usual_part(diagnosis: Diagnosis) -> float:
    """The part of the breakdown's step that evidence of the counted steps is about: all but a period's slow step."""
    return 1.0 if diagnosis.period is None else 1 - diagnosis.period.share


def _of_finding(finding: Finding, diagnosis: Diagnosis, of: Basis) -> str:
    """The fault with its share of the step, and why it takes that long if that is known."""
    told = f"{finding.title}: {taken(_share(finding, diagnosis) or 0.0, of)}"
    workers = diagnosis.fact("loader_workers")
    return f"{told}; {_NO_WORKERS}." if finding.rule == "data-wait" and workers == "none" else f"{told}."


def taken(share: float, of: Basis) -> str:
    """`56.7 ms of each 175.5 ms step (32 %)`."""
    each = of.per_step(round(share * of.total_ns))
    return f"{each} of each {of.per_step(of.total_ns)} step ({percent(share)})"


def percent(share: float) -> str:
    """A share in prose: "32 %", "3.5 %"."""
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def _of_class(diagnosis: Diagnosis, class_: CauseClass, of: Basis, again: bool = False) -> str:
    """The class with its time, and the largest causes in it; `again` of the same step, whose length is said."""
    on_device = diagnosis.steps.device_time_ns is not None
    several = len(diagnosis.ranks) > 1 and diagnosis.rank is None
    subject = (_ON_GPU if on_device else _ON_CPU)[class_]
    subject = subject.format(gpu="GPUs" if several else "GPU", wait="wait" if several else "waits")
    share = class_ns(diagnosis)[class_] / of.total_ns
    told = f"{subject} {of.per_step(class_ns(diagnosis)[class_])} ({percent(share)})" if again else ""
    told = told or f"{subject} {taken(share, of)}"
    parts = _parts(diagnosis, class_, of)
    return f"{told}: {', '.join(parts)}." if parts else f"{told}."


def _parts(diagnosis: Diagnosis, class_: CauseClass, of: Basis) -> list[str]:
    if class_ in WORKS and (operators := longest_operators(diagnosis)):
        return operators
    named = causes_named(diagnosis)
    entries = sorted((e for e in diagnosis.ledger if e.class_ == class_), key=lambda e: -e.ns)
    shown = [e for e in entries if e.ns >= WORTH_NAMING * of.total_ns][:NAMED]
    return [f"{named(e.cause)} {of.per_step(e.ns)}" for e in shown]


def _where(diagnosis: Diagnosis) -> list[str]:
    """A sentence on the line of the user's code that the next change is about; none if no line is known."""
    lines = diagnosis.next.where
    if not lines:
        return []
    first = lines[0]
    place = placed(first.function, PurePosixPath(first.file).name, first.line)
    return [plain(f"{place} takes {percent(first.share)} of {first.of}.")]


def _late(diagnosis: Diagnosis, of: Basis) -> list[str]:
    """A sentence on the worst late rank; none without one."""
    stragglers = diagnosis.stragglers
    if not stragglers:
        stages = [line.partition(":")[0] for line in late_stage_lines(diagnosis)]
        return [_sentence(f"{stage}, and the others wait for it") for stage in stages[:1]]
    first = stragglers[0]
    waited = of.per_step(round(waited_share(first, diagnosis) * of.total_ns))
    late = is_late(first, suspected="")
    return [f"Rank {first.rank} {late}: the others wait {waited} for it."]
