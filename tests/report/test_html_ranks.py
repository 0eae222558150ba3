"""The ranks in one step as the page has them without a script: rows, lines, bands, tables and the strip of all."""

import json
import re
from itertools import accumulate
from typing import Any

import drawn
import pytest
from msgspec.structs import replace
from report.pages import Read, sample, written

from diagnose.diagnosis import Diagnosis, JobTimeline


def job_of(diagnosis: Diagnosis) -> JobTimeline:
    assert diagnosis.job_timeline is not None
    return diagnosis.job_timeline


def section(diagnosis: Diagnosis) -> str:
    found = re.search(r'<section id="job-timeline".*?</section>', written(diagnosis), re.DOTALL)
    return found[0] if found else ""


def data(diagnosis: Diagnosis) -> dict[str, Any]:
    found = re.search(r'id="job-timeline-data">(.*?)</script>', written(diagnosis))
    assert found
    read: dict[str, Any] = json.loads(found[1])
    return read


def with_job(**changes: object) -> Diagnosis:
    of = drawn.joined()
    return replace(of, job_timeline=replace(job_of(of), **changes))  # type: ignore[arg-type]


def test_a_row_tells_its_step_and_marks_the_late_rank() -> None:
    tags = Read(section(drawn.joined())).tags

    rows = [a for _, a in tags if "data-rank" in a]
    assert [(a["data-rank"], float(a["data-ms"])) for a in rows] == [("0", 100.0), ("1", 100.0)]
    tracks = [a["aria-label"] for _, a in tags if a.get("class") == "track"]
    assert tracks == [
        "rank 0: begins at 0 ns, step of 100.0 ms: compute-bound work 45.0 ms, data 30.0 ms, "
        "waits 25.0 ms for other ranks",
        "rank 1 (late): begins at 5.0 ms, step of 100.0 ms: compute-bound work 69.5 ms, data 30.0 ms, "
        "waits 500.0 us for other ranks",
    ]


def test_waits_are_thin_and_a_clock_s_doubt_is_a_band_around_the_beginning() -> None:
    paths = [(a["class"], a["d"]) for tag, a in Read(section(drawn.joined())).tags if tag == "path"]

    whole = 105  # ms
    at, wide = (round(ms * 1e6 / whole) for ms in (30, 25))
    assert any(f"M{at} .35h{wide}v.3" in d for _, d in paths)
    band = next(d for key, d in paths if key == "doubt")
    assert band.startswith(f"M{round(4e6 / whole)} 0h{round(2e6 / whole)}v1")
    assert [key for key, _ in paths].count("doubt") == 1  # rank 0's clock is the one that counts


def test_a_line_joins_the_arrivals() -> None:
    paths = {a["class"]: a["d"] for tag, a in Read(section(drawn.joined())).tags if tag == "path"}

    first, last = (round(ms * 1e6 / 105) for ms in (30, 55))
    assert paths["joined"] == f"M{first} 0.5L{last} 1.5"
    assert paths["arrivals"] == f"M{first} 0.15v.7M{last} 1.15v.7"


def test_the_tables_have_the_times_of_the_json() -> None:
    of = drawn.joined()
    ms = [float(a["data-ms"]) for tag, a in Read(section(of)).tags if tag == "td" and "data-ms" in a]

    told = []
    for step in job_of(of).steps:
        for row in step.rows:
            told += [row.start_ns, row.length_ns, row.waiting_ns or 0]
        for meeting in step.meetings:
            told += [min(meeting.start_ns), max(meeting.start_ns)]
    assert ms == [ns / 1e6 for ns in told]


def test_the_script_gets_the_slices_of_the_json() -> None:
    of = drawn.joined()
    rows = [row for step in job_of(of).steps for row in step.rows]
    shipped = [row for step in data(of)["steps"] for row in step["rows"]]

    assert [unpacked(*lane) for row in shipped for lane in row["lanes"]] == [
        (lane.name, list(lane.start_ns), list(lane.length_ns), list(lane.label), list(lane.count))
        for row in rows
        for lane in (row.causes, *row.lanes)
    ]


def unpacked(name: str, kind: str, gaps: list[int], lengths: list[int], labels: list[int], counts: list[int]) -> object:
    """A lane as the script reads it, from the gaps between its slices."""
    ends = list(accumulate(gap + length for gap, length in zip(gaps, lengths, strict=True)))
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]
    return name, starts, lengths, labels, counts or [1] * len(lengths)


@pytest.mark.parametrize(
    ("diagnosis", "says"),
    [
        (drawn.joined(), "align the clocks to ±1.0 ms (grey)."),
        (with_job(aligned=False), "so each row begins at 0."),
        (with_job(steps=job_of(drawn.joined()).steps[1:]), "How well is not known for rank 1, which only sends"),
        (drawn.joined(), "Drawn are 2 of 6 ranks"),
        (
            drawn.joined(),
            "Waiting of all ranks, of step 12: least rank 1 (0.5 %), the median 22.0 %, most rank 5 (40.0 %)",
        ),
        (drawn.joined(), "rank 0: 25.0 %, rank 1: 0.5 %, rank 2: 21.0 %, rank 3: 22.0 %, rank 5: 40.0 %"),
        (drawn.joined(), "3 more are not listed"),
    ],
)
def test_what_is_not_known_or_not_drawn_is_said(diagnosis: Diagnosis, says: str) -> None:
    assert says in Read(section(diagnosis)).shown


def test_the_ranks_to_choose_from() -> None:
    options = re.findall(r'<option value="(\w+)">(.*?)</option>', section(drawn.joined()))

    assert options == [
        ("all", "All 2 drawn of 6"), ("late", "Late rank 1 beside typical rank 0"), ("0", "Rank 0"), ("1", "Rank 1"),
        ("0", "12, median"), ("1", "14, slowest"),
    ]  # fmt: skip
    unnamed = section(with_job(late_is_named=False))
    assert "Waits least: rank 1 beside typical rank 0" in unnamed
    assert "late</span>" not in unnamed
    assert ">Late ranks 1, 0 beside typical rank 0<" in section(with_job(late=(1, 0)))
    assert 'value="late"' not in section(with_job(late=(), typical=None))


def test_a_job_of_one_rank_has_no_such_section() -> None:
    assert section(drawn.drawn()) == ""
    assert '<a href="#job-timeline">' not in written(drawn.drawn())


@pytest.mark.long
def test_all_ranks_of_a_sample_are_rows() -> None:
    tags = Read(section(sample("synthetic-straggler"))).tags

    assert [a["data-rank"] for _, a in tags if "data-rank" in a] == [str(rank) for rank in range(8)]
