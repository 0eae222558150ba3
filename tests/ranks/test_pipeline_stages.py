"""A pipeline's stages are known: ranks are compared inside one, stages with each other, micro-batches in each."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from msgspec.structs import replace
from simulator import Fault, Job, simulate

from diagnose.analysis import analyze
from diagnose.analysis.rank import analyses
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import NO_STRAGGLER
from diagnose.metrics.settings import Settings
from diagnose.ranks import Job as Joined
from diagnose.ranks import RankDigest, join
from diagnose.ranks.replay.changes import EQUAL_STAGES, EVEN_BATCHES
from diagnose.ranks.stages import Pipeline, pipeline_of
from diagnose.ranks.stragglers.evidence import LatenessEvidence, waiting_by_rank
from diagnose.ranks.stragglers.few_steps import NEVER
from diagnose.trace import Loading

pytestmark = pytest.mark.long

RANKS = 8
FIRST, LAST = (0, 1), (6, 7)


def job(*faults: Fault, odd: int | None = None, batched: bool = True, layers: tuple[int, ...] = (2, 2, 2, 1)) -> Job:
    """Four stages of two ranks, of eight micro-batches; the last one has the head, too."""
    return Job(
        ranks=RANKS, steps=4, parallelism="pp_dp", micro_batches=8, faults=faults, odd_rank=odd, batched=batched,
        stage_layers=layers,
    )  # fmt: skip


@cache
def simulated(asked: Job) -> tuple[tuple[RankDigest, ...], float]:
    """The digests of the job's ranks, and how many times as fast it is without its faults."""
    with TemporaryDirectory() as folder:
        truth = simulate(asked).write(Path(folder))
        files = [(Path(folder) / f"rank{rank}.json.gz", rank) for rank in range(asked.ranks)]
        return tuple(own.digest for own in analyses(files, Settings(), Loading())), truth.gains["without faults"]


def joined(asked: Job) -> Joined:
    return join(simulated(asked)[0])


def stages(ranks: Sequence[RankDigest]) -> Pipeline:
    found = pipeline_of(ranks, join(ranks).match)
    assert found is not None
    return found


def gain(found: Joined, change: str) -> tuple[float, float]:
    """The predicted speedup of a change; none is (1, 1)."""
    return next((each.speedup for each in found.changes.changes if each.change == change), (1.0, 1.0))


def report(asked: Job, folder: Path) -> Diagnosis:
    simulate(asked).write(folder)
    return analyze(folder)


# -- the stages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", [True, False])
def test_stages_are_in_the_order_in_which_a_batch_passes_them_with_its_micro_batches(batched: bool) -> None:
    found = stages(simulated(job(batched=batched))[0])

    assert found.stages == (FIRST, (2, 3), (4, 5), LAST)
    assert found.replicas == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert found.micro_batches == 8


def test_stages_follow_the_messages_where_the_ranks_are_numbered_otherwise() -> None:
    ranks, number = simulated(job())[0], dict(zip(range(RANKS), (6, 7, 4, 5, 2, 3, 0, 1), strict=True))

    def renumbered(rank: RankDigest) -> RankDigest:
        groups = tuple(replace(g, ranks=tuple(sorted(number[r] for r in g.ranks))) for g in rank.calls.groups)
        messages = rank.calls.messages.copy()
        messages[:, 1:] = np.array([number[r] for r in range(RANKS)])[messages[:, 1:]]
        return replace(rank, rank=number[rank.rank], calls=replace(rank.calls, groups=groups, messages=messages))

    turned = sorted((renumbered(rank) for rank in ranks), key=lambda rank: rank.rank)

    assert stages(turned).stages == (LAST, (4, 5), (2, 3), FIRST)


def test_a_rank_without_a_trace_leaves_the_stages_of_the_others_known() -> None:
    found = stages([rank for rank in simulated(job())[0] if rank.rank != 3])

    assert [len(stage) for stage in found.stages] == [2, 1, 2, 2]
    assert found.replicas == ((0, 2, 3, 5),)


def test_messages_that_come_round_again_are_no_micro_batches_of_their_own() -> None:
    """Two interleaved parts of each stage: four micro-batches pass on eight times, four times last to first."""

    def with_rounds(rank: RankDigest) -> RankDigest:
        if rank.rank not in LAST:
            return rank
        first_calls = [np.flatnonzero(rank.calls.step == number)[0] for number in rank.numbers]
        around = [(row, rank.rank, rank.rank - LAST[0]) for row in first_calls for _ in range(4)]
        messages = np.concatenate((rank.calls.messages, np.array(around, np.int64)))
        return replace(rank, calls=replace(rank.calls, messages=messages))

    assert stages([with_rounds(rank) for rank in simulated(job())[0]]).micro_batches == 4


def test_a_job_without_messages_has_no_stages() -> None:
    ranks = simulated(Job(ranks=4, steps=2))[0]

    assert pipeline_of(ranks, join(ranks).match) is None


# -- late stages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["late_stage", "uneven_stages"])
@pytest.mark.parametrize("stage", [FIRST, (2, 3), LAST])
def test_a_heavier_stage_is_named_as_a_stage_and_costs_what_a_stage_like_the_others_saves(
    kind: str, stage: tuple[int, int]
) -> None:
    asked = job(Fault(kind, stage))
    found = joined(asked)

    assert found.stragglers == ()
    assert found.view.pipeline is not None
    assert [each.ranks for each in found.view.pipeline.stages if each.heavier] == [stage]
    assert f"(ranks {stage[0]}, {stage[1]}) is heavier" in found.view.pipeline.heavier
    low, high = gain(found, EQUAL_STAGES)
    assert low * 0.95 <= simulated(asked)[1] <= high * 1.05  # the last stage has more work without a fault, too


