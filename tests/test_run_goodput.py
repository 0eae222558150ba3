"""The parts of a process's wall time, from the spans that its record has."""

from typing import Any

import pytest

from diagnose.diagnosis import Goodput
from diagnose.judge.goodput import goodput_of
from diagnose.report.views.goodput import goodput_words
from diagnose.trace.record import decoded

S = 1_000_000_000


def span(seconds: float, **ranges_s: float) -> dict[str, Any]:
    return {"ns": round(seconds * S), "ranges_ns": {f"diagnose.{name}": round(s * S) for name, s in ranges_s.items()}}


def parts(first_seen: bool = True, **more: Any) -> dict[str, float]:
    """The seconds of a run of 100: 20 to its first step, 70 of steps, 10 after them."""
    spans = {
        "before": span(20, compile=3, data_wait=2, own=1),
        "in_steps": span(70, data_wait=10, eval=8, save=5, log=1, own=4, optimizer=20) | more,
        "after": span(10, save=6),
    }
    spans["in_steps"]["ranges_ns"]["diagnose.data_wait.first"] = 2 * S
    run_time = {"wall_ns": 100 * S, "first_seen": first_seen, "ended": True, **spans}
    steps = {"number": [1, 2, 3], "ns": [S, 2 * S, 9 * S], "profiled": [False] * 3, "gc_ns": [0] * 3, "ranges_ns": {}}
    found = goodput_of(decoded({"run_time": run_time, "every_step": steps}))
    assert isinstance(found, Goodput)
    return {part.what: part.time_s for part in found.parts}


def test_the_parts_add_up_to_the_wall_time() -> None:
    told = parts()

    assert told == pytest.approx(
        {
            "productive": 40,
            "waiting for data": 12,
            "evaluation": 8,
            "saving": 11,
            "logging": 1,
            "compiling": 3,
            "starting": 16,
            "capturing": 5,
            "idle": 4,
        }
    )
    assert sum(told.values()) == pytest.approx(100)


def test_a_first_step_whose_begin_was_not_seen_is_as_long_as_the_others() -> None:
    told = parts(first_seen=False)

    assert (told["starting"], told["productive"]) == pytest.approx((14, 42))


def test_time_that_no_span_has_is_idle_and_a_record_without_spans_has_no_goodput() -> None:
    assert parts(ns=60 * S)["idle"] == pytest.approx(14)
    assert goodput_of(decoded({"run_time": None})) is None


def test_parts_that_take_nothing_are_not_said() -> None:
    goodput = Goodput.of(50.0, {"productive": 45.0, "saving": 0.0, "idle": 5.0})

    assert goodput_words(goodput) == "productive 90.0 %, idle 10.0 % of the 50.0 s"
