"""Formulas against each other, against brute force, and at their edges."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked_examples import formulas, kineto, predict, products
from worked_examples.accounting import step_parts_ns
from worked_examples.formulas import step_of

from diagnose import intervals as iv
from diagnose.formulas import (
    accounting,
    batch_model,
    collectives,
    data_pipeline,
    roofline,
    scaling,
    share,
    throughput,
)
from diagnose.formulas.batch_model import BatchModel

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

    assert formulas.exposed_ns(of(comm), of(compute)) + overlapped == pytest.approx(whole)


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(1, 4, 0.25), (5, 4, 1.25), (0, 4, 0.0), (0, 0, None), (3, 0, None), (None, 4, None), (1, None, None)],
)
def test_a_share_is_none_if_something_is_missing(part: int | None, whole: int | None, expected: float | None) -> None:
    assert share(part, whole) == expected


def test_a_share_of_numbers_from_arrays_is_a_plain_number() -> None:
    found = share(np.int64(1), np.float64(4))  # type: ignore[arg-type]

    assert type(found) is float


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
    assert formulas.ddp_buckets(gradient) == buckets


@given(size, size, size, st.sampled_from([1, 2, 4]))
def test_the_closed_form_of_intensity(m: int, n: int, k: int, itemsize: int) -> None:
    counted = formulas.intensity(products.gemm_flops(m, n, k), products.gemm_bytes(m, n, k, itemsize))

    assert products.gemm_intensity(m, n, k, itemsize) == pytest.approx(counted)


@given(size, size, size)
def test_a_product_is_bound_by_the_side_of_the_ridge_it_is_on(m: int, n: int, k: int) -> None:
    peak, bandwidth = 1e15, 3e12
    flops, moved = products.gemm_flops(m, n, k), products.gemm_bytes(m, n, k, 2)

    bound_by_memory = products.lower_bound_s(flops, moved, peak, bandwidth) == moved / bandwidth

    assert bound_by_memory == (formulas.intensity(flops, moved) <= roofline.ridge(peak, bandwidth))


@given(rate, rate, st.integers(1, 64), st.integers(1, 64))
def test_a_line_goes_through_its_points(fixed: float, per_sample: float, batch: int, more: int) -> None:
    line = BatchModel(fixed, per_sample)
    points = (batch, step_of(line, batch), batch + more, step_of(line, batch + more))

    assert BatchModel.from_fixed(fixed, *points[:2]).per_sample_s == pytest.approx(per_sample)


def test_checkpointing_pays_only_where_the_fixed_part_is_large() -> None:
    assert batch_model.recompute_pays(BatchModel(fixed_s=10, per_sample_s=1), 2, 8)
    assert not batch_model.recompute_pays(BatchModel(fixed_s=0.5, per_sample_s=1), 2, 8)
    assert not batch_model.recompute_pays(BatchModel(fixed_s=10, per_sample_s=1), 8, 8)


def test_a_prediction_at_the_measured_batch_is_the_measurement() -> None:
    assert predict.rate_at_batch(0.1, 0.5, 4, 0.1, 4, 1000) == pytest.approx(throughput.tokens_per_s(1, 4, 1000, 0.5))


@given(st.integers(1, 64), rate, rate)
def test_speedup_is_ranks_times_efficiency(ranks: int, alone: float, per_rank: float) -> None:
    efficiency = scaling.scaling_efficiency(per_rank, alone)

    assert scaling.cost_factor(per_rank, alone) == pytest.approx(1 / efficiency)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_enough_workers_and_no_more(batch_s: int, step_s: int) -> None:
    workers = data_pipeline.workers_needed(batch_s, step_s)

    assert formulas.step_with_workers_s(step_s, batch_s, workers) == step_s
    assert workers == 1 or formulas.step_with_workers_s(step_s, batch_s, workers - 1) > step_s


@given(st.integers(0, 10**18), st.integers(0, 10**12))
def test_kineto_times_are_exact_to_the_nanosecond(base: int, ns: int) -> None:
    assert kineto.absolute_ns(base, ns / 1000) == base + ns


def test_a_formula_of_model_flops_needs_no_arrays() -> None:
    asked = "import sys, diagnose.formulas.model_flops; print({'numpy', 'click', 'torch'} & sys.modules.keys())"

    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
