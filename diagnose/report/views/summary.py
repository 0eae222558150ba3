"""The top and the foot of every report: the verdict with its grounds, and the sources of the numbers."""

from statistics import median

import msgspec

from diagnose.diagnosis import Diagnosis, Finding, Steps, TraceSummary, Verdict, bounding
from diagnose.facts import NEAR_NOTHING, duration, spoken
from diagnose.judge.verdict import NAMES_THE_CLASS, NEAR, is_close
from diagnose.report.views.breakdown import CLASS_NAMES, WHOLE, basis
from diagnose.report.views.job_words import straggler_line
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted, mfu_details, mfu_line, spans

NOTHING_TRAINS = (
    "nothing trains here: the capture shows no backward pass and no optimizer, so advice on training is left out"
)
LIGHT_FROM = 1.2  # profiled over unprofiled step time: above it the latter's parts are shown, too
LIGHT_SHOWN = 4
_FILES_SHOWN = 4
OTHER_PROCESSES = "gpu-activity-of-other-processes"  # of an export: they hardly use the GPU
_STEP_SOURCES = {
    "window": "the whole capture, no step marks were found",
    "unlinked steps": "the whole capture, since no GPU activity is linked to a launch in its step marks",
    "pattern": "found by the repeating pattern of kernels",
}


class About(msgspec.Struct, frozen=True):
    """The program that wrote a report: the version of diagnose, and the command line, "" if there was none."""

    version: str
    command: str = ""

    def rows(self, diagnosis: Diagnosis) -> list[tuple[str, str]]:
        """Rows of (name, value) to go with the provenance."""
        rows = [("diagnose", f"{self.version}, schema version {diagnosis.schema_version}"), ("command", self.command)]
        return [row for row in rows if row[1]]


class VerdictView(msgspec.Struct, frozen=True):
    """The verdict and its grounds.

    `key` is the class that colours it, `training` a note if nothing trains, `warning` names an option that had no
    effect.
    """

    key: str
    class_: str
    step_ns: str
    of: str
    mfu: str
    confidence: str
    between: str
    because: str
    training: str
    mfu_line: str
    mfu_details: list[str]
    warning: str


def verdict_view(diagnosis: Diagnosis) -> VerdictView:
    """The verdict in words."""
    verdict, of, mfu = diagnosis.verdict, basis(diagnosis), diagnosis.mfu
    key = bounding(verdict.class_)
    small = mfu.value is not None and mfu.value < NEAR_NOTHING
    both = " and ".join(verdict.between)
    return VerdictView(
        key=key if key in CLASS_NAMES else "unexplained",
        class_=verdict.class_,
        step_ns=duration(of.step_ns),
        of=of.name,
        mfu="unknown" if mfu.value is None else "below 0.1 %" if small else spoken(mfu.value, "share"),
        confidence=verdict.confidence,
        between=f"{both}: {_why_between(diagnosis)}" if len(verdict.between) > 1 else "",
        because=_with_doubts(verdict),
        training=NOTHING_TRAINS if diagnosis.trains is False else "",
        mfu_line=mfu_line(mfu),
        mfu_details=[mfu_line(mfu, details=True), *mfu_details(mfu)] if mfu.value is not None else [],
        warning=mfu.unused_option,
    )


def _with_doubts(verdict: Verdict) -> str:
    """The reason for the verdict, and those for less than high confidence in it."""
    return "; ".join(filter(None, (verdict.because, doubts_of(verdict))))


def doubts_of(verdict: Verdict) -> str:
    """The reasons for less than high confidence in the verdict, or those beside the one for none, as a clause."""
    doubts = " and ".join(doubt.says for doubt in verdict.doubts[1 if verdict.withheld else 0 :])
    so = "besides" if verdict.withheld else f"confidence is {verdict.confidence} because"
    return f"{so} {doubts}" if doubts else ""


def notes_of(diagnosis: Diagnosis) -> list[Finding]:
    """The findings about the capture that make the numbers less certain, but for those that a doubt speaks for."""
    told = {doubt.rule for doubt in diagnosis.verdict.doubts}
    return [finding for finding in diagnosis.findings if finding.class_ == "validity" and finding.rule not in told]


def history_lines(diagnosis: Diagnosis) -> list[str]:
    """Sentences on the changes of the step time over the run."""
    return [change.says for change in diagnosis.history]


def late_rank_lines(diagnosis: Diagnosis) -> list[str]:
    """A sentence for each late rank on why it is late, and its cost."""
    of = basis(diagnosis)
    return [straggler_line(straggler, diagnosis, of) for straggler in diagnosis.stragglers]


def _why_between(diagnosis: Diagnosis) -> str:
    """The reason why the two classes are close."""
    verdict = diagnosis.verdict
    if not is_close(diagnosis.ledger, verdict.between):
        return "what the trace does not show decides between them"
    near, names = f"{100 * NEAR:.3g} points", f"{100 * NAMES_THE_CLASS:.3g} %"
    if len({"memory-bound", "compute-bound"} & set(verdict.between)) == 1:
        return f"the waiting is within {near} of the {names} of the step from which it names the class"
    return f"they are within {near} of each other"


