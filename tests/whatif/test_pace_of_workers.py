"""Where loader workers set the pace, time that other changes save may become waiting for the next batch."""

import pytest
from msgspec.structs import replace
from whatif.predicted import loading, predictor, rule

FASTER_KERNELS = "kernels = { all = [0.5, 0.5] }"
DATA_MS, DEVICE_MS = 5.0, 10.0
GAIN = (DATA_MS + DEVICE_MS) / (DATA_MS + DEVICE_MS / 2)


@pytest.mark.parametrize(
    ("workers", "data_ms", "low"),
    [(0, DATA_MS, GAIN), (2, DATA_MS, 1.0), (2, 0.5, 10.5 / 5.5)],
    ids=["the training process loads", "workers are late", "a batch is only taken over"],
)
def test_what_faster_kernels_promise_beside_a_loader(workers: int, data_ms: float, low: float) -> None:
    predicted = predictor(loading(data_ms, DEVICE_MS, workers=workers)).predict(rule(FASTER_KERNELS))

    assert predicted is not None
    assert predicted[0] == pytest.approx(low, rel=0.03)
    assert predicted[1] == pytest.approx((data_ms + DEVICE_MS) / (data_ms + DEVICE_MS / 2), rel=0.03)


def test_with_a_faster_loader_in_place_the_promise_is_whole() -> None:
    loader = replace(rule("host = { data-wait = [0.0, 0.0] }", "late-workers"), class_="data")
    predicted = predictor(loading(DATA_MS, DEVICE_MS, workers=2)).predict(rule(FASTER_KERNELS), after=[loader])

    assert predicted == pytest.approx((2.0, 2.0), rel=0.03)
