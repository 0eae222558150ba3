"""Where fp8 pays: by the sizes of products, and against published pairs of one job in bf16 and in fp8."""

from pathlib import Path

import pytest
from accuracy import fp8
from analysed import GEMM, facts, measured
from kineto import Trace

from diagnose.facts import Unknown, Value
from diagnose.metrics.kernels.fp8 import gaining_products

ROOT = Path(__file__).parents[2]
LARGE, SMALL = ([16_384, 4096], [4096, 14_336]), ([512, 1024], [1024, 1024])
HEAD = ([16_384, 4096], [4096, 128_256])


def job(*products: tuple[tuple[list[int], list[int]] | None, float], gpu: str = "NVIDIA H100 80GB HBM3") -> Trace:
    """Steps with a product each of so many microseconds, and the lookup of the vocabulary."""
    trace = Trace(gpu=gpu)
    for _ in range(3):
        with trace.step():
            trace.op("aten::embedding", [HEAD[1][::-1], [16_384]], "indexSelectLargeIndex", 10)
            for dims, us in products:
                trace.op("aten::mm", dims and list(dims), GEMM, us)
    return trace


def fact(trace: Trace, name: str) -> Value:
    return facts(trace)[name].value


@pytest.mark.parametrize(
    ("dims", "us", "gains"),
    [
        (LARGE, 2_700, True),  # 1.9 TFLOP; the casts take 4 % of it
        (SMALL, 5, False),  # the casts take half of it
        (HEAD, 25_000, False),
        (None, 2_700, True),  # without sizes a long one is large
        (None, 5, False),
    ],
)
def test_large_products_but_the_head_gain(dims: tuple[list[int], list[int]] | None, us: float, gains: bool) -> None:
    assert gaining_products(measured(job((dims, us)))).any() == gains


def test_the_factor_is_the_ratio_of_the_peaks_and_the_casts() -> None:
    """Casts: a third of 16,384 x (4,096 + 14,336) + 4,096 x 14,336 elements, 5 bytes each, at 3.352 TB/s: 179.5 us."""
    trace, casts = job((LARGE, 2_700), (SMALL, 5)), 179.5 / 2_700

    assert fact(trace, "fp8_best_factor") == pytest.approx(0.5 + 0.2 * casts, rel=1e-3)
    assert fact(trace, "fp8_worst_factor") == pytest.approx(1.2 * 0.5 + 1.6 * casts, rel=1e-3)


def test_a_product_far_from_the_peak_gains_only_on_its_arithmetic() -> None:
    """1.92 TFLOP at 346 TFLOP/s: at 70 % of the peak, 692.6 TFLOP/s, they need half of that time."""
    trace, casts = job((LARGE, 5_556)), 179.5 / 5_556

    assert fact(trace, "fp8_best_factor") == pytest.approx(0.5 + 0.2 * casts, rel=1e-3)
    assert fact(trace, "fp8_worst_factor") == pytest.approx(1 - (1 - 1.2 * 0.5) * 0.5 + 1.6 * casts, rel=1e-3)


def test_without_sizes_the_factor_is_unknown() -> None:
    assert isinstance(fact(job((None, 2_700)), "fp8_best_factor"), Unknown)


@pytest.mark.parametrize(("gpu", "has"), [("NVIDIA H100 80GB HBM3", True), ("NVIDIA A100-SXM4-80GB", False)])
def test_the_table_of_gpus_says_which_have_fp8(gpu: str, has: bool) -> None:
    assert fact(job((LARGE, 9_000), gpu=gpu), "has_fp8") is has


def test_published_pairs_gained_at_least_what_the_worst_case_promises() -> None:
    whole = [pair for pair in fp8.pairs() if pair.recipe != "rowwise"]

    assert len(whole) == 7
    assert all(pair.predicted[0] <= pair.measured for pair in whole)
    assert all(pair.measured / pair.predicted[1] < 1.1 for pair in whole)


def test_scales_for_each_row_are_not_what_is_advised() -> None:
    """They gained nothing where tensor parallelism splits the products; the rule names the other recipe."""
    rowwise = [pair for pair in fp8.pairs() if pair.recipe == "rowwise"]

    assert [round(pair.measured, 2) for pair in rowwise] == [0.85, 1.0]


def test_documented_layers_are_within_the_range() -> None:
    for rows, inner, columns, speedup in fp8.DOCUMENTED:
        best, worst = fp8.factors_of(rows, inner, columns)
        assert 1 / worst - 0.005 <= speedup <= 1 / best


def test_the_page_shows_the_tables_that_the_command_prints() -> None:
    page = (ROOT / "docs" / "whatif.md").read_text(encoding="utf-8")

    assert fp8.pair_table(fp8.pairs()) in page, "run python -m benchmarks.accuracy.fp8"
    assert fp8.layer_table() in page
