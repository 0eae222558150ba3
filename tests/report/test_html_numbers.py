"""Every number that the HTML report shows is one of the diagnosis, or is worked out from it."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from report.pages import Read, sample, written

from diagnose.attribution.causes import WAITING, class_of
from diagnose.diagnosis import IRON_LAW, Diagnosis, JobStep
from diagnose.facts import duration, spoken
from diagnose.report.html.breakdown import breakdown_view
from diagnose.report.html.page import heat_view
from diagnose.report.views.breakdown import basis, rows
from diagnose.report.views.changes import captures_view
from diagnose.report.views.first_screen import first_screen
from diagnose.report.views.job_words import waited_share


@pytest.mark.parametrize("name", ["synthetic-memory-bound.json.gz", "synthetic-straggler", "cpu-slow-loader.json.gz"])
def test_every_number_comes_from_the_diagnosis(name: str) -> None:
    diagnosis = sample(name)
    shown, known = numbers_shown(diagnosis), set(spellings(diagnosis))

    wrong = replace(diagnosis, verdict=replace(diagnosis.verdict, because="the step takes 987,654.3 ms", doubts=()))
    assert [number for number in shown if number not in known] == []
    assert [number for number in numbers_shown(wrong) if number not in known] == ["987,654.3 ms"]


@pytest.mark.parametrize("name", ["synthetic-memory-bound.json.gz", "synthetic-straggler", "cpu-slow-loader.json.gz"])
def test_the_terms_of_the_iron_law_add_up_to_the_step_and_lead_to_their_rows(name: str) -> None:
    view = breakdown_view(sample(name))

    step, terms = ms(view.step), [ms(term.says) for term in view.law]
    assert sum(terms) == pytest.approx(step, abs=0.2)
    assert len(terms) > 1
    anchors = [bar.anchor for bar in view.bars if bar.anchor]
    assert len(anchors) == len(set(anchors))
    assert {term.anchor for term in view.law if term.anchor} <= set(anchors)


def ms(text: str) -> float:
    """The milliseconds at the end of a text."""
    return float(text.removesuffix(" ms").split()[-1].replace(",", ""))


UNIT = r"%|[num]?s|[KMGT]iB|GB/s|TFLOP/s|[kMGTP]?FLOP(?!/)"
NUMBER = re.compile(rf"(?<![\w.,-])\d+(?:,\d{{3}})*(?:\.\d+)?(?: (?:{UNIT})(?![\w/]))?(?!\w|[.,]\d)")


def numbers_shown(diagnosis: Diagnosis) -> list[str]:
    """Numbers with their units in the visible text, without the axes, which have round numbers of their own."""
    text = re.sub(r'<g class="grid".*?</g>|<div class="lane axis".*?</div>', "", written(diagnosis), flags=re.DOTALL)
    return NUMBER.findall(Read(text).shown)


def spellings(diagnosis: Diagnosis) -> Iterator[str]:
    """How the page may spell the numbers of a diagnosis: each by itself, per step, as a share, and what it adds up."""
    of = basis(diagnosis)
    listed = rows(diagnosis.waterfall) + rows(diagnosis.waterfall, details=True)
    values = [
        *numbers(msgspec.to_builtins(replace(diagnosis, timeline=None, job_timeline=None))),
        *sums(diagnosis),
        *of_terms(diagnosis),
        *of_roofs(diagnosis),
        of.step_ns,
    ]
    values += [value for row in listed for value in (row.ns, row.share)]
    for value in values:
        yield from (f"{value:,.{digits}f}" for digits in (0, 1, 2, 3))
        yield from (
            f"{100 * value:.0f} %",
            f"{100 * value:.1f} %",
            f"{100 * value:.1f}",
            spoken(value, "bytes"),
            of.per_step(int(value)),
        )
        yield from (duration(value), duration(value / max(of.count, 1)), f"{value * 1e-12:,.0f} TFLOP/s")
        yield from (f"{value / 1e9:,.0f} GB/s", f"{value:,.0f} TFLOP/s", spoken(value, "flops"))
        yield f"{value * 1e-12:,.1f} TFLOP/s"
        yield spoken(1e9 * value, "bytes_per_s")
    for line in first_screen(diagnosis).lines:  # the first card shows them; tests of its own hold their numbers
        yield from NUMBER.findall(line.text)
    for text in texts(msgspec.to_builtins(diagnosis)):
        yield from NUMBER.findall(text)
    yield from (str(number) for number in range(1, 11))  # of the points, and of small counts


def of_roofs(diagnosis: Diagnosis) -> Iterator[float]:
    """The shares of the roofs that the families reach."""
    roofs = diagnosis.roofs
    for entry in diagnosis.roofline if roofs is not None else ():
        yield from (1e12 * entry.tflops / peak.flops_per_s for peak in roofs.peaks if entry.tflops is not None)
        if roofs.hbm_bytes_per_s and entry.gbs is not None:
            yield 1e9 * entry.gbs / roofs.hbm_bytes_per_s


def of_terms(diagnosis: Diagnosis) -> Iterator[int]:
    """What the terms of the iron law add up to."""
    for term in {law.term for law in IRON_LAW.values()}:
        yield sum(entry.ns for entry in diagnosis.ledger if IRON_LAW[entry.class_].term == term)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def of_job_step(step: JobStep) -> Iterator[float]:
    """What the page says of one step of several ranks: times, and what the causes of each class add up to."""
    yield from (step.step, step.length_ns, step.merged_below_ns, step.meetings_left_out, len(step.rows))
    yield from (share for share in step.waiting_shares if share is not None)
    for row in step.rows:
        yield from (row.rank, row.start_ns, row.length_ns, row.residual_ns or 0, row.waiting_ns or 0)
        own = {cause: ns for cause, ns in row.by_cause.items() if cause not in WAITING}
        yield from (sum(ns for cause, ns in own.items() if class_of(cause) == key) for key in map(class_of, own))
    for meeting in step.meetings:
        first, last = min(meeting.start_ns), max(meeting.start_ns)
        yield from (first, last, last - first, meeting.last, *meeting.ranks)


def sums(diagnosis: Diagnosis) -> Iterator[float]:
    """What the page adds up: classes, ranks' other causes, the waits of the step, and what a late rank costs."""
    for ledger in (diagnosis.ledger, *(rank.ledger for rank in diagnosis.ranks)):
        for key in {entry.class_ for entry in ledger}:
            yield sum(entry.share for entry in ledger if entry.class_ == key)
    heat = heat_view(diagnosis)
    for row in heat.rows if heat else ():
        yield 1 - sum(cell.share for cell in row.cells)
    yield from (len(capture.rules) for capture in captures_view(diagnosis))
    step, of = diagnosis.timeline, basis(diagnosis)
    assert step is not None
    yield from (step.step, step.length_ns, step.merged_below_ns, step.lanes_left_out, len(diagnosis.kernels))
    for lane in step.lanes:
        for label in set(lane.label) if lane.kind == "cause" else ():
            own = [i for i, other in enumerate(lane.label) if other == label]
            ns = [lane.length_ns[i] for i in own]
            longest = ns.index(max(ns))
            yield from (sum(ns), sum(ns) / step.length_ns, max(ns), lane.start_ns[own[longest]])
            yield sum(lane.count[i] for i in own)
    for job_step in diagnosis.job_timeline.steps if diagnosis.job_timeline else ():
        yield from of_job_step(job_step)
    for straggler in diagnosis.stragglers:
        share = waited_share(straggler, diagnosis)
        yield from (share, share * of.step_ns)
    found = diagnosis.postmortem
    yield from (len(found.clocks), *(abs(clock.offset_ns or 0) for clock in found.clocks)) if found else ()
