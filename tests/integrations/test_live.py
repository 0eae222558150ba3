"""Figures of the steps between two logs, on a clock of the test's own."""

import pytest

from diagnose.probes.protocol import DATA_WAIT_RANGE, EVAL_RANGE
from diagnose.probes.reporting.live import Live

MS = 1_000_000
MFU = {"value": 0.4, "model_flops_per_step": 4e13, "peak_flops": 1e15, "tokens_per_step": 8192.0}


class Clock:
    def __init__(self) -> None:
        self.ns = MS

    def __call__(self) -> int:
        return self.ns


def live(ran: dict[str, int]) -> tuple[Live, Clock]:
    clock = Clock()
    return Live(ran, clock), clock


def steps(of: Live, clock: Clock, count: int, each_ms: int = 100) -> None:
    for _ in range(count):
        clock.ns += each_ms * MS
        of.step_ended()


def test_the_first_step_is_not_counted_and_a_log_without_a_step_says_nothing() -> None:
    found, clock = live({})
    steps(found, clock, 1, each_ms=5_000)

    assert found.scalars(8) == {}
    steps(found, clock, 4)
    assert found.scalars(8)["diagnose/live_step_ms"] == pytest.approx(100)
    assert found.scalars(8) == {}


def test_evaluations_take_no_time_of_a_step_and_waiting_is_a_share_of_it() -> None:
    ran = {EVAL_RANGE: 0}
    found, clock = live(ran)
    steps(found, clock, 5)
    clock.ns += 900 * MS
    ran[EVAL_RANGE], ran[DATA_WAIT_RANGE] = 900 * MS, 100 * MS
    told = found.scalars(None)

    assert told == {"diagnose/live_step_ms": pytest.approx(100), "diagnose/live_waiting_percent": pytest.approx(25)}


def test_rates_are_those_of_the_report_at_the_steps_of_now() -> None:
    found, clock = live({})
    found.knows({"mfu": MFU}, ranks=2)
    steps(found, clock, 11)
    told = found.scalars(16)

    assert told["diagnose/live_tokens_per_s"] == pytest.approx(2 * 8192 / 0.1)
    assert told["diagnose/live_samples_per_s"] == pytest.approx(160)
    assert told["diagnose/live_mfu_percent"] == pytest.approx(40)


@pytest.mark.parametrize("mfu", [MFU | {"value": None}, MFU | {"model_flops_per_step": 2e14}, {"value": None}])
def test_an_mfu_that_is_unknown_or_above_one_is_left_out(mfu: dict[str, float | None]) -> None:
    found, clock = live({})
    found.knows({"mfu": mfu}, ranks=1)
    steps(found, clock, 3)

    assert "diagnose/live_mfu_percent" not in found.scalars(None)
