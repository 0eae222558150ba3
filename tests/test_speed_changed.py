"""Steps before the window and after it that differ: a class that takes nearly all of the step holds at both speeds."""

from pathlib import Path

import pytest
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis

RULE = "speed-changed-in-capture"
MS = 1_000_000


def changed(folder: Path, computes_ms: float, before_ms: float, after_ms: float, of_ms: float = 10) -> Diagnosis:
    """Steps of 10 ms in the window, of which products take a part, and Python the rest."""
    job = Trace(gpu=None)
    for _ in range(5):
        with job.step():
            job.cpu_op("aten::mm", 1000 * computes_ms, [[64, 64], [64, 64]], "float")
            job.host(1000 * (of_ms - computes_ms))
    controls = {"control_before_ns": [round(before_ms * MS)] * 3, "control_after_ns": [round(after_ms * MS)] * 3}
    return analysed(folder, job, {"steps": {"clock": "host", **controls}})


@pytest.mark.parametrize(
    ("computes_ms", "before_ms", "after_ms", "holds"),
    [(9.8, 10, 6, True), (9.8, 6, 10, True), (6.5, 10, 6, False), (9.8, 9, 14, False)],
    ids=["becomes faster", "becomes slower", "the difference may be all of it", "what is added may be Python"],
)
def test_the_class_holds_where_no_share_of_the_difference_can_change_it(
    computes_ms: float, before_ms: float, after_ms: float, holds: bool, tmp_path: Path
) -> None:
    told = changed(tmp_path, computes_ms, before_ms, after_ms)

    assert told.fact("class_at_either_speed") is holds
    assert told.verdict.class_ == ("compute-bound" if holds else "undecided")
    assert told.verdict.confidence == "low"
    assert (told.next.rule == RULE) is not holds
    assert next(each.severity for each in told.findings if each.rule == RULE) == ("warning" if holds else "critical")


def test_equal_speeds_raise_no_doubt(tmp_path: Path) -> None:
    told = changed(tmp_path, 9.8, 9.5, 10)

    assert RULE not in {each.rule for each in told.findings}
