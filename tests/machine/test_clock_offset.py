"""A GPU clock that is behind that of the host: told as such, and taken for nothing else."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from machine.environment_jobs import alone, blocking

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

RULE = "clocks-apart"
each = pytest.mark.parametrize(
    ("trace", "blocks", "blocks_as_it_is"),
    [(alone, False, False), (blocking, None, True)],
    ids=["launches return at once", "launches block"],
)


def analysed(trace: Mapping[str, Any], folder: Path) -> Diagnosis:
    (folder / "rank0.json").write_text(json.dumps(trace), encoding="utf-8")
    return analyze(folder)


def earlier(trace: Mapping[str, Any], us: float) -> Mapping[str, Any]:
    """The trace with the times of its GPU so much earlier."""
    for event in trace["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"):
            event["ts"] -= us
    return trace


def told(found: Diagnosis) -> dict[str, object]:
    return {fact.name: fact.value for fact in found.facts}


@each
def test_an_offset_is_told_and_is_no_blocking(
    trace: Callable[[], Mapping[str, Any]], blocks: bool | None, blocks_as_it_is: bool, tmp_path: Path
) -> None:
    found = analysed(earlier(trace(), 3000), tmp_path)

    assert RULE in {finding.rule for finding in found.findings}
    assert "blocking-launches" not in {finding.rule for finding in found.findings}
    assert told(found)["launches_block"] is blocks
    assert told(found)["early_start_share"] == 1
    assert told(found)["early_start_ns"] == pytest.approx(3e6, rel=0.01)


@each
def test_without_an_offset_none_is_told(
    trace: Callable[[], Mapping[str, Any]], blocks: bool | None, blocks_as_it_is: bool, tmp_path: Path
) -> None:
    found = analysed(trace(), tmp_path)

    assert RULE not in {finding.rule for finding in found.findings}
    assert told(found)["launches_block"] is blocks_as_it_is
    assert (told(found)["early_start_share"], told(found)["early_start_ns"]) == (0, 0)


def test_a_job_without_a_gpu_has_one_clock(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    for _ in range(3):
        with job.step():
            job.cpu_op("aten::mm", 500)

    found = analysed(job.json(), tmp_path)

    assert told(found)["early_start_share"] == 0
    assert RULE not in {each.rule for each in found.not_judged}
