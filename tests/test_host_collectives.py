"""Collectives of the host, such as gloo's, are counted and sized by what their ranges record."""

from pathlib import Path

import pytest
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis
from diagnose.facts import Fact
from diagnose.metrics import units
from diagnose.rule import load_rules

FLOATS = 8320
RECORDED = {"find_unused_parameters": False, "static_graph": False}


def exchanging(folder: Path, messages: int, cap_mb: float) -> Diagnosis:
    """Steps of 10 ms on a CPU, half of them in reductions of 33 kB each."""
    job = Trace(gpu=None)
    for _ in range(5):
        with job.step():
            job.cpu_op("aten::mm", 5000)
            for _ in range(messages):
                sizes = {"Input Dims": [[FLOATS]], "Input type": ["float"]}
                job.event("user_annotation", "gloo:all_reduce", 5000 / messages, **sizes)
    return analysed(folder, job, {"world_size": 2, "ddp": {**RECORDED, "bucket_cap_mb": cap_mb}})


def fact(found: Diagnosis, name: str) -> object:
    return next(fact.value for fact in found.facts if fact.name == name)


def test_they_are_counted_and_sized(tmp_path: Path) -> None:
    found = exchanging(tmp_path, 30, 25.0)

    assert fact(found, "collectives_per_step") == 30
    assert fact(found, "mean_collective_bytes") == 4 * FLOATS
    assert fact(found, "small_collective_share") == 1


@pytest.mark.parametrize(("cap_mb", "proposed"), [(0.02, {"bucket_cap_mb": 25}), (25.0, None)])
def test_buckets_below_the_default_are_set_to_it(
    cap_mb: float, proposed: dict[str, int] | None, tmp_path: Path
) -> None:
    finding = next(each for each in exchanging(tmp_path, 30, cap_mb).findings if each.rule == "small-collectives")

    assert (finding.patch.set if finding.patch else None) == proposed


def test_few_of_them_are_no_fault(tmp_path: Path) -> None:
    assert "small-collectives" not in {finding.rule for finding in exchanging(tmp_path, 2, 25.0).findings}


@pytest.mark.parametrize(("passing", "left"), [(0.4, 0.22), (0.1, 1 - 0.78 / 4), (0.0, 1.0)])
def test_ranks_that_are_late_in_turn_are_waited_for_less_often(passing: float, left: float) -> None:
    """Waiting for a rank that is late steadily stays, however few the collectives are."""
    remedy = next(rule.remedy for rule in load_rules((), units()) if rule.id == "small-collectives")
    shares = {"small_collective_share": 1.0, "waiting_share": 0.4, "passing_waiting_share": passing}
    facts = {name: Fact(name, value, "share") for name, value in shares.items()}
    assert remedy is not None
    best, worst = remedy.factors(facts, "best"), remedy.factors(facts, "worst")
    assert best is not None
    assert worst is not None

    assert best.host["late-rank-host"] == pytest.approx(left)
    assert worst.host["late-rank-host"] == 1


def test_operators_that_get_their_cores_back_buy_more_than_the_transfer(tmp_path: Path) -> None:
    """Half of the step is reductions, which all gone would buy 2x."""
    found = next(each for each in exchanging(tmp_path, 30, 0.02).findings if each.rule == "small-collectives")

    assert found.predicted_speedup is not None
    low, high = found.predicted_speedup
    assert low < 1.3
    rest = 0.5 * 0.05 + 0.5 * 0.55
    assert high == pytest.approx(10 / (10 * rest - 1), rel=0.1), "of 10 ms; a millisecond is cold caches"
