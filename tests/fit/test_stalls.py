"""Stalls between nodes: what they take, how likely they are, and the step that half of all runs stay below."""

from dataclasses import replace

import pytest
from fit_jobs import job

from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.step_time import median_s, predict_step, stall_chance, stall_s
from diagnose.predict.memory.job import JobPlan, Sharding

NANOTRON = stack_of("nanotron")


def plan(nodes: int, dp: int = 1, tp: int = 8, pp: int = 1, accumulation: int = 16) -> JobPlan:
    sharding = Sharding(dp, tp, pp, zero=1 if dp > 1 else 0)
    return job("Llama-3.1-8B", sharding, nodes=nodes, accumulation=accumulation, dtype="bf16-master-fp32-grads")


@pytest.mark.parametrize(
    ("pp", "exchanges"),
    # two stages have one neighbour each; of four those in the middle have two, and the first micro-batch passes three
    [(2, 16 * 1 + 1), (4, 16 * 2 + 3), (8, 16 * 2 + 7)],
)
def test_a_pipeline_stalls_with_each_exchange_of_its_busiest_stage(pp: int, exchanges: int) -> None:
    assert stall_s(plan(pp, pp=pp), NANOTRON) == pytest.approx(exchanges * NANOTRON.stall_s)


def test_tensor_parallelism_between_nodes_stalls_with_each_collective() -> None:
    lost = 10 * 32 * 16 * NANOTRON.collective_stall_s  # ten collectives in each of 32 blocks and 16 micro-batches
    assert stall_s(plan(2, tp=16), NANOTRON) == pytest.approx(lost)


def test_one_node_does_not_stall_nor_does_a_stack_of_which_no_run_is_known_to() -> None:
    assert predict_step(plan(1, tp=4, pp=2), NANOTRON).stall_chance == 0
    between = predict_step(plan(2, dp=2), stack_of("torchtitan"))
    assert (between.stall_chance, between.parts["stalls"]) == (0, 0)


def test_more_nodes_a_pipeline_and_memory_that_is_nearly_full_make_stalls_likelier() -> None:
    def chance(job: JobPlan) -> float:
        return stall_chance(job, NANOTRON)

    pipeline = plan(4, dp=2, pp=2)
    full = replace(pipeline, micro_batch=48)
    assert chance(plan(4, dp=4)) < chance(pipeline) < chance(plan(32, dp=16, pp=2))
    assert chance(pipeline) < chance(replace(pipeline, sharding=Sharding(1, 16, 2)))
    assert chance(pipeline) < chance(full)


def test_memory_counts_most_where_tensor_parallelism_crosses_nodes_without_a_pipeline() -> None:
    def worse(roomy: JobPlan, micro_batch: int) -> float:
        full = replace(roomy, micro_batch=micro_batch)
        odds = [chance / (1 - chance) for chance in (stall_chance(plan, NANOTRON) for plan in (roomy, full))]
        return odds[1] / odds[0]

    assert worse(plan(2, tp=16), 64) > worse(plan(2, tp=8, dp=2), 32) > 1


@pytest.mark.parametrize(("chance", "lowest", "highest"), [(0.0, 1, 1), (0.1, 1, 1.02), (0.4, 1.05, 1.2), (0.9, 9, 10)])
def test_half_of_all_runs_stay_below_the_step_to_expect(chance: float, lowest: float, highest: float) -> None:
    assert lowest <= median_s(1.0, 10.0, chance) <= highest


def test_the_ranking_goes_by_the_mean_over_runs() -> None:
    """Of ten runs one that takes twenty times as long costs a tenth of the mean, and the median nearly nothing."""
    step = predict_step(plan(16, dp=8, pp=2), NANOTRON)
    mean = (1 - step.stall_chance) / step.steady_s + step.stall_chance / step.stalled_s
    assert step.expected_tokens_per_s == pytest.approx(step.tokens * mean)
    assert step.expected_tokens_per_s < step.tokens_per_s < step.tokens / step.steady_s


def test_the_range_holds_what_one_run_in_ten_does() -> None:
    step = predict_step(plan(16, dp=8, pp=2), NANOTRON)
    assert 0.1 < step.stall_chance < 0.5
    assert step.steady_s > step.fastest_s
    assert step.slowest_s > step.stalled_s > step.step_s
    seldom = predict_step(plan(2, dp=2), NANOTRON)
    assert seldom.stall_chance < 0.1
    assert seldom.slowest_s < seldom.stalled_s
