"""The estimated clocks of simulated jobs against the true ones."""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from analysed import digest
from simulator import Clocks, Job, simulate
from simulator.truth import Truth

from diagnose.ranks import Match, RankDigest, match
from diagnose.ranks.collectives.clocks import align
from diagnose.ranks.collectives.mismatches import mismatches_of
from diagnose.ranks.report import agreement

pytestmark = pytest.mark.long

JOBS = {
    "ddp over two nodes": Job(ranks=8, ranks_per_node=4, clocks=Clocks(5, 30)),
    "fsdp without Seq": Job(ranks=4, ranks_per_node=2, parallelism="fsdp", seq=False, clocks=Clocks(20)),
    "tensor groups chained by data groups": Job(
        ranks=8, ranks_per_node=4, parallelism="tp_dp", model_parallel=4, clocks=Clocks(5)
    ),
    "without rank 0": Job(ranks=8, ranks_per_node=2, parallelism="tp_dp", missing=(0, 5), clocks=Clocks(5)),
    "gloo": Job(ranks=4, ranks_per_node=2, gpu=False, clocks=Clocks(5)),
    "many steps": Job(ranks=2, ranks_per_node=1, steps=40, layers=2, clocks=Clocks(5, 50)),
}
each = pytest.mark.parametrize("name", JOBS)


@cache
def simulated(name: str) -> tuple[Truth, list[RankDigest], Match]:
    found = simulate(JOBS[name])
    ranks = [digest(loaded(text), rank) for rank, text in found.traces()]
    matched = match(ranks)
    assert isinstance(matched, tuple)
    return found.truth, ranks, matched


def loaded(text: str) -> dict[str, Any]:
    trace: dict[str, Any] = json.loads(text)
    return trace


@each
def test_every_collective_of_a_healthy_job_is_matched_and_none_disagrees(name: str) -> None:
    _, ranks, found = simulated(name)

    present = {rank.rank for rank in ranks}
    shared = [len(present & set(c.groups[g].ranks)) > 1 for c in (r.calls for r in ranks) for g in c.group.tolist()]
    assert sum(g.call.size for g in found) == sum(shared)
    assert mismatches_of(ranks) == ()


@each
def test_offsets_are_true_within_the_residual(name: str) -> None:
    truth, ranks, found = simulated(name)

    clocks = align(ranks, found)

    numbers, first = [rank.rank for rank in ranks], ranks[0].rank
    ahead = np.array(truth.offset_ns)[numbers] - truth.offset_ns[first]
    window = ranks[0].windows[-1, 1] - ranks[0].windows[0, 0]
    run_away = np.abs(np.array(truth.drift_ppm)[numbers] - truth.drift_ppm[first]) * 1e-6 * 2 * window
    assert clocks.known.all()
    assert (np.abs(clocks.offset + ahead) <= np.maximum(clocks.residual, 1) + run_away).all()


@each
def test_waiting_by_start_agrees_with_waiting_by_duration(name: str) -> None:
    _, ranks, found = simulated(name)

    share = agreement(ranks, found, align(ranks, found))

    assert share is not None
    assert share > 0.9


def test_drift_is_true_within_a_tenth() -> None:
    truth, ranks, found = simulated("many steps")

    clocks = align(ranks, found)

    assert clocks.drifts.tolist() == [False, True]
    assert clocks.drift[1] * 1e6 == pytest.approx(truth.drift_ppm[0] - truth.drift_ppm[1], rel=0.1)
