"""The diagnosis as events of Kineto's format: a process of its own with the steps, the causes and the findings.

Times are nanoseconds on the trace's own clock; Chrome's format counts microseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from diagnose.attribution.causes import COPIES, WITHOUT_KERNELS
from diagnose.diagnosis import Diagnosis, Finding
from diagnose.metrics import Measured
from diagnose.report.views.gains import gain_of
from diagnose.report.views.words import cause_name, evidence_line, patch_lines

Event = dict[str, Any]
PROCESS = (1 << 22) - 1  # the last that Linux gives out, so hardly one that is traced
STEPS, CAUSES, FINDINGS = 1, 2, 10


def micros(ns: int) -> msgspec.Raw:
    """Microseconds with three decimals: doubles would round absolute times."""
    whole, rest = divmod(abs(ns), 1000)
    return msgspec.Raw(b"%s%d.%03d" % (b"-" if ns < 0 else b"", whole, rest))


@dataclass(frozen=True)
class ProcessTrack:
    """The process id of a rank's track, and the nanoseconds to add to its times."""

    process: int = PROCESS
    shift: int = 0


def tracks(diagnosis: Diagnosis, measured: Measured, track: ProcessTrack) -> Iterator[Event]:
    """The events of one rank; the findings of its job are on every rank's track."""
    process, rank = track.process, measured.timeline.rank
    yield _meta("process_name", process, 0, name=f"diagnose, rank {rank}: {diagnosis.verdict.class_}")
    yield _meta("process_sort_index", process, 0, sort_index=-1)
    for number, name in ((STEPS, "steps"), (CAUSES, "idle and waiting")):
        yield _meta("thread_name", process, number, name=name)
    yield from _steps(measured, track)
    yield from _causes(measured, track)
    yield from _findings(diagnosis, measured, track)


def _meta(kind: str, process: int, thread: int, **args: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": args}


def _slice(name: str, thread: int, track: ProcessTrack, begin: int, end: int, **args: Any) -> Event:
    times = {"ts": micros(begin + track.shift), "dur": micros(end - begin)}
    return {"ph": "X", "cat": "diagnose", "name": name, "pid": track.process, "tid": thread, **times, "args": args}


def _steps(measured: Measured, track: ProcessTrack) -> Iterator[Event]:
    numbers, attribution = measured.timeline.steps.numbers, measured.attribution
    for number, (begin, end) in zip(numbers, attribution.windows.tolist(), strict=True):
        yield _slice(f"step {number}", STEPS, track, begin, end, length_ms=(end - begin) / 1e6)


def _causes(measured: Measured, track: ProcessTrack) -> Iterator[Event]:
    """The pieces in which no kernel runs but the device idles, copies, or waits for others."""
    attribution = measured.attribution
    shown = [cause in WITHOUT_KERNELS or cause in COPIES for cause in attribution.causes]
    names = [cause_name(cause, divided=measured.job.undivided is None) for cause in attribution.causes]
    pieces = (attribution.start.tolist(), attribution.end.tolist(), attribution.cause.tolist())
    for begin, end, cause in zip(*pieces, strict=True):
        if shown[cause] and end > begin:
            args = {"cause": attribution.causes[cause], "class": attribution.classes[cause]}
            yield _slice(names[cause], CAUSES, track, begin, end, **args)


def _findings(diagnosis: Diagnosis, measured: Measured, track: ProcessTrack) -> Iterator[Event]:
    """Events of each finding over the counted steps, on a thread of its own, together with its advice."""
    windows = measured.attribution.windows
    if not len(windows):
        return
    begin, end = int(windows[0, 0]), int(windows[-1, 1])
    for number, finding in enumerate(diagnosis.findings):
        yield _meta("thread_name", track.process, FINDINGS + number, name=f"finding: {finding.rule}")
        title = f"{finding.rule}: {finding.says}"
        yield _slice(title, FINDINGS + number, track, begin, end, **_advice(finding))


def _advice(finding: Finding) -> dict[str, Any]:
    told: Sequence[tuple[str, str]] = (
        ("severity", finding.severity),
        ("do", finding.do),
        ("type", "\n".join(patch_lines(finding.patch))),
        ("buys", gain_of(finding)),
        ("evidence", evidence_line(finding.evidence)),
    )
    return {key: text for key, text in told if text}
