"""Both sides of each threshold of a planned job, and its shares, in numbers."""

from dataclasses import replace
from typing import Any

import pytest
from fit_jobs import GPUS, job
from msgspec import structs

from diagnose.commands.fit import stage_time, step_time, transfers
from diagnose.commands.fit.models import longest_usual
from diagnose.commands.fit.reasons import chance, largest_losses
from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.step_time import PredictedStep, evidence, median_s, predict_step, regime
from diagnose.commands.fit.table import plan_of
from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.predict.memory.estimate import memory_estimate, stage_parameters
from diagnose.predict.memory.job import Sharding

MODEL = "Llama-3.2-1B"
STACK = stack_of("transformers")


def test_a_tenth_of_what_a_step_takes_and_gives_back_is_fragments() -> None:
    parts = {part.name: part for part in memory_estimate(job(MODEL)).parts}
    taken = sum(part.bytes for part in parts.values() if part.transient and part.name != "fragmentation")

    assert parts["fragmentation"].bytes == pytest.approx(0.1 * taken, rel=1e-6)


def test_a_tensor_parallel_rank_keeps_four_buffers_of_the_full_width() -> None:
    plan = job(MODEL, Sharding(tp=2))

    found = memory_estimate(plan).bytes_of("communication buffers")
    assert found == 4 * plan.micro_batch_tokens * plan.model.hidden * 2


def test_sharded_weights_are_gathered_of_two_blocks_beside_the_gradients_of_one() -> None:
    plan = job(MODEL, Sharding(dp=8, zero=3))
    model = plan.model
    block = model.attention_weights + model.feed_forward_weights(model.experts)

    outside = stage_parameters(plan, 0) - model.layers * block
    assert memory_estimate(plan).bytes_of("communication buffers") == round((outside + 3 * block) * 2)


def test_a_sequence_has_two_thousand_tokens_where_nothing_says() -> None:
    assert longest_usual(NAMED_MODELS[MODEL]) == 2048
    assert plan_of({"model": MODEL, "gpu": "H100-SXM5-80GB", "gpus": "1", "micro_batch": "1"}, "nanotron",
                   lambda name: NAMED_MODELS[MODEL]).seq_len == 4096  # fmt: skip


def time(loss: float = 0.0, stall_chance: float = 0.0) -> PredictedStep:
    """A step of a second, of which a part is the loss."""
    parts = {"matrix products": 1 - loss, "loss": loss, "stalls": 0.0}
    return PredictedStep(parts, job(MODEL), STACK, stall_chance, 1.0)


@pytest.mark.parametrize(("share", "named"), [(0.022, 1), (0.018, 0)])
def test_a_part_of_the_step_is_named_from_two_hundredths_on(share: float, named: int) -> None:
    assert len(largest_losses(time(share))) == named


@pytest.mark.parametrize(("odds", "says"), [(0.992, "over 99 %"), (0.98, "98 %")])
def test_a_stall_is_never_certain(odds: float, says: str) -> None:
    assert chance(time(stall_chance=odds)) == says


@pytest.mark.parametrize(("nodes", "span"), [(33, "wide"), (32, "nodes")])
def test_a_network_is_wide_from_thirty_three_nodes_on(nodes: int, span: str) -> None:
    assert regime(job(MODEL, Sharding(dp=8 * nodes), nodes=nodes)) == span


def test_device_and_host_hinder_each_other_where_they_take_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of both that take a second each takes an eighth longer."""
    monkeypatch.setattr(stage_time, "_device_parts", lambda *_: {"matrix products": 1.0})
    monkeypatch.setattr(stage_time, "_host_s", lambda *_: 1.0)
    plan = job(MODEL)
    parts = stage_time.stage_parts(plan, STACK, stage_time.board_of(plan), stage_time.stages(plan)[0])

    assert parts["waiting for launches and latencies"] == pytest.approx(0.1225, abs=1e-4)


def test_half_of_all_runs_stay_below_a_little_more_than_the_steady_step() -> None:
    """Where four in ten stall: of the others five in six, a tenth of the logarithm above their middle."""
    assert median_s(1.0, 30.0, 0.4) == pytest.approx(1.1016, abs=1e-3)


def test_memory_short_of_room_counts_beyond_seven_tenths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_time, "_memory_share", lambda plan: 0.8)

    assert evidence(job(MODEL))["memory_beyond_share"] == pytest.approx(0.1)


def test_gradients_hide_behind_two_thirds_of_a_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_time, "exposed_s", lambda seconds, share, behind_s: behind_s)
    monkeypatch.setattr(step_time, "reduction_s", lambda *_: 0.0)

    assert step_time._data_parallel_s(job(MODEL, Sharding(dp=2)), STACK, 1e9, 3.0) == pytest.approx(2.0)


@pytest.mark.parametrize(("odds", "slowest", "fastest"), [(0.11, 2, 1), (0.09, 1, 1), (0.89, 2, 1), (0.91, 2, 2)])
def test_the_range_of_a_step_leaves_out_a_tenth_of_the_runs_at_either_end(
    odds: float, slowest: int, fastest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = job(MODEL)
    steady = predict_step(plan, STACK).steady_s
    monkeypatch.setattr(step_time, "stall_s", lambda *_: steady)
    monkeypatch.setattr(step_time, "stall_chance", lambda *_: odds)
    certain = dict.fromkeys(STACK.uncertainty, 1.0)
    found = predict_step(plan, replace(STACK, span={**STACK.span, "node": (1.0, 1.0)}, uncertainty=certain, assumed={}))

    assert (found.slowest_s, found.fastest_s) == pytest.approx((slowest * steady, fastest * steady), rel=1e-6)


def test_without_links_a_node_moves_what_pcie_does() -> None:
    gpu: Any = structs.replace(GPUS["H100-SXM5-80GB"], nvlink_one_way_gbs=None, measured_node=None)
    plan = replace(job(MODEL, Sharding(tp=2)), gpu=gpu)

    assert transfers._inside_node_s(plan, "allgather", 50e9, 2) == pytest.approx(1.0, rel=0.05)
