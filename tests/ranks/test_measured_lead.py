"""What the cure of a late rank buys where the joint replay misses the step: from its own lead to what others lose."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from analysed import ADD, GEMM
from kineto import Trace
from simulator import Fault, Job, simulate
from simulator.job import Parallelism

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.ranks.replay import changes

LATE, WAIT_US = 2, 60 * 36
FAULTS = ("slow_kernels", "data")


def diagnosed(waiting_us: float = WAIT_US, updates: int = 60) -> Diagnosis:
    """Four ranks, of which one runs 60 operators before each all-reduce; the replay of them is 10 % away."""
    with TemporaryDirectory() as folder:
        for rank in range(4):
            trace = Trace(rank=rank, world=4)
            for step in range(5):
                with trace.step():
                    for place in range(4):
                        reduced(trace, 4 * step + place, rank == LATE, waiting_us)
                    with trace.optimizer():
                        for _ in range(updates):
                            trace.op("aten::add_", [[512, 512]], ADD, 15, host_us=3)
                    trace.sync(stream=None)
            trace.write(Path(folder) / f"rank{rank}.json")
        return analyze(folder)


def reduced(trace: Trace, number: int, late: bool, waiting_us: float) -> None:
    for _ in range(10):
        trace.op("aten::mm", [[2048, 2048], [2048, 2048]], GEMM, 100, host_us=10)
    trace.sync()
    for _ in range(60 if late else 0):
        trace.op("aten::index_select", [[64, 64]], host_us=30)
    trace.collective("allreduce", 1 << 24, 300 if late else 300 + waiting_us, seq=number)
    trace.sync(stream=None)


def test_a_rank_that_is_measured_to_be_late_comes_before_a_small_sure_gain() -> None:
    found = diagnosed()
    gains = {finding.rule: finding.predicted_speedup for finding in found.findings}

    assert found.postmortem is not None
    assert "away from the measured step" in found.postmortem.no_changes_because
    assert found.next is not None
    assert found.next.rule == "straggler"
    assert gains["straggler"] is not None
    low, high = gains["straggler"]
    assert 1.9 < low < high


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("parallelism", ["ddp", "fsdp", "tp_dp", "pp_dp"])
def test_the_range_holds_what_the_healthy_twin_takes(
    fault: str, parallelism: Parallelism, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(ranks=4, steps=5, layers=2, model_parallel=2, parallelism=parallelism, faults=(Fault(fault, (LATE,)),))
    ran = simulate(job)
    ran.write(tmp_path, gz=False)
    monkeypatch.setattr(changes, "MOST_ERROR", -1.0)

    facts = {fact.name: fact.value for fact in analyze(tmp_path).facts}

    truth = 1 - float(ran.healthy.step_ns[1:].mean() / ran.machine.step_ns[1:].mean())
    least = float(facts["least_straggler_cure_share"])  # type: ignore[arg-type]
    assert least <= truth + 0.02
    assert (least > 0) == (parallelism != "pp_dp"), "stages wait for each other anyway"
    assert float(facts["straggler_cure_share"]) >= truth - 0.02  # type: ignore[arg-type]
