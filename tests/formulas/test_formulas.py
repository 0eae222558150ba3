"""Formulas against each other, against brute force, and at their edges."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose import intervals as iv
from diagnose.formulas import (
    accounting,
    batch_model,
    collectives,
    data_pipeline,
    energy,
    memory,
    roofline,
    scaling,
    throughput,
    traffic,
)
from diagnose.formulas.batch_model import BatchModel
from diagnose.formulas.checks import kineto, predict, products, straggler
from diagnose.formulas.checks.accounting import step_parts_ns

size = st.integers(1, 1 << 14)
rate = st.floats(1, 1e6)
instant = st.integers(0, 40)
spans = st.lists(st.tuples(instant, instant), max_size=5)


def of(pairs: list[tuple[int, int]]) -> iv.Intervals:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return iv.intervals(table[:, 0], table[:, 1])


@given(spans, spans, spans, instant, instant)
def test_the_parts_of_a_step_add_up_to_it(
    compute: list[tuple[int, int]], comm: list[tuple[int, int]], copies: list[tuple[int, int]], start: int, end: int
) -> None:
    parts = step_parts_ns(iv.one(start, end), of(compute), of(comm), of(copies))

    assert sum(parts.values()) == max(end - start, 0)


@given(spans.filter(lambda pairs: any(end > start for start, end in pairs)), spans)
def test_communication_is_exposed_or_overlapped(comm: list[tuple[int, int]], compute: list[tuple[int, int]]) -> None:
    whole = iv.total(of(comm))

    overlapped = accounting.overlapped_share(of(comm), of(compute)) * whole

    assert accounting.exposed_ns(of(comm), of(compute)) + overlapped == pytest.approx(whole)


@given(st.lists(st.tuples(instant, instant), min_size=2, max_size=6))
def test_waiting_and_transfer_add_up_to_the_collective(calls: list[tuple[int, int]]) -> None:
    starts, ends = np.array([c[0] for c in calls]), np.array([c[0] + 50 + c[1] for c in calls])

    by_start = collectives.transfer_by_start(starts, ends) + collectives.waiting_by_start(starts)
    by_duration = collectives.transfer_by_duration(ends - starts) + collectives.waiting_by_duration(ends - starts)

    assert (by_start == ends - starts).all()
    assert (by_duration == ends - starts).all()


def test_both_estimates_of_transfer_agree_where_ranks_end_together() -> None:
    starts, ends = np.array([[0, 30, 100], [7, 5, 6]]), np.array([[150, 150, 150], [9, 9, 9]])

    assert collectives.transfer_by_duration(ends - starts).tolist() == [50, 2]
    assert collectives.transfer_by_start(starts, ends).tolist() == [[50] * 3, [2] * 3]


@pytest.mark.parametrize("kind", ["allreduce", "reducescatter", "allgather", "alltoall"])
def test_one_rank_sends_nothing(kind: str) -> None:
    assert collectives.wire_bytes(kind, 1e9, 1) == 0


@given(st.integers(2, 4096))
def test_an_allreduce_is_a_reduce_scatter_and_an_all_gather(ranks: int) -> None:
    halves = collectives.bus_factor("reducescatter", ranks) + collectives.bus_factor("allgather", ranks)

    assert collectives.bus_factor("allreduce", ranks) == pytest.approx(halves)
    assert 1 <= collectives.bus_factor("allreduce", ranks) < 2


@pytest.mark.parametrize(("gradient", "buckets"), [(1, 1), (1 << 20, 1), ((1 << 20) + 1, 2), (26 << 20, 2)])
def test_buckets_of_small_models(gradient: int, buckets: int) -> None:
    assert collectives.ddp_buckets(gradient) == buckets


@given(size, size, size, st.sampled_from([1, 2, 4]))
def test_the_closed_form_of_intensity(m: int, n: int, k: int, itemsize: int) -> None:
    counted = roofline.intensity(products.gemm_flops(m, n, k), products.gemm_bytes(m, n, k, itemsize))

    assert products.gemm_intensity(m, n, k, itemsize) == pytest.approx(counted)


@given(size, size, size)
def test_a_product_is_bound_by_the_side_of_the_ridge_it_is_on(m: int, n: int, k: int) -> None:
    peak, bandwidth = 1e15, 3e12
    flops, moved = products.gemm_flops(m, n, k), products.gemm_bytes(m, n, k, 2)

    bound_by_memory = products.lower_bound_s(flops, moved, peak, bandwidth) == moved / bandwidth

    assert bound_by_memory == (roofline.intensity(flops, moved) <= roofline.ridge(peak, bandwidth))


@given(rate, rate, st.integers(1, 64), st.integers(1, 64))
def test_a_line_goes_through_its_points(fixed: float, per_sample: float, batch: int, more: int) -> None:
    line = BatchModel(fixed, per_sample)
    points = (batch, line.step_s(batch), batch + more, line.step_s(batch + more))

    assert BatchModel.from_points(*points).step_s(3) == pytest.approx(line.step_s(3))
    assert BatchModel.from_fixed(fixed, *points[:2]).per_sample_s == pytest.approx(per_sample)
    assert line.tokens_per_s(batch + more, 10) > line.tokens_per_s(batch, 10)


def test_checkpointing_pays_only_where_the_fixed_part_is_large() -> None:
    assert batch_model.recompute_pays(BatchModel(fixed_s=10, per_sample_s=1), 2, 8)
    assert not batch_model.recompute_pays(BatchModel(fixed_s=0.5, per_sample_s=1), 2, 8)
    assert not batch_model.recompute_pays(BatchModel(fixed_s=10, per_sample_s=1), 8, 8)


def test_a_prediction_at_the_measured_batch_is_the_measurement() -> None:
    assert predict.rate_at_batch(0.1, 0.5, 4, 0.1, 4, 1000) == pytest.approx(throughput.tokens_per_s(1, 4, 1000, 0.5))


def test_fused_adamw_saves_what_the_other_one_moves_more() -> None:
    accesses = (traffic.ADAMW_FOREACH_ACCESSES, traffic.ADAMW_FUSED_ACCESSES)
    foreach, fused = (traffic.optimizer_bytes(1000, each, 2) for each in accesses)

    assert predict.fused_adamw_saving_s(1000, 1.0) == foreach - fused == 26_000


@given(st.integers(1, 64), st.integers(1, 8192), st.integers(1, 300_000), st.integers(1, 8192))
def test_loss_chunks_cover_every_row(batch: int, tokens: int, vocab: int, hidden: int) -> None:
    rows = traffic.loss_chunk_rows(batch, tokens, vocab, hidden)
    chunks = traffic.loss_chunks(batch, tokens, vocab, hidden)

    assert rows & (rows - 1) == 0
    assert (chunks - 1) * rows < batch * tokens <= chunks * rows


@given(st.floats(0, 0.99), st.floats(1, 1000))
def test_no_factor_beats_amdahls_bound(share: float, factor: float) -> None:
    assert 1 - 1e-9 <= scaling.amdahl_speedup(share, factor) <= scaling.amdahl_bound(share) * (1 + 1e-9)


@given(st.integers(1, 64), rate, rate)
def test_speedup_is_ranks_times_efficiency(ranks: int, alone: float, per_rank: float) -> None:
    efficiency = scaling.scaling_efficiency(per_rank, alone)

    assert scaling.scaling_speedup(ranks, per_rank, alone) == pytest.approx(ranks * efficiency)
    assert scaling.cost_factor(per_rank, alone) == pytest.approx(1 / efficiency)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_enough_workers_and_no_more(batch_s: int, step_s: int) -> None:
    workers = data_pipeline.workers_needed(batch_s, step_s)

    assert data_pipeline.step_with_workers_s(step_s, batch_s, workers) == step_s
    assert workers == 1 or data_pipeline.step_with_workers_s(step_s, batch_s, workers - 1) > step_s


def test_an_accelerator_is_never_more_than_fed() -> None:
    assert data_pipeline.fed_share(3000, 1000) == 1


@given(st.integers(0, 10**18), st.integers(0, 10**12))
def test_kineto_times_are_exact_to_the_nanosecond(base: int, ns: int) -> None:
    assert kineto.absolute_ns(base, ns / 1000) == base + ns


@given(st.integers(10**9, 4 * 10**9))
def test_kinetos_base_is_at_most_a_period_ago(unix_s: int) -> None:
    base = kineto.base_time_ns(unix_s)

    assert 0 <= unix_s * 10**9 - base < kineto.BASE_PERIOD_S * 10**9
    assert base % (kineto.BASE_PERIOD_S * 10**9) == 0


def test_the_slow_rank_has_the_low_score() -> None:
    scores = straggler.relative_scores([100, 90, 110, 140, 100])

    assert scores == pytest.approx([1, 100 / 90, 100 / 110, 100 / 140, 1])


def test_removing_the_only_suspect_removes_the_slowdown() -> None:
    assert straggler.removed_contribution(actual=12, without=10, ideal=10) == 1


def test_training_twice_as_well_takes_half_the_time() -> None:
    flops = energy.training_flops(7e9, 1e12)

    assert energy.training_s(flops, 8, 1e15, 0.4) == pytest.approx(energy.training_s(flops, 8, 1e15, 0.2) / 2)


def test_a_large_vocabulary_makes_large_logits() -> None:
    assert memory.shifted_logits_bytes(2, 5, 1000) == 2 * 4 * 1000 * 4
    assert memory.kept_scores_bytes(1, 2, 3, 4) == 2 * 9 * 4 * 6


def test_a_formula_of_model_flops_needs_no_arrays() -> None:
    asked = "import sys, diagnose.formulas.model_flops; print({'numpy', 'click', 'torch'} & sys.modules.keys())"

    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
