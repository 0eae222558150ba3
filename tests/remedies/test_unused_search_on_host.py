"""What DDP's search for unused parameters costs without a GPU: the walk, and the map that gloo reduces."""

from pathlib import Path

import pytest
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.predict.spread import spread

WALK = "torch.distributed.ddp.reducer::search_unused_parameters"


def searching(map_ms: float, beside_ms: float, rank: int, marks: int = 0) -> Trace:
    """Steps of 10 ms: half a millisecond of walking, 3 of gradients, and a map of which a part is reduced with them.

    Each of the marks on the map takes 10 us more.
    """
    job = Trace(gpu=None, rank=rank, world=2, backend="gloo")
    for _ in range(4):
        with job.step():
            with job.annotation("DistributedDataParallel.forward"), job.inside(WALK):
                job.host(500)
            job.op("aten::mm", [[512, 512], [512, 512]], host_us=6500 - 1000 * (map_ms - beside_ms))
            for _ in range(marks):
                job.op("aten::select", [[120], [], []], dtype="int", host_us=6)
                job.op("aten::fill_", [[], []], dtype="int", host_us=4, args={"Input type": ["int", "Scalar"]})
            job.op("aten::select", [[64], [], []], dtype="int", host_us=1)  # of the job's own
            with job.inside("gloo:all_reduce", [[1 << 20]], "float"):
                job.host(3000 - 1000 * beside_ms)
                with job.inside("gloo:all_reduce", [[120]], "int"):
                    job.host(1000 * beside_ms)
            with job.inside("gloo:all_reduce", [[120]], "int"):
                job.host(1000 * (map_ms - beside_ms))
    return job


def of_both(folder: Path, map_ms: float, beside_ms: float, marks: int = 0) -> Diagnosis:
    for rank in range(2):
        searching(map_ms, beside_ms, rank, marks).write(folder / f"rank{rank}.json")
    return analyze(folder)


def told(found: Diagnosis, name: str) -> object:
    return next(fact.value for fact in found.facts if fact.name == name)


def test_the_walk_and_the_map_alone_are_promised_and_what_is_beside_it_hoped_for(tmp_path: Path) -> None:
    found = of_both(tmp_path, map_ms=2, beside_ms=1)
    finding = next(each for each in found.findings if each.rule == "unused-parameter-search")

    assert told(found, "unused_search_share") == pytest.approx(0.15, abs=0.01)
    assert told(found, "unused_map_share") == pytest.approx(0.10, abs=0.01)
    assert finding.predicted_speedup == pytest.approx((spread(1 / (1 - 0.8 * 0.15))[0], 1 / (1 - 0.25)), rel=0.01)


def test_a_map_that_is_reduced_behind_the_gradients_is_all_promised(tmp_path: Path) -> None:
    found = of_both(tmp_path, map_ms=1, beside_ms=0)

    assert told(found, "unused_search_share") == pytest.approx(0.15, abs=0.01)
    assert told(found, "unused_map_share") == pytest.approx(0.0, abs=0.01)


def test_a_mark_on_the_map_for_each_gradient_goes_with_it(tmp_path: Path) -> None:
    found = of_both(tmp_path, map_ms=1, beside_ms=0, marks=120)
    finding = next(each for each in found.findings if each.rule == "unused-parameter-search")

    assert told(found, "unused_mark_share") == pytest.approx(1.2 / 11.2, abs=0.01)
    assert finding.predicted_speedup is not None
    assert finding.predicted_speedup[0] == pytest.approx(spread(1 / (1 - 0.8 * (1.5 + 1.2) / 11.2))[0], rel=0.01)