def steps_line(diagnosis: Diagnosis) -> str:
    """A sentence on the number of counted steps and ranks, and the marks of the steps."""
    steps = diagnosis.steps
    source = plain(_STEP_SOURCES.get(steps.source, f"marked by {steps.source}"))
    if steps.numbers:
        source += f": {'steps' if len(steps.numbers) > 1 else 'step'} {spans(steps.numbers)}"
    ranks = len(diagnosis.ranks)
    over = "" if ranks <= 1 else f", 1 on each of {ranks} ranks" if steps.count == ranks else f" over {ranks} ranks"
    if diagnosis.rank is not None:
        over = f" of rank {diagnosis.rank} alone, one of {ranks}"
    host = ""
    if steps.device_time_ns is None:
        host = "; no GPU activity, so host steps are accounted"
    elif _is_told_apart(steps):
        host = f"; on the host a step takes {duration(steps.time_ns / steps.count)}"
    return f"{steps.count:,} counted{over}{_processes(diagnosis)}, {source}{host}{_light(diagnosis)}"


def _processes(diagnosis: Diagnosis) -> str:
    """The processes that the ranks of an export are, if there is more than one in it; else ""."""
    told, trace = diagnosis.trace.processes, diagnosis.trace
    if len(told) < 2 and not (told and OTHER_PROCESSES in trace.loss.kinds):
        return ""
    more = f"; +{len(told) - _FILES_SHOWN} more" if len(told) > _FILES_SHOWN else ""
    return f" ({plain('; '.join(told[:_FILES_SHOWN]))}{more})"


def _light(diagnosis: Diagnosis) -> str:
    """A clause on the host's time without the profiler; "" if that hardly differs, or was not timed."""
    parts, factor = diagnosis.steps.light_parts, _fact(diagnosis, "profiler_overhead_factor")
    if not parts or factor is None or factor < LIGHT_FROM:
        return ""
    named = [part for part in parts if part.range][:LIGHT_SHOWN]
    lines = [f"{_range_name(part.range)} {spoken(part.share, 'share')}" for part in named]
    rest = spoken(max(1 - sum(part.share for part in named), 0.0), "share")
    step = duration(_light_step_ns(diagnosis.steps))
    return f"; without the profiler the host's step is {step}: {', '.join(lines)}, anything else {rest}"


def _light_step_ns(steps: Steps) -> float:
    """The host's step without the profiler: of a job without a GPU the median one, as everywhere else in the report."""
    if steps.device_time_ns is None and steps.unprofiled_ns:
        return median(steps.unprofiled_ns)
    return sum(part.ns for part in steps.light_parts)


def _range_name(name: str) -> str:
    return plain(name.removeprefix("diagnose.").replace("_", " "))


def _fact(diagnosis: Diagnosis, name: str) -> float | None:
    value = diagnosis.fact(name)
    return float(value) if isinstance(value, int | float) else None


def _is_told_apart(steps: Steps) -> bool:
    """Whether steps on the host last otherwise than on the device; a window without marks is no step of the host."""
    if steps.source in WHOLE or not steps.count or steps.device_time_ns is None:
        return False
    return abs(steps.time_ns - steps.device_time_ns) > 0.05 * steps.device_time_ns


class Provenance(msgspec.Struct, frozen=True):
    """Rows of (name, value), and the files."""

    rows: list[tuple[str, str]]
    files: tuple[str, ...]


def provenance_view(diagnosis: Diagnosis) -> Provenance:
    """The provenance: what was read, what was lost of it, and the devices."""
    trace, replay = diagnosis.trace, diagnosis.replay
    devices = ", ".join(dict.fromkeys(rank.device for rank in diagnosis.ranks))
    error = spoken(replay.strict_error or 0.0, "share")
    how_far = f"{error} off the measured step" if replay.valid else f"not used: {replay.because}"
    rows = [
        ("read", f"{counted(len(trace.files), 'file')}, {counted(trace.events, 'event')}, "
                 f"{spoken(trace.bytes, 'bytes')} of JSON"),
        ("shapes", shapes_line(trace)),
        ("lost", loss_line(trace) or "nothing"),
        ("devices", devices),
        ("began", diagnosis.origin.began),
        ("Slurm job", diagnosis.origin.slurm_job),
        ("replay", how_far),
        *((name.replace("_", " "), value) for name, value in diagnosis.versions.items()),
    ]  # fmt: skip
    return Provenance(rows=[row for row in rows if row[1]], files=trace.files)


def shapes_line(trace: TraceSummary) -> str:
    """The execution traces that supplied the shapes of the operators, "" if the shapes are the traces' own."""
    several = "s" if len(trace.shapes_of) > 1 else ""
    return f"from the execution trace{several} {', '.join(map(plain, trace.shapes_of))}" if trace.shapes_of else ""


def loss_line(trace: TraceSummary) -> str:
    """The part of the files that could not be read, "" if nothing was lost."""
    return "; ".join(part for part in (_unread_files(trace), _unread_parts(trace)) if part)


def _unread_files(trace: TraceSummary) -> str:
    """The files of the job in which there is no trace."""
    if not trace.unreadable:
        return ""
    shown, more = trace.unreadable[:_FILES_SHOWN], len(trace.unreadable) - _FILES_SHOWN
    names = ", ".join(plain(file) for file in shown) + (f" and {counted(more, 'more file')}" if more > 0 else "")
    return f"no trace can be read in {names}: empty, or cut off before the first event"


def _unread_parts(trace: TraceSummary) -> str:
    """The part that is missing in the files that were read."""
    loss = trace.loss
    if not (loss.events or loss.bytes or loss.truncated or loss.kinds):
        return ""
    parts = [
        counted(loss.events, "event") if loss.events else "",
        f"{spoken(loss.bytes, 'bytes')} of {spoken(trace.bytes, 'bytes')}" if loss.bytes else "",
        "the file ends early" if loss.truncated else "",
    ]
    kinds = f" ({', '.join(plain(kind) for kind in loss.kinds)})" if loss.kinds else ""
    return ("; ".join(part for part in parts if part) or "values that cannot be") + kinds