def test_the_report_of_a_heavier_stage_says_which_and_moves_its_layers(tmp_path: Path) -> None:
    found = report(job(Fault("uneven_stages", LAST)), tmp_path)

    assert found.stragglers == ()
    assert found.next.rule == "uneven-stages"
    assert "stage 3 (ranks 6, 7) is heavier" in found.next.do
    assert "more work per micro-batch than the other stages" in found.next.do
    assert "pipeline-bubbles" not in {finding.rule for finding in found.findings}


def test_the_layers_to_move_are_counted_where_the_model_says_how_many_it_has() -> None:
    ranks, layers = simulated(job(Fault("uneven_stages", FIRST)))[0], (("model.config.num_hidden_layers", 32),)

    found = join([replace(rank, settings=layers) for rank in ranks])

    assert found.view.pipeline is not None
    assert "layers to move: about 2 of 32" in found.view.pipeline.heavier


@pytest.mark.parametrize(
    ("fault", "late", "heavier"),
    [(Fault("slow_kernels", (2,), 1.6), [2], []), (Fault("uneven_stages", (1,)), [], [(1,)])],
)
def test_in_a_pipeline_of_one_replica_slower_kernels_are_a_ranks_and_more_kernels_a_stages(
    fault: Fault, late: list[int], heavier: list[tuple[int, ...]]
) -> None:
    asked = Job(ranks=4, steps=4, parallelism="pp_dp", micro_batches=8, faults=(fault,))
    found = joined(asked)

    assert [each.rank for each in found.stragglers] == late
    assert found.view.pipeline is not None
    assert [stage.ranks for stage in found.view.pipeline.stages if stage.heavier] == heavier
    assert gain(found, NO_STRAGGLER if late else EQUAL_STAGES)[1] == pytest.approx(simulated(asked)[1], rel=0.05)


def test_stages_that_hardly_differ_are_not_told_and_no_rank_is(tmp_path: Path) -> None:
    found = report(job(layers=(3, 3, 3, 2)), tmp_path)

    assert not {"uneven-stages", "rotating-stragglers", "straggler"} & {finding.rule for finding in found.findings}
    assert found.postmortem is not None
    assert [stage.stage for stage in found.postmortem.stages] == [0, 1, 2, 3]
    assert not any(stage.heavier for stage in found.postmortem.stages)


# -- late ranks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [None, 3])
@pytest.mark.parametrize(("kind", "cause"), [("slow_kernels", "slower_kernels"), ("sync", "host"), ("data", "data")])
def test_a_late_rank_is_compared_with_its_stage_whatever_else_it_calls(kind: str, cause: str, odd: int | None) -> None:
    asked = job(Fault(kind, (3,)), odd=odd)
    found = joined(asked)

    assert [(late.rank, late.cause) for late in found.stragglers] == [(3, cause)]
    assert found.view.pipeline is not None
    assert found.view.pipeline.heavier == ""
    assert gain(found, NO_STRAGGLER)[1] == pytest.approx(simulated(asked)[1], rel=0.05)


def test_late_ranks_of_two_stages_are_both_named() -> None:
    asked = job(Fault("slow_kernels", (1, 6), 1.4))
    found = joined(asked)

    assert sorted(late.rank for late in found.stragglers) == [1, 6]
    assert gain(found, NO_STRAGGLER)[1] == pytest.approx(simulated(asked)[1], rel=0.05)


def test_a_late_rank_and_a_heavier_stage_are_told_apart() -> None:
    found = joined(job(Fault("late_stage", LAST), Fault("slow_kernels", (3,), 1.6)))

    assert [late.rank for late in found.stragglers] == [3]
    assert found.view.pipeline is not None
    assert [stage.ranks for stage in found.view.pipeline.stages if stage.heavier] == [LAST]


# -- micro-batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lengths", "packed"])
def test_uneven_micro_batches_are_told_with_what_even_ones_save(kind: str, tmp_path: Path) -> None:
    asked = job(Fault(kind))
    found = report(asked, tmp_path)

    (uneven,) = (finding for finding in found.findings if finding.rule == "rotating-stragglers")
    assert found.stragglers == ()
    assert "Micro-batches take unequally long" in uneven.says
    assert "as many tokens in each" in uneven.do
    assert gain(joined(asked), EVEN_BATCHES)[1] == pytest.approx(simulated(asked)[1], rel=0.05)


def test_more_micro_batches_are_priced_by_the_schedule(tmp_path: Path) -> None:
    found = report(job(), tmp_path)

    (bubbles,) = (finding for finding in found.findings if finding.rule == "pipeline-bubbles")
    assert "4 stages with 8 micro-batches idle for 27.3 % of a step, with 16" in bubbles.do
    assert bubbles.predicted_speedup is not None
    assert bubbles.predicted_speedup[1] == pytest.approx((8 + 3) / (8 + 3 / 2), rel=0.1)


@pytest.mark.parametrize("seconds", [1, 40])
def test_what_several_late_ranks_cause_is_divided_however_long_the_steps_are(seconds: int) -> None:
    ns = seconds * 10**9
    evidence = LatenessEvidence(
        caused_ns=np.array([[0], [0], [ns], [3 * ns]]),
        own_ns=np.array([[0], [0], [ns], [ns]]),
        step_ns=np.array([4 * ns]),
        noise_share=0.05,
        votes=np.zeros(4, np.int64),
        peers=~np.eye(4, dtype=bool),
        work_ns=(),
        slowest=(NEVER,) * 4,
        seen=np.ones((4, 1), bool),
    )

    assert waiting_by_rank(evidence, (2, 3)).tolist() == [[0], [0], [2 * ns], [2 * ns]]
