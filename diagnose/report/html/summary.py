"""The top and the foot of the page: the verdict with its grounds, and where the numbers come from."""

from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis, Finding
from diagnose.facts import duration, spoken
from diagnose.report.applied import applied_line, got_slower
from diagnose.report.job_words import missing_line, told
from diagnose.report.ledger import CLASS_NAMES, basis
from diagnose.report.text import loss_line, steps_line, why_between
from diagnose.report.words import counted, mfu_details, mfu_line, unused_option


@dataclass(frozen=True)
class Summary:
    """The verdict and what it rests on; `key` is the class that colours it."""

    key: str
    class_: str
    step_ns: str
    of: str
    mfu: str
    confidence: str
    between: str
    because: str
    mfu_line: str
    mfu_details: list[str]
    warning: str
    steps: str
    applied: str
    slower: bool
    missing: str
    history: list[str]
    stragglers: list[str]
    notes: list[Finding]


def summary_view(diagnosis: Diagnosis) -> Summary:
    """The verdict as the terminal words it."""
    verdict, of, mfu = diagnosis.verdict, basis(diagnosis), diagnosis.mfu
    key = verdict.class_.removesuffix("-bound")
    small = mfu.value is not None and mfu.value < 0.0005
    both = " and ".join(verdict.between)
    return Summary(
        key=key if key in CLASS_NAMES else "unexplained",
        class_=verdict.class_,
        step_ns=duration(of.step_ns),
        of=of.name,
        mfu="unknown" if mfu.value is None else "below 0.1 %" if small else spoken(mfu.value, "share"),
        confidence=verdict.confidence,
        between=f"Between {both}: {why_between(verdict)}." if len(verdict.between) > 1 else "",
        because=verdict.because,
        mfu_line=mfu_line(mfu),
        mfu_details=[mfu_line(mfu, details=True), *mfu_details(mfu)] if mfu.value is not None else [],
        warning=unused_option(mfu),
        steps=steps_line(diagnosis),
        applied=applied_line(diagnosis.applied),
        slower=got_slower(diagnosis.applied),
        missing=missing_line(diagnosis) if diagnosis.postmortem else "",
        history=[change.says for change in diagnosis.history],
        stragglers=[told(straggler, diagnosis, of) for straggler in diagnosis.stragglers],
        notes=[finding for finding in diagnosis.findings if finding.class_ == "validity"],
    )


@dataclass(frozen=True)
class Provenance:
    """Rows of (name, value), and the files."""

    rows: list[tuple[str, str]]
    files: tuple[str, ...]


def provenance_view(diagnosis: Diagnosis, version: str, command: str) -> Provenance:
    """What was read, what was lost of it, and what read it."""
    trace, replay = diagnosis.trace, diagnosis.replay
    devices = ", ".join(dict.fromkeys(rank.device for rank in diagnosis.ranks))
    error = spoken(replay.strict_error or 0.0, "share")
    how_far = f"{error} off the measured step" if replay.valid else f"not used: {replay.because}"
    rows = [
        ("read", f"{counted(len(trace.files), 'file')}, {counted(trace.events, 'event')}, "
                 f"{spoken(trace.bytes, 'bytes')} of JSON"),
        ("lost", loss_line(trace) or "nothing"),
        ("devices", devices),
        ("replay", how_far),
        *((name.replace("_", " "), value) for name, value in diagnosis.versions.items()),
        ("diagnose", f"{version}, schema version {diagnosis.schema_version}"),
        ("command", command),
    ]  # fmt: skip
    return Provenance(rows=[row for row in rows if row[1]], files=trace.files)
