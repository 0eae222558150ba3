"""Both sides of thresholds of the model's metrics and the run's, in numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from asked_metrics import fix, job

from diagnose.facts import Unknown
from diagnose.metrics.communication import contention
from diagnose.metrics.kernel_groups.operators import Launching, Signature
from diagnose.metrics.kernels import fp8 as fp8_groups
from diagnose.metrics.kernels import products
from diagnose.metrics.model import batch, experts, flops, micro_batches
from diagnose.metrics.run import cadence, environment, failures, start

MIB = 1 << 20


@pytest.mark.parametrize(
    ("peak", "total", "states", "factor"),
    [
        (40, 80, 0, 1.75),  # nine tenths of 80, over 40, in whole quarters
        (10, 80, 0, 4.0),  # no more than four times
        (40, 80, 39, 4.0),  # of 40 no more than 32 are states: (72 - 32) / 8 is five
        (20, 35, 19, 3.75),  # of 20 no more than 16: (31.5 - 16) / 4 = 3.875
    ],
)
def test_a_batch_fills_nine_tenths_of_the_memory_and_grows_fourfold_at_most(
    peak: float, total: float, states: float, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(monkeypatch, batch, memory_peak_bytes=peak, memory_total_bytes=total, model_state_bytes=states)
    fix(monkeypatch, batch, micro_batch_size=4)

    assert batch.larger_batch_factor(job()) == factor


@pytest.mark.parametrize(("steps", "growth"), [(16, 16.0), (64, 16.0), (15, 15.0), (20, 10.0)])
def test_micro_batches_grow_sixteenfold_at_most(steps: int, growth: float, monkeypatch: pytest.MonkeyPatch) -> None:
    fix(monkeypatch, micro_batches, accumulation_steps=steps, _memory_growth=float("inf"))

    assert micro_batches.micro_batch_growth_factor(job()) == growth


def test_a_call_for_several_samples_takes_half_as_long_again_and_works_up_to_four_times_as_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fix(monkeypatch, micro_batches, micro_batch_growth_factor=4.0, operator_work_share=0.0)
    of_calls = micro_batches.most_operator_time_factor(job(share=lambda *_: 0.5))
    fix(monkeypatch, micro_batches, micro_batch_growth_factor=4.0, operator_work_share=1.0)
    of_work = micro_batches.least_operator_time_factor(job(share=lambda *_: 0.5))

    assert (of_calls, of_work) == (pytest.approx(1.5 / 4), pytest.approx(0.25 + 0.75 / 4))


@pytest.mark.parametrize(
    ("changes", "products", "routed"), [(9, 16, True), (7, 16, False), (15, 16, True), (14, 15, False)]
)
def test_products_are_of_experts_where_most_of_sixteen_have_other_rows(
    changes: int, products: int, routed: bool
) -> None:
    tokens = np.cumsum([0, *([1] * changes), *([0] * (products - 1 - changes))])
    found = experts._are_routed(np.zeros(products, np.int64), tokens, round(experts.FEWEST))

    assert found.tolist() == [routed] * products


def test_products_are_told_apart_by_the_sizes_of_their_weights() -> None:
    """The tokens of the second weight change, those of the first do not, and neither do those from one to the next."""
    weight, tokens = np.repeat([0, 1], 16), np.concatenate([np.full(16, 8), np.arange(16)])

    assert experts._are_routed(weight, tokens, 16).tolist() == [False] * 16 + [True] * 16


@pytest.mark.parametrize(("covered", "known"), [(0.91, True), (0.89, False)])
def test_flops_are_counted_where_nine_tenths_of_the_kernels_have_shapes(
    covered: float, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(monkeypatch, flops, captures_graphs_alone=False)
    found = flops.counted_flops(job(flops=SimpleNamespace(per_step=1e12, covered_share=covered)))

    assert isinstance(found, Unknown) is not known


@pytest.mark.parametrize(("trained", "frozen"), [(0.9989, True), (0.99911, False)])
def test_weights_are_frozen_from_a_thousandth_on(trained: float, frozen: bool) -> None:
    assert flops._has_frozen(job({"model": {"parameters": 1_000_000, "trainable": 1_000_000 * trained}})) is frozen


@pytest.mark.parametrize(
    ("launches", "returned_after", "ns", "early", "blocking"),
    [
        (100, 96, 21_000, 0, True),
        (100, 94, 21_000, 0, False),
        (100, 96, 21_000, 4, True),
        (100, 96, 21_000, 6, None),  # the clock of the GPU is another one
        (21, 21, 21_000, 0, True),
        (19, 19, 21_000, 0, None),
        (21, 21, 19_000, 0, None),  # a launch may take as long by itself
    ],
)
def test_launches_block_where_nearly_all_of_twenty_long_kernels_end_before_their_call_returns(
    launches: int, returned_after: int, ns: int, early: int, blocking: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(monkeypatch, environment, switched_on=Unknown("not told", None))
    late = np.arange(launches) >= returned_after
    begin = np.arange(launches) * 100_000
    start = begin - np.where(np.arange(launches) < early, 1000, 0)
    calls = {"launch_start": begin, "launch_end": begin + np.where(late, 5000, 30_000)}
    gpu = SimpleNamespace(start=start, end=start + ns, launch=begin, **calls)
    found = environment.launches_block(
        job(
            without_gpu=None,
            kernels=np.ones(launches, bool),
            timeline=SimpleNamespace(gpu=gpu, clock_shift_ns=None),
        )
    )

    assert found is blocking or (blocking is None and isinstance(found, Unknown))


@pytest.mark.parametrize(("share", "told"), [(0.55, True), (0.45, False)])
def test_the_start_of_a_capture_is_told_that_is_most_of_it(
    share: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(monkeypatch, start, _share=share)
    unseen = Unknown("the device was not seen", None)

    assert start.start_of_capture_cause(job(device_unseen=unseen)) == (unseen if told else start._COUNTED)


@pytest.mark.parametrize(("beside_us", "known"), [(5.2, True), (4.8, False)])
def test_kernels_beside_collectives_are_compared_that_are_a_twentieth_of_the_long_ones(
    beside_us: float, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 us in all: kernels of one shape beside collectives and alone, and one that has no like."""
    for name, value in (("_LONG_NS", 0), ("_ENOUGH", 1)):
        monkeypatch.setattr(contention, name, value)
    lasts = np.array([round(1000 * beside_us), 4000, round(1000 * (96 - beside_us)), 1])
    begin = np.array([0, 100_000, 200_000, 0])
    gpu = SimpleNamespace(
        start=begin,
        end=begin + lasts,
        is_communication=np.array([False, False, False, True]),
        row=np.zeros(4, np.int64),
    )
    gpu.end[3] = 50_000
    trace = SimpleNamespace(shape=np.array([1, 2]), name=np.zeros(2, np.int64))
    found = contention._slowed(
        job(
            timeline=SimpleNamespace(gpu=gpu, trace=trace, has_gpu=True),
            kernels=~gpu.is_communication,
            operator=np.array([0, 0, 1, 0]),
        )
    )

    assert isinstance(found, Unknown) is not known


