"""Announcements of libraries on the job's speed, by their warnings and loggers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.probes.announcements import BY_KEY, COMPUTE, INPUT, KERNELS, Announcement
from diagnose.trace.stacks import FEWEST_SAMPLES

_NOT_TOLD = Unknown("no record says what the libraries announced", DIAGNOSE_RUN)
_NONE = Unknown("there is none", nothing_helps("no library announces any"))
_UNNAMED = "the packages that the message names"
_NOT_SAMPLED = Unknown("no sample of the stack shows the functions that fell back", DIAGNOSE_RUN)

Row = Mapping[str, Any]


def _announced(m: Measured, about: str) -> Sequence[tuple[Announcement, Row]] | Unknown:
    """The announcements about something, each with what the record has of it."""
    listed = m.record.get("announced")
    if not isinstance(listed, list):
        return _NOT_TOLD
    known = [(BY_KEY[row["message"]], row) for row in listed if row.get("message") in BY_KEY]
    return [(message, row) for message, row in known if message.about == about]


def _from(m: Measured, about: str, told: Callable[[Sequence[tuple[Announcement, Row]]], Value]) -> Value:
    rows = _announced(m, about)
    if isinstance(rows, Unknown):
        return rows
    return told(rows) if rows else _NONE


def _number(m: Measured, about: str) -> Value:
    rows = _announced(m, about)
    return rows if isinstance(rows, Unknown) else len(rows)


def _said(rows: Sequence[tuple[Announcement, Row]]) -> str:
    return "; ".join(dict.fromkeys(message.says.format(what=row.get("what") or "it") for message, row in rows))


def _remedies(rows: Sequence[tuple[Announcement, Row]]) -> str:
    """The libraries' own remedies, as one sentence without its full stop."""
    remedies = "; ".join(dict.fromkeys(message.remedy for message, _ in rows))
    return remedies[:1].upper() + remedies[1:]


def _packages(rows: Sequence[tuple[Announcement, Row]]) -> str:
    named = dict.fromkeys(_all_packages(rows))
    return " and ".join(named) if named else _UNNAMED


def _all_packages(rows: Sequence[tuple[Announcement, Row]]) -> Iterator[str]:
    for _, row in rows:
        yield from row.get("packages") or ()


@metric("count", needs_gpu=False)
def reference_kernel_count(m: Measured) -> Value:
    """Functions of which a library said that its reference implementation runs in the place of a kernel."""
    return _number(m, KERNELS)


@metric("text", needs_gpu=False)
def reference_kernels(m: Measured) -> Value:
    """These functions, as the library put it."""
    return _from(m, KERNELS, _said)


@metric("text", needs_gpu=False)
def missing_packages(m: Measured) -> Value:
    """The packages that the library says to install for their kernels."""
    return _from(m, KERNELS, _packages)


@metric("share", STEP, needs_gpu=False)
def reference_kernel_share(m: Measured) -> Value:
    """Samples of the training thread within these functions; their backward passes show in no stack."""
    inside = m.record.number("stack_samples.in_reference_kernels")
    samples = m.record.number("stack_samples.samples")
    if inside is None or samples is None or samples < FEWEST_SAMPLES:
        return _NOT_SAMPLED
    return min(inside / samples, 1.0)


@metric("count", needs_gpu=False)
def compute_announcement_count(m: Measured) -> Value:
    """Messages of libraries that something about the computation costs speed."""
    return _number(m, COMPUTE)


@metric("text", needs_gpu=False)
def compute_announcements(m: Measured) -> Value:
    """The messages that are counted, each as a clause."""
    return _from(m, COMPUTE, _said)


@metric("text", needs_gpu=False)
def compute_remedies(m: Measured) -> Value:
    """The libraries' own remedies for them."""
    return _from(m, COMPUTE, _remedies)


@metric("count", needs_gpu=False)
def input_announcement_count(m: Measured) -> Value:
    """Messages of libraries that something about the input costs speed."""
    return _number(m, INPUT)


@metric("text", needs_gpu=False)
def input_announcements(m: Measured) -> Value:
    """The messages that are counted, each as a clause."""
    return _from(m, INPUT, _said)


@metric("text", needs_gpu=False)
def input_remedies(m: Measured) -> Value:
    """The libraries' own remedies for them."""
    return _from(m, INPUT, _remedies)
