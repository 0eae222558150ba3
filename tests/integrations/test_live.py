"""Figures of the steps between two logs, on a clock of the test's own."""

import json
from typing import Any

import pytest
from integrations.told import SAMPLES
from over_all import over_all
from read_once import diagnosis_of

from diagnose.probes.machine.now import machine_of
from diagnose.probes.protocol import DATA_WAIT_RANGE, EVAL_RANGE
from diagnose.probes.reporting.live import NO_WINDOW, Live

MS = 1_000_000
MFU = {"value": 0.4, "model_flops_per_step": 4e13, "peak_flops": 1e15, "numerator": "6N", "reason": ""}
NO_MFU = dict.fromkeys(MFU) | {"reason": "no FLOPs"}


def diagnosis(
    mfu: dict[str, Any], padding: float | None = 0.25, late: tuple[dict[str, Any], ...] = ()
) -> dict[str, Any]:
    """What figures take of the diagnosis of a window of two ranks."""
    known = {"global_batch_samples": 16.0, "global_batch_tokens": 16384.0, "padding_share": padding}
    facts = [{"name": name, "value": value, "because": "" if value else "not seen"} for name, value in known.items()]
    return {"mfu": mfu, "facts": facts, "stragglers": list(late), "ranks": [{}, {}]}


class Clock:
    def __init__(self) -> None:
        self.ns = MS

    def __call__(self) -> int:
        return self.ns


def live(ran: dict[str, int], **more: Any) -> tuple[Live, Clock]:
    clock = Clock()
    return Live(ran, clock, **{"goodput": lambda usual_ns: None, **more}), clock


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
    found.knows(diagnosis(MFU))
    steps(found, clock, 11)
    told = found.scalars(None)

    assert told["diagnose/live_tokens_per_s"] == pytest.approx(16384 / 0.1)
    assert told["diagnose/live_real_tokens_per_s"] == pytest.approx(0.75 * 16384 / 0.1)
    assert told["diagnose/live_samples_per_s"] == pytest.approx(160)
    assert told["diagnose/live_mfu_percent"] == pytest.approx(40)
    steps(found, clock, 10)
    assert found.scalars(32)["diagnose/live_samples_per_s"] == pytest.approx(320)


@pytest.mark.parametrize(
    ("mfu", "why"),
    [
        (MFU | {"value": None, "reason": "idle"}, "idle"),
        (MFU | {"model_flops_per_step": 2e14}, "above 100 %"),
        (NO_MFU, "no FLOPs"),
    ],
)
def test_an_mfu_that_is_unknown_or_above_one_is_left_out_and_told_why(mfu: dict[str, Any], why: str) -> None:
    found, clock = live({})
    found.knows(diagnosis(mfu))
    steps(found, clock, 3)

    assert "diagnose/live_mfu_percent" not in found.scalars(None)
    assert why in found.unknown["mfu_percent"]


SEEN_ON_GPUS = (
    "h200-copies-to-host", "h200-llama-eager", "h200-misaligned-products", "h200-slow-loader", "h200-small-kernels",
    "h200-uncached-allocations", "synthetic-compute-bound", "synthetic-memory-bound", "synthetic-tiny-kernels",
)  # fmt: skip


@over_all("sample", SEEN_ON_GPUS)
def test_at_the_step_time_of_a_report_the_rates_are_those_of_the_report(sample: str) -> None:
    reported = json.loads(diagnosis_of(SAMPLES / f"{sample}.json.gz").to_json())
    step_ns = reported["steps"]["device_time_ns"] // reported["steps"]["count"]
    found, clock = live({})
    found.knows(reported)
    for _ in range(11):
        clock.ns += step_ns
        found.step_ended()
    told = found.scalars(None)

    assert told["diagnose/live_mfu_percent"] == pytest.approx(100 * reported["mfu"]["value"], rel=1e-6)
    assert found.counts == reported["mfu"]["numerator"]
    if reported["mfu"]["tokens_per_s"] is not None:
        assert told["diagnose/live_tokens_per_s"] == pytest.approx(reported["mfu"]["tokens_per_s"], rel=1e-6)
    else:
        assert "tokens_per_s" in found.unknown


def test_nothing_is_known_of_a_step_before_a_window_and_each_reason_goes_with_its_figure() -> None:
    found, clock = live({})
    steps(found, clock, 3)
    found.scalars(None)
    assert found.unknown.pop("goodput_percent")
    assert set(found.unknown) == {
        "samples_per_s", "tokens_per_s", "real_tokens_per_s", "mfu_percent", "slowest_rank",
    }  # fmt: skip
    assert set(found.unknown.values()) == {NO_WINDOW}

    found.knows(diagnosis(MFU, padding=None))
    steps(found, clock, 3)
    found.scalars(None)
    assert found.unknown.keys() == {"real_tokens_per_s", "slowest_rank", "goodput_percent"}
    assert found.unknown["real_tokens_per_s"] == "not seen"


def test_the_slowest_rank_is_the_one_that_the_others_waited_for_most() -> None:
    found, clock = live({})
    found.knows(diagnosis(MFU, late=({"rank": 3, "share": 0.1}, {"rank": 5, "share": 0.4})))
    steps(found, clock, 3)
    told = found.scalars(None)

    assert told["diagnose/live_slowest_rank"] == 5
    assert told["diagnose/live_waited_for_percent"] == pytest.approx(40)


def test_memory_clock_and_goodput_stand_beside_the_speed() -> None:
    machine = machine_of({"rss": 7, "device": 5}, {"power_w": 300.0}, "")
    found, clock = live({}, machine=lambda: machine, goodput=lambda usual_ns: (int(usual_ns) * 8, 10**9))
    steps(found, clock, 3)
    told = found.scalars(None)

    assert told["diagnose/live_host_memory_bytes"] == 7
    assert told["diagnose/live_device_memory_bytes"] == 5
    assert told["diagnose/live_power_w"] == 300
    assert told["diagnose/live_goodput_percent"] == pytest.approx(80)
    assert "sm_clock_mhz" in found.unknown


def test_without_a_gpu_each_figure_of_one_has_the_reason() -> None:
    assert machine_of({"rss": 7}, {}, "no GPU").unknown == dict.fromkeys(
        ("device_memory_bytes", "device_reserved_bytes", "sm_clock_mhz", "power_w"), "no GPU"
    )
