"""Steps beside the window that compile, or whose work differs as much, say nothing of a change of the job's speed."""

from pathlib import Path

import pytest
from kineto import Trace
from lines.lines_jobs import recorded

MS = 1_000_000


@pytest.mark.parametrize(("compiled_ms", "says"), [(780, False), (0, True)])
def test_compilations_before_the_window_are_no_change_of_speed(compiled_ms: int, says: bool, tmp_path: Path) -> None:
    before, after = [800 * MS] * 3, [10 * MS] * 3
    ranges = {"diagnose.compile": [compiled_ms * MS] * 3 + [0] * 3}
    steps = {"control_before_ns": before, "control_after_ns": after, "clock": "host", "active_ns": [10 * MS] * 4}
    timed = {"unprofiled_host_ns": before + after, "unprofiled_ranges_ns": ranges}
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 9000)
            job.host(1000)

    told = recorded(tmp_path, [job], {"world_size": 1, "steps": steps | timed})

    assert ("speed-changed-in-capture" in {finding.rule for finding in told.findings}) is says
    assert (told.fact("control_drift_factor") is None) is not says


@pytest.mark.parametrize(
    ("waiting_ms", "says"),
    [
        ((88, 158, 101, 175, 51, 121, 289, 108, 77, 99), False),
        ((139, 141, 140, 142, 138, 140, 141, 139, 140, 900), True),
        ((88, 158, 101), True),
    ],
    ids=["texts of unlike lengths", "alike, but for one", "too few to tell"],
)
def test_steps_that_differ_as_much_before_the_window_are_no_change_of_speed(
    waiting_ms: tuple[int, ...], says: bool, tmp_path: Path
) -> None:
    before, after = [ms * MS for ms in (140, 139, 159)], [ms * MS for ms in (75, 92, 71)]
    steps = {"control_before_ns": before, "control_after_ns": after, "clock": "host", "active_ns": [10 * MS] * 4}
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 9000)
            job.host(1000)

    told = recorded(
        tmp_path, [job], {"world_size": 1, "steps": {**steps, "waiting_ns": [ms * MS for ms in waiting_ms]}}
    )

    assert ("speed-changed-in-capture" in {finding.rule for finding in told.findings}) is says