@pytest.mark.parametrize(("ns", "gains"), [(105_000, True), (95_000, False)])
def test_a_product_without_sizes_gains_by_fp8_that_takes_a_tenth_of_a_millisecond(
    ns: int, gains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(monkeypatch, fp8_groups, half_products=np.array([True]), peak_ratio=None)
    found = fp8_groups.fp8_products(
        job(operator=np.array([-1]), own_time=np.array([ns]), device=SimpleNamespace(hbm_bytes_per_s=None))
    )

    assert bool(found.gains[0]) is gains


@pytest.mark.parametrize(("flops", "alike"), [(0.105, True), (0.095, False)])
def test_aligned_products_are_compared_of_a_tenth_of_the_size(
    flops: float, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = iter([[products._Work(1e9, 1, 10, 512)], [products._Work(flops * 1e9, 1, 10, 512)]])
    monkeypatch.setattr(products, "misaligned_products", lambda m: np.array([True]))
    monkeypatch.setattr(products, "matrix", lambda m: np.array([True]))
    monkeypatch.setattr(products, "_work", lambda *_: next(work))

    assert isinstance(products.misaligned_slowdown_factor(job()), Unknown) is not alike


@pytest.mark.parametrize(("more", "trusted"), [(1.009, True), (1.011, False), (0.991, True), (0.989, False)])
def test_a_configuration_is_trusted_that_counts_the_parameters_within_a_hundredth(
    more: float, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flops.ModelShape, "from_config", lambda *_: SimpleNamespace(parameters=1_000_000))
    model = {"model_type": "llama", "config": {"a": 1}, "parameters": round(1_000_000 * more), "trainable": None}

    assert isinstance(flops.model_shape(job({"model": model})), Unknown) is not trusted


def test_checkpoints_take_four_fifths_to_one_and_a_half_of_the_time_of_the_one_in_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fix(monkeypatch, cadence, _run_share=None, slowed_by_profiler=1.0)
    monkeypatch.setattr(cadence, "_run_share", lambda m, pattern, slowed, longer: longer)
    monkeypatch.setattr(failures, "_spared", lambda m, longer, slowed, of: longer)
    monkeypatch.setattr(failures, "slowed_by_profiler", lambda m: 1.0)

    assert cadence.most_checkpoint_run_share(job()) == 1.5
    assert (failures.least_spared_run_share(job()), failures.most_spared_run_share(job())) == (0.8, 1.5)


@pytest.mark.parametrize(("took", "searches"), [(1100, True), (900, False)])
def test_a_convolution_is_searched_for_that_takes_ten_times_as_long_as_later(took: int, searches: bool) -> None:
    trace = SimpleNamespace(
        name=np.zeros(3, np.int64), ts=np.array([0, 5000, 6000]), dur=np.array([took, 100, 100]),
        ends=lambda rows: np.array([took, 5100, 6100])[rows],
    )  # fmt: skip
    timeline = SimpleNamespace(
        trace=trace, steps=SimpleNamespace(host=np.array([[4000, 9000]])), rows_matching=lambda *_: np.arange(3)
    )

    assert bool(len(start._searches(job(timeline=timeline)))) is searches


@pytest.mark.parametrize(("products", "routed"), [(17, True), (15, False)])
def test_experts_have_sixteen_products_in_a_step(products: int, routed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(products)
    each = tuple(Signature("aten::mm", ((8 + row, 64), (64, 64)), row, calls=1) for row in range(products))
    fix(
        monkeypatch,
        experts,
        launching=Launching(each, of_operator=rows, of_activity=rows),
        dispatched=rows,
        _in_backward=np.zeros(products, bool),
    )
    timeline = SimpleNamespace(trace=SimpleNamespace(ts=rows), steps=SimpleNamespace(count=1))
    found = experts._expert_rows(job(timeline=timeline, operators=rows))

    assert isinstance(found, tuple)
    assert found[1].tolist() == [8 + row for row in range(products) if routed]


def test_an_element_is_read_and_written_in_eight_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_batches.nests, "parents", lambda trace, rows: np.array([-1]))
    monkeypatch.setattr(micro_batches, "elements_per_step", lambda m, innermost: 100 * len(innermost))
    trace = SimpleNamespace(rows_of=lambda *_: np.array([True]))

    assert micro_batches._bytes_per_step(job(timeline=SimpleNamespace(trace=trace))) == 800
