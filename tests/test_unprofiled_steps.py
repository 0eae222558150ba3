"""Which steps without the profiler count: all, unless one side of the window took longer throughout."""

import pytest

from diagnose.trace.record import control_ns, decoded, profiler_factor, unprofiled_ns


@pytest.mark.parametrize(
    ("before", "after", "counted"),
    [
        ([10, 11, 10], [10, 11, 10], [10, 11, 10, 10, 11, 10]),
        ([24, 25, 22], [38, 63, 40], [24, 25, 22]),  # the end of the recording lengthens what comes after it
        ([20, 19, 18], [10, 10, 11], [10, 10, 11]),  # the job was still warming up
        ([10, 30, 10], [12, 31, 12], [10, 30, 10, 12, 31, 12]),  # steps are uneven
        ([100, 101, 102], [103, 103, 104], [100, 101, 102, 103, 103, 104]),  # no more apart than steps are
        ([10], [30, 30, 30], [10, 30, 30, 30]),  # one step says little
    ],
)
def test_the_longer_side_is_left_out(before: list[int], after: list[int], counted: list[int]) -> None:
    record = decoded({"steps": {"control_before_ns": before, "control_after_ns": after, "active_ns": [50, 50]}})

    assert unprofiled_ns(record) == counted
    assert profiler_factor(record) == pytest.approx(50 / sorted(counted)[len(counted) // 2], rel=0.2)


def test_a_record_without_times_keeps_its_factor() -> None:
    assert profiler_factor(decoded({"overhead_factor": 1.3})) == 1.3
    assert profiler_factor(decoded({})) is None


@pytest.mark.parametrize(
    ("before", "after", "later", "kept"),
    [
        (20, 10, 20, False),  # workers filled their queue while the recording ended
        (20, 40, 20, False),  # the trace is written beside the steps
        (20, 10, 10, True),  # the job settled
        (20, 40, 40, True),  # another job came
        (20, 21, 40, True),  # what changed later changed nothing here
    ],
)
def test_the_steps_behind_the_window_count_unless_later_ones_are_as_before(
    before: int, after: int, later: int, kept: bool
) -> None:
    every = [before] * 4 + [50] * 2 + [after] * 3 + [later] * 20
    profiled = [False] * 4 + [True] * 2 + [False] * 23
    record = {
        "steps": {"control_before_ns": [before] * 3, "control_after_ns": [after] * 3, "active_ns": [50, 50]},
        "every_step": {"number": [*range(29)], "ns": every, "profiled": profiled},
    }

    assert control_ns(decoded(record)) == ([before] * 3, [after] * 3 if kept else [])
