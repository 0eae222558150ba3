"""The time of every step: the extremes stay however long the run, and the drawing places them."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from browser import CHROMIUM, browser
from msgspec.structs import replace
from report.pages import sample

from diagnose.diagnosis import StepTimes
from diagnose.judge.step_times import MOST_GROUPS, step_times
from diagnose.report.html import About, page
from diagnose.report.html.step_times import step_curve
from diagnose.series import Series, Track
from diagnose.series.later import stalls_after
from diagnose.trace.record import CaptureRecord

STALL_NS, STEP_NS = 2_000_000_000, 10_000_000


def recorded(steps: int, stall: int, *windows: range) -> StepTimes:
    """A run of steps of 10 ms, of which one takes two seconds."""
    number = list(range(1, steps + 1))
    every = {
        "number": number,
        "profiled": [any(each in window for window in windows) for each in number],
        "ns": [STALL_NS if each == stall else STEP_NS for each in number],
        "gc_ns": [0] * steps,
        "ranges_ns": {},
    }
    measured = SimpleNamespace(record=CaptureRecord({"every_step": every}), timeline=SimpleNamespace(rank=0))
    told = step_times(SimpleNamespace(measured=[measured], only=None))  # type: ignore[arg-type]
    assert told is not None
    return told


@pytest.mark.parametrize("steps", [12, 300, 100_000])
def test_a_stall_stays_however_long_the_run(steps: int) -> None:
    told = recorded(steps, stall=steps // 2)
    at = told.longest_ns.index(STALL_NS)

    assert len(told.first_step) <= MOST_GROUPS + 4
    assert told.first_step[at] <= steps // 2 <= told.last_step[at]
    assert (told.first_step[0], told.last_step[-1], told.median_ns) == (1, steps, STEP_NS)


@pytest.mark.parametrize("steps", [100, 100_000])
def test_each_window_is_shaded_by_itself_and_no_group_reaches_over_its_border(steps: int) -> None:
    told = recorded(steps, 50, range(11, 16), range(81, 86))
    curve = step_curve(replace(sample("cpu-healthy.json.gz"), step_times=told))

    assert curve is not None
    assert told.profiled == ((11, 15), (81, 85))
    covered = zip(told.first_step, told.last_step, curve.marks, strict=True)
    assert sum(last - first + 1 for first, last, mark in covered if mark.hollow) == 10


def test_few_steps_are_not_drawn() -> None:
    case = SimpleNamespace(
        measured=[SimpleNamespace(record=CaptureRecord(), timeline=SimpleNamespace(rank=0))], only=None
    )

    assert step_times(case) is None  # type: ignore[arg-type]


def test_the_window_and_the_longest_step_are_where_they_were() -> None:
    curve = step_curve(replace(sample("cpu-healthy.json.gz"), step_times=recorded(41, 31, range(11, 16))))

    assert curve is not None
    places = [mark.x for mark in curve.marks]
    assert [mark.hollow for mark in curve.marks] == [11 <= step < 16 for step in range(1, 42)]
    assert curve.windows == [(places[10], places[14])]
    assert [label.text for label in curve.labels] == ["step 31"]
    assert min(mark.high for mark in curve.marks) == curve.marks[30].high < curve.medians[0][2]
    assert curve.says.endswith("the median one takes 10.0 ms, the longest 2.0 s (step 31).")


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_the_page_draws_every_step_once(tmp_path: Path) -> None:
    told = replace(sample("cpu-healthy.json.gz"), step_times=recorded(41, 31, range(11, 16)))
    (tmp_path / "page.html").write_text(page(told, About("1")), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.open(tmp_path / "page.html", width=400)

        assert tab.run("document.querySelectorAll('#step-times .steps circle').length") == 41
        assert tab.run("document.querySelectorAll('#step-times .hollow').length") == 5
        assert tab.run("document.documentElement.scrollWidth") <= 400
        assert tab.complaints == []


def armed(*ns: int, kind: str = "armed") -> Series:
    seconds = np.array(ns) / 1e9
    track = Track(rank=0, host="n1", step=np.arange(1, len(ns) + 1), seconds=seconds)
    return Series(kind=kind, files=("rank0.steps",), unit="", tracks=(track,))


def test_stalls_after_the_recorded_steps_are_named() -> None:
    ns = [STEP_NS] * 300
    ns[49] = ns[199] = ns[249] = STALL_NS

    later = stalls_after(armed(*ns), 60)
    assert [(stall.step, stall.ns, stall.usual_ns) for stall in later] == [
        (200, STALL_NS, STEP_NS), (250, STALL_NS, STEP_NS)
    ]  # fmt: skip
    assert stalls_after(armed(*ns), 250) == ()
    assert stalls_after(armed(*ns, kind="csv"), 60) == ()


def test_the_page_says_what_came_after_the_drawn_steps() -> None:
    later = stalls_after(armed(*[STEP_NS] * 100, STALL_NS, *[STEP_NS] * 40), 41)
    told = replace(sample("cpu-healthy.json.gz"), step_times=recorded(41, 31, range(11, 16)), later_stalls=later)

    curve = step_curve(told)
    assert curve is not None
    assert curve.later == "After these steps the run stalled: step 101 took 2.0 s, where 10.0 ms is usual."
    assert curve.later in page(told, About("1"))
