"""Which steps without the profiler count: all, unless one side of the window took longer throughout."""

import pytest

from diagnose.trace.record import decoded, profiler_factor, unprofiled_ns


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
