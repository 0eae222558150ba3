"""Samples of the stack as time at the user's lines, and what too few of them say."""

from typing import Any

import pytest
from analysed import timeline
from kineto import Trace
from lines.lines_jobs import called, samples

from diagnose.facts import Unknown
from diagnose.metrics.lines.user_code import ThreadWork
from diagnose.metrics.measured import RankCode, code_of
from diagnose.trace.record import decoded

ITEM, COLLATE = ("main", "step", "item", 60), ("collate", "loading", None, 131)


def of_record(field: object, job: Trace | None = None, **more: Any) -> RankCode:
    """The user's code by a record with this field, beside a trace of one step."""
    built = job or Trace(gpu=None)
    with built.step():
        built.cpu_op("aten::mm", 100)
    return code_of(timeline(built), decoded({"stack_samples": field, **more}))


def why(code: object) -> tuple[str, str]:
    assert isinstance(code, Unknown)
    return code.because, code.capture_next


def test_a_stack_is_time_at_its_innermost_line_and_in_each_function_once() -> None:
    walk = {"frames": [["a.py", 1, "main"], ["a.py", 5, "walk"], ["a.py", 6, "walk"]], "doing": "step", "samples": 60}
    none = {"frames": [], "doing": "step", "samples": 40}

    code = of_record({**samples(steps=10, wall_ms=1000), "samples": 100, "stacks": [walk, none]}).training

    assert isinstance(code, ThreadWork)
    assert [(f.function, f.line, f.weight) for f in code.own] == [(("a.py", "walk"), 6, 60)]
    assert {f.function[1]: f.weight for f in code.altogether} == {"main": 60, "walk": 60}
    assert (code.of, code.whole, code.step_ns) == ("100 samples of the training thread", 100, 100e6)


@pytest.mark.parametrize(
    ("field", "because", "capture"),
    [
        (
            samples(("main", "step", None, 15), ("other", "step", None, 14), steps=7),
            "29 of 29 samples of the training thread in 7 steps show your code: fewer than 30 are too few to name a",
            "capture with diagnose run in a run of at least 15 steps after the window",
        ),
        (
            samples(("main", "step", None, 29)) | {"samples": 200},
            "29 of 200 samples",
            "record a few steps with torch.profiler and with_stack=True, in a run of its own",
        ),
        ({"why_none": "the loop is short"}, "the stack was not sampled: the loop is short", "without --no-sampling"),
        ({}, "0 of 0 samples", "a run of at least 60 steps"),
    ],
)
def test_below_thirty_samples_no_line_is_known(field: object, because: str, capture: str) -> None:
    told = why(of_record(field).training)

    assert because in told[0]
    assert capture in told[1]


@pytest.mark.parametrize(("most", "others", "named"), [(18, 0, True), (16, 2, True), (14, 6, False), (11, 0, False)])
def test_fewer_samples_are_enough_if_nearly_all_are_in_one_function(most: int, others: int, named: bool) -> None:
    elsewhere = [("other", "step", None, others)] if others else []

    code = of_record(samples(("main", "step", None, most), *elsewhere)).training

    assert isinstance(code, ThreadWork) == named


def test_thirty_samples_are_enough() -> None:
    assert isinstance(of_record(samples(("main", "step", None, 30))).training, ThreadWork)


def test_a_record_that_counts_fewer_samples_than_its_stacks_have_makes_no_share_above_one() -> None:
    code = of_record(samples(ITEM, COLLATE) | {"samples": 3}).training

    assert isinstance(code, ThreadWork)
    assert sum(code.share(spent.weight) for spent in code.stacks) == 1


def test_recorded_calls_stand_in_where_there_are_no_samples() -> None:
    job = Trace(gpu=None)
    with job.step():
        called(job, "train.py(10): main", 300)

    code = of_record({"why_none": "the loop is short"}, job).training

    assert isinstance(code, ThreadWork)
    assert code.of == "the Python time of the counted steps"


def test_who_never_looked_says_nothing() -> None:
    assert of_record(None) == RankCode()


def test_the_cost_is_a_share_of_the_sampled_steps() -> None:
    assert of_record(samples(ITEM)).cost_share == 4.0 / 2000
    assert of_record({"why_none": "off"}).cost_share is None
