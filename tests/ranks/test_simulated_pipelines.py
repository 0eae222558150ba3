"""benchmarks/simulator/pipeline.py: the schedule of a pipeline, its collectives and what is true of it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from simulator import Fault, Job, Transport, simulate
from simulator.pipeline import Exchange, Pass, passes_of
from simulator.truth import read_truth

from diagnose.analysis.rank import analyses
from diagnose.facts import Unknown
from diagnose.metrics.settings import Settings
from diagnose.ranks import match
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.joint import joint_of
from diagnose.ranks.stages import pipeline_of
from diagnose.trace import Loading

pytestmark = pytest.mark.long

SMOOTH = Transport(0, 1e18, 0, 1e18, 0, 0)  # transfers that take no time
EVEN = Job(
    ranks=8, steps=3, parallelism="pp_dp", transport=SMOOTH, jitter=0, host_jitter=0, spread=0, free=("host",)
)  # fmt: skip
LAST_STAGE = (6, 7)


@pytest.mark.parametrize(("stages", "micros"), [(4, 8), (4, 4), (4, 2), (2, 1), (1, 3)])
def test_each_stage_runs_every_micro_batch_and_both_sides_exchange_the_same(stages: int, micros: int) -> None:
    done = [list(passes_of(stage, stages, micros)) for stage in range(stages)]

    for low, one in enumerate(done):
        for forward in (True, False):
            assert [p.micro for p in one if isinstance(p, Pass) and p.forward == forward] == list(range(micros))
        between = [[e for e in of if isinstance(e, Exchange) and e.low == low] for of in (one, *done[low + 1 :][:1])]
        assert all(between[0] == of for of in between)
        assert sum(e.on is not None for e in between[0]) == (micros if low < stages - 1 else 0)


def test_a_step_of_equal_stages_is_as_long_as_one_forward_one_backward_makes_it() -> None:
    """All micro-batches of one stage, and one more for each further stage."""
    ran = simulate(replace(EVEN, stage_layers=(2, 2, 2, 2), micro_batches=6)).equal

    of_a_micro_batch = ran.computed.mean() / 3 / 6
    assert ran.step_ns[1:].mean() == pytest.approx((6 + 4 - 1) * of_a_micro_batch, rel=0.05)


def test_the_time_of_a_rank_is_its_kernels_and_its_waiting() -> None:
    simulated = simulate(replace(EVEN, micro_batches=8, faults=(Fault("slow_kernels", (3,)),)))
    ran = simulated.machine

    spent = ran.computed + ran.waited.sum(axis=0)
    assert spent == pytest.approx(np.full(8, ran.step_ns.sum(axis=0).mean()), rel=0.02)


@pytest.mark.parametrize("kind", ["late_stage", "uneven_stages"])
def test_a_late_stage_is_told_with_what_equal_stages_and_stages_like_the_others_buy(kind: str, tmp_path: Path) -> None:
    job = Job(ranks=8, steps=3, parallelism="pp_dp", micro_batches=8, faults=(Fault(kind, LAST_STAGE),))

    truth = simulate(job).write(tmp_path)

    assert (truth.late, truth.late_stages) == ((), (LAST_STAGE,))
    assert 1.1 < truth.gains["equal stages"] < truth.gains["without faults"] < 1.5
    assert read_truth(tmp_path).late_stages == truth.late_stages


@pytest.mark.parametrize("parallelism", ["ddp", "pp_dp"])
@pytest.mark.parametrize("kind", ["lengths", "packed"])
def test_uneven_micro_batches_keep_their_work_when_they_are_evened(kind: str, parallelism: str) -> None:
    simulated = simulate(Job(ranks=8, steps=3, parallelism=parallelism, faults=(Fault(kind),)))

    assert simulated.truth.late == ()
    assert simulated.gains["without faults"] > 1.05
    assert simulated.healthy.computed.sum() == pytest.approx(simulated.machine.computed.sum(), rel=0.01)


def joined(job: Job, folder: Path) -> tuple[list[RankDigest], Match]:
    simulate(job).write(folder)
    files = [(folder / f"rank{rank}.json.gz", rank) for rank in range(job.ranks)]
    ranks = [own.digest for own in analyses(files, Settings(), Loading())]
    matched = match(ranks)
    assert not isinstance(matched, Unknown)
    return ranks, matched


@pytest.mark.parametrize("batched", [True, False])
def test_the_analysis_finds_stages_whether_or_not_messages_are_batched(batched: bool, tmp_path: Path) -> None:
    found = pipeline_of(*joined(Job(ranks=8, steps=2, parallelism="pp_dp", batched=batched), tmp_path))

    assert found is not None
    assert (found.stages, found.micro_batches) == (((0, 1), (2, 3), (4, 5), LAST_STAGE), 4)


@pytest.mark.parametrize("batched", [True, False])
def test_the_replay_of_a_pipeline_is_as_long_as_it_was_though_its_reductions_wait_for_one_another(
    batched: bool, tmp_path: Path
) -> None:
    """The ends of the pipeline reduce their embedding at once where the layers' gradients are reduced."""
    job = Job(ranks=8, ranks_per_node=4, steps=4, parallelism="pp_dp", micro_batches=8, batched=batched)

    replayed = joint_of(*joined(job, tmp_path))

    assert not isinstance(replayed, Unknown)
    assert replayed.strict_error < 0.002


def test_one_rank_may_reduce_four_bytes_that_no_other_does() -> None:
    traces = dict(simulate(Job(ranks=8, steps=1, parallelism="pp_dp", odd_rank=5)).traces())

    odd = Counter(rank for rank, text in traces.items() if "LOGGING_GROUP" in text)
    assert list(odd) == [5]
