"""Time of which nothing is known: it decides where the verdict is open, which is on the ledger of the whole job."""

from pathlib import Path

import pytest
from analysed import GEMM
from kineto import Trace

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis


def diagnosed(folder: Path, rank: int | None = None) -> Diagnosis:
    """Two ranks, of which rank 0 spends 4 ms per step on its host of which the trace shows nothing."""
    for number in (0, 1):
        trace = Trace(rank=number, world=2)
        for step in range(6):
            with trace.step():
                for _ in range(20):
                    trace.op("aten::mm", [[2048, 2048], [2048, 2048]], GEMM, 100, host_us=10)
                trace.sync()
                trace.host(0 if number else 4000)
                trace.collective("allreduce", 1 << 24, 4300 if number else 300, seq=step)
                trace.sync(stream=None)
        trace.write(folder / f"rank{number}.json")
    return analyze(folder, options=Options(rank=rank))


def test_a_rank_that_is_open_by_itself_leaves_the_job_decided(tmp_path: Path) -> None:
    found = diagnosed(tmp_path)
    severity = {finding.rule: finding.severity for finding in found.findings}

    assert found.ranks[0].verdict.class_ == "undecided"
    assert found.verdict.class_ == "host-bound"
    assert severity["unexplained-time"] == "warning"
    assert found.next is not None
    assert found.next.rule == "straggler"


@pytest.mark.parametrize(("rank", "class_"), [(None, "host-bound"), (0, "undecided"), (1, "host-bound")])
def test_unknown_time_decides_where_the_verdict_beside_it_is_open(
    rank: int | None, class_: str, tmp_path: Path
) -> None:
    found = diagnosed(tmp_path, rank)
    (decides,) = (fact.value for fact in found.facts if fact.name == "unobserved_decides")

    assert found.verdict.class_ == class_
    assert decides == (class_ == "undecided")
