"""Two profilers that mark steps in one trace: one of them is counted, and the other is named."""

from typing import Any

import pytest
from analysed import GEMM, content, facts, timeline
from kineto import Trace

from diagnose.probes.protocol import OWN_STEPS


def marked_by_another(first: int, each: int = 1, later_us: float = 30, steps: int = 4) -> dict[str, Any]:
    """Steps 10 to 13, with `each` marks of another profiler, numbered from `first`, in the place of each one."""
    job = Trace()
    for _ in range(steps):
        with job.step():
            job.launch(GEMM, 50)
            job.host(300)
            job.sync()
    found = content(job)
    own = [event for event in found["traceEvents"] if event.get("name", "").startswith("ProfilerStep")]
    on_host = [event for event in own if event["cat"] == "user_annotation"]
    another = [
        event
        | {
            "name": f"ProfilerStep#{first + each * number + part}",
            "ts": event["ts"] + later_us + part * (event["dur"] - later_us) / each,
            "dur": event["dur"] / each - (later_us if each > 1 else 0),
        }
        for number, event in enumerate(on_host)
        for part in range(each)
    ]
    return found | {"traceEvents": found["traceEvents"] + another}


@pytest.mark.parametrize("first", [0, 10, 11, 500])
def test_marks_that_overlap_are_two_series_whatever_their_numbers(first: int) -> None:
    steps = timeline(marked_by_another(first)).steps

    assert steps.numbers == (11, 12, 13), "four of one series, the first left out"
    assert steps.others == tuple(range(first, first + 4))


def test_the_longer_steps_are_counted_where_both_cover_the_same() -> None:
    steps = timeline(marked_by_another(100, each=3, later_us=1)).steps

    assert (steps.numbers, len(steps.others)) == ((11, 12, 13), 12)


@pytest.mark.parametrize(("own", "others"), [((10, 4), range(40, 52)), ((40, 12), range(10, 14))])
def test_the_probes_own_steps_are_counted_where_the_trace_tells_them(own: tuple[int, int], others: range) -> None:
    steps = timeline(marked_by_another(40, each=3, later_us=1) | {OWN_STEPS: own}).steps

    assert steps.others == tuple(others)
    assert steps.count > 1


def test_marks_that_count_back_are_two_series() -> None:
    job = Trace()
    for number in (0, 1, 2, 3, 0, 1):
        with job.annotation(f"ProfilerStep#{number}"):
            job.launch(GEMM, 50)
            job.sync()

    steps = timeline(job).steps

    assert (steps.numbers, steps.others) == ((1, 2, 3), (0, 1))


def test_one_series_is_counted_whole_also_where_rounded_times_overlap() -> None:
    job = Trace()
    for _ in range(4):
        with job.step():
            job.launch(GEMM, 50)
            job.sync()
    found = content(job)
    for event in found["traceEvents"]:
        if event.get("cat") == "user_annotation":
            event["dur"] += 1

    assert (timeline(found).steps.count, timeline(found).steps.others) == (3, ())


def test_the_other_profiler_is_named() -> None:
    told = facts(marked_by_another(100, each=3, later_us=1))["second_profiler"].value

    assert told == "left 12 step marks of its own, numbers 100 to 111"
