"""From the peak to MFU: every nanosecond of the ledger is in one part, and the first parts are the model's FLOPs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose.attribution.causes import MATRIX
from diagnose.diagnosis import LedgerEntry, WaterfallPart
from diagnose.judge.waterfall import MatrixTime, waterfall_of


def ledger(**ns: int) -> tuple[LedgerEntry, ...]:
    total = sum(ns.values())
    classes = {"gemm": "compute", "attention": "compute", "conv": "compute", "gemm_low_intensity": "memory"}
    return tuple(
        LedgerEntry(cause=c.replace("_", "-"), class_=classes.get(c, "memory"), ns=n, share=n / max(total, 1))
        for c, n in ns.items()
    )


def by_part(parts: tuple[WaterfallPart, ...]) -> dict[str, int]:
    return {p.part: p.ns for p in parts}


def test_each_loss_of_the_matrix_kernels_has_its_name() -> None:
    work = MatrixTime(model_ns=300, padding_ns=50, recompute_ns=100, ceiling_ns=90, weights={"gemm": 3, "attention": 1})
    parts = waterfall_of(ledger(gemm=600, attention=200, norm=150, sync=50), work)

    assert by_part(parts) == {
        "model-flops": 300,
        "padding": 50,
        "recompute": 100,
        "below-datasheet": 90,
        "gemm-below-achievable": 600 - 405,
        "attention-below-achievable": 200 - 135,
        "norm": 150,
        "sync": 50,
    }
    assert [p.points for p in parts if p.part == "model-flops"] == [30.0]


def test_without_a_measured_ceiling_the_rest_is_below_the_peak() -> None:
    parts = waterfall_of(ledger(gemm=600, norm=400), MatrixTime(model_ns=200))

    assert by_part(parts) == {"model-flops": 200, "gemm-below-peak": 400, "norm": 400}


def test_without_mfu_the_ledger_stays_as_it_is() -> None:
    parts = waterfall_of(ledger(gemm=600, norm=400), None)

    assert by_part(parts) == {"gemm": 600, "norm": 400}


def test_estimates_never_take_more_than_the_kernels_took() -> None:
    work = MatrixTime(model_ns=500, recompute_ns=400, precision_ns=400)  # Winograd: fewer operations than counted
    parts = waterfall_of(ledger(conv=700, norm=300), work)

    assert by_part(parts) == {"model-flops": 500, "recompute": 200, "norm": 300}


def test_what_a_cause_does_not_have_is_taken_from_the_others() -> None:
    work = MatrixTime(model_ns=500, weights={"gemm": 9.0, "attention": 1.0})
    parts = waterfall_of(ledger(gemm=100, attention=900), work)

    assert by_part(parts) == {"model-flops": 500, "attention-below-peak": 500}


def test_products_that_memory_bounds_keep_their_class() -> None:
    parts = waterfall_of(ledger(gemm=500, gemm_low_intensity=500), MatrixTime(model_ns=200))

    assert {p.part: p.class_ for p in parts}["gemm-low-intensity"] == "memory"


times = st.integers(0, 10**12)
shares = st.floats(0, 1e13, allow_nan=False)


@given(
    st.dictionaries(st.sampled_from([*MATRIX, "gemm-low-intensity", "norm", "python"]), times, min_size=1),
    st.lists(shares, min_size=5, max_size=5),
    st.dictionaries(st.sampled_from(MATRIX), st.floats(0, 1e20)),
)
def test_the_parts_add_up(causes: dict[str, int], named: list[float], weights: dict[str, float]) -> None:
    entries = tuple(LedgerEntry(cause=c, class_="compute", ns=n, share=0.0) for c, n in causes.items())
    parts = waterfall_of(entries, MatrixTime(*named, weights=weights))

    assert sum(p.ns for p in parts) == sum(causes.values())
    assert all(p.ns > 0 for p in parts)
    if sum(causes.values()):
        assert sum(p.points for p in parts) == pytest.approx(100)
