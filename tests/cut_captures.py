"""Captures of other people's programs, and what can be done to one: events taken out, or moved."""

import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

DATA = Path(__file__).parent / "strangers" / "data"
SAMPLES = Path(__file__).parents[1] / "sample_traces"
Event = dict[str, Any]
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


@cache
def answer_for(name: str) -> Diagnosis:
    """The diagnosis of a file of `data/`."""
    return analyze(DATA / f"{name}.json.gz")


@cache
def read(path: Path) -> dict[str, Any]:
    """The trace of a file, which nobody changes: what is made of it is a trace of its own."""
    found: dict[str, Any] = msgspec.json.decode(gzip.decompress(path.read_bytes()))
    return found


def only(trace: dict[str, Any], kept: Callable[[Event], bool]) -> dict[str, Any]:
    """The trace with the events that are to be kept."""
    return trace | {"traceEvents": [event for event in trace["traceEvents"] if kept(event)]}


def is_gpu(event: Event) -> bool:
    """Whether the event is an activity of a GPU."""
    return event.get("cat") in GPU


def without_gpu(trace: dict[str, Any], first: float = 0.0, last: float = 1.0) -> dict[str, Any]:
    """The trace without the GPU's activities from one part of them, by begin, to another."""
    begins = sorted(event["ts"] for event in trace["traceEvents"] if is_gpu(event))
    gone = {*begins[round(first * len(begins)) : round(last * len(begins))]}
    return only(trace, lambda event: not is_gpu(event) or event["ts"] not in gone)


def delayed(trace: dict[str, Any], at: float, by_us: float) -> dict[str, Any]:
    """The trace with a pause: what begins at a time or later comes later, and what is open then lasts longer."""

    def moved(event: Event) -> Event:
        if "ts" not in event:
            return event
        if event["ts"] >= at:
            return event | {"ts": event["ts"] + by_us}
        return event | {"dur": event["dur"] + by_us} if event["ts"] + event.get("dur", 0) > at else event

    return trace | {"traceEvents": [moved(event) for event in trace["traceEvents"]]}


def diagnosed(trace: dict[str, Any], folder: Path) -> Diagnosis:
    """The diagnosis of a trace."""
    (folder / "trace.json").write_bytes(msgspec.json.encode(trace))
    return analyze(folder / "trace.json")


def fact(answer: Diagnosis, name: str) -> object:
    """The value of a fact, None if it is unknown."""
    return next(each for each in answer.facts if each.name == name).value


def rules(answer: Diagnosis) -> set[str]:
    """The rules that fire."""
    return {finding.rule for finding in answer.findings}


def share(answer: Diagnosis, *causes: str) -> float:
    """Share of the step that the causes take."""
    return sum(entry.share for entry in answer.ledger if entry.cause in causes)
