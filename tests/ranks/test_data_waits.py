"""Waits for data on every rank: workers cure them and the waiting for each other; those of one rank are its own."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from analysed import GEMM
from kineto import Trace, collective

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

LoaderMs = Callable[[int, int], float]


def trained(folder: Path, loader_ms: LoaderMs, ranks: int = 2, steps: int = 7) -> Diagnosis:
    """Ranks that load a batch, compute 10 ms and reduce; `loader_ms` is what a batch takes by rank and step."""
    traces = [Trace(rank=r, world=ranks) for r in range(ranks)]
    for step in range(steps):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                trace.loader(ms=loader_ms(trace.rank, step))
                for _ in range(20):
                    trace.op("aten::mm", [[512, 512], [512, 512]], GEMM, 500)
            collective(traces, "allreduce", 1 << 22, 200, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    folder.mkdir()
    for trace in traces:
        trace.write(folder / f"rank{trace.rank}.json")
    return analyze(folder)


def in_turns(rank: int, step: int) -> float:
    return 12 if (rank + step) % 2 else 4


def one_longer(rank: int, step: int) -> float:
    return 14 if rank else 8


def one_alone(rank: int, step: int) -> float:
    return 14 if rank else 0.05


def no_data_wait(found: Diagnosis) -> list[tuple[float, float]]:
    assert found.postmortem is not None
    return [change.speedup for change in found.postmortem.changes if change.change == "no data wait"]


@pytest.mark.parametrize("loader_ms", [in_turns, one_longer])
def test_without_waits_for_data_the_step_is_that_of_the_job_that_loads_at_once(
    loader_ms: LoaderMs, tmp_path: Path
) -> None:
    found, twin = trained(tmp_path / "slow", loader_ms), trained(tmp_path / "quick", lambda rank, step: 0.0)
    truth = (found.steps.device_time_ns / found.steps.count) / (twin.steps.device_time_ns / twin.steps.count)

    ((low, high),) = no_data_wait(found)

    assert low == pytest.approx(truth, rel=0.02)
    assert high == pytest.approx(truth, rel=0.02)


def test_ranks_that_take_turns_are_told_of_their_data_and_of_no_imbalance(tmp_path: Path) -> None:
    found = trained(tmp_path / "slow", in_turns)

    assert found.next is not None
    assert (found.next.rule, found.stragglers) == ("data-wait", ())
    assert "rotating-stragglers" not in {finding.rule for finding in found.findings}


def test_a_rank_that_waits_longest_of_all_is_cured_by_the_loaders_of_all(tmp_path: Path) -> None:
    found = trained(tmp_path / "slow", one_longer)
    gains = {finding.rule: finding.predicted_speedup for finding in found.findings}
    (straggler,) = (finding for finding in found.findings if finding.rule == "straggler")

    assert [(s.rank, s.cause) for s in found.stragglers] == [(1, "data")]
    assert found.next is not None
    assert found.next.rule == "data-wait"
    assert gains["straggler"] == (1.0, 1.0)
    assert "cured by data-wait" in straggler.says
    assert straggler.do.startswith("The remedy for data-wait")
    assert "straggler" not in {step.rule for step in found.plan}


def test_a_rank_that_waits_for_data_alone_has_a_fault_of_its_own(tmp_path: Path) -> None:
    found = trained(tmp_path / "slow", one_alone)

    assert [(s.rank, s.cause) for s in found.stragglers] == [(1, "data")]
    assert found.next is not None
    assert found.next.rule == "straggler"
    assert "that rank's node" in found.next.do
    assert no_data_wait(found) == []


def at_times(rank: int, step: int) -> float:
    return 14 if rank and step % 2 else 0.05


def test_what_a_rank_waits_for_the_data_of_another_counts_in_the_gain_if_nobody_is_named(tmp_path: Path) -> None:
    """Only rank 1 waits for data, and only in every second step: rank 0 waits for it in the all-reduce."""
    found, twin = trained(tmp_path / "slow", at_times), trained(tmp_path / "quick", lambda rank, step: 0.0)
    gains = {finding.rule: finding.predicted_speedup for finding in found.findings}
    truth = (found.steps.device_time_ns / found.steps.count) / (twin.steps.device_time_ns / twin.steps.count)

    assert found.stragglers == ()
    assert gains["data-wait"] is not None
    assert gains["data-wait"][1] == pytest.approx(truth, rel=0.05)
    assert "rotating-stragglers" not in gains
