"""What a job costs: in the diagnosis and in every report, where a price or a power is known."""

import json
from pathlib import Path

import diagnoses
import jsonschema
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from diagnose import analyze
from diagnose.cli import main
from diagnose.diagnosis import Diagnosis, FactReport
from diagnose.diagnosis.cost import Cost
from diagnose.errors import UserError
from diagnose.judge.cost import cost_of
from diagnose.metrics.settings import Settings
from diagnose.report.views.cost import cost_lines
from diagnose.trace.record import decoded

SAMPLE = str(Path(__file__).parents[1] / "sample_traces" / "synthetic-memory-bound.json.gz")


def job(tokens_per_step: float | None = 8192.0, **facts: float) -> Diagnosis:
    """One GPU, steps of 100 ms, and a next change that makes them 1.25 to 2 times as fast."""
    told = tuple(FactReport(name=name, value=value, unit="w") for name, value in facts.items())
    whole = diagnoses.diagnosis(facts=told)
    advice = replace(whole.next, kind="change", rule="x", action="do it", predicted_speedup=(1.25, 2.0))
    return replace(whole, next=advice, mfu=replace(whole.mfu, tokens_per_step=tokens_per_step))


def known(diagnosis: Diagnosis, **settings: float) -> Cost:
    cost = cost_of(diagnosis, Settings(**settings))
    assert cost is not None
    return cost


def test_without_a_price_or_a_power_there_is_no_cost() -> None:
    assert cost_of(job(), Settings(tokens=1e9, pue=1.2, kg_per_kwh=0.4)) is None


def test_a_billion_tokens_cost_the_hours_that_they_take() -> None:
    cost = known(job(), gpu_hour_price=2.0)  # 8,192 tokens in 100 ms: 81,920 tokens/s
    low, likely, high = cost.billion.price or (0.0, 0.0, 0.0)

    assert likely == pytest.approx(1e9 / 81_920 / 3600 * 2)
    assert low == pytest.approx(likely / 1.032)  # two standard deviations of 1.6 %
    assert high == pytest.approx(likely * 1.032)
    assert cost.day.price == (48.0, 48.0, 48.0)
    assert cost.billion.kwh is None


def test_energy_counts_the_data_centre_and_the_grid() -> None:
    cost = known(job(), power_w=500.0, pue=1.2, kg_per_kwh=0.25, tokens=1e9)

    assert cost.day.kwh == pytest.approx((14.4, 14.4, 14.4))
    assert cost.day.kg_co2e == pytest.approx((3.6, 3.6, 3.6))
    assert cost.training == cost.billion
    assert cost.training_h is not None
    assert cost.training_h[1] == pytest.approx(1e9 / 81_920 / 3600)


def test_captured_power_ranges_up_to_the_limit_and_gives_way_to_a_stated_one() -> None:
    captured = known(job(gpu_power_w=400.0, gpu_power_limit_w=700.0))

    assert captured.day.kwh == pytest.approx((9.6, 9.6, 16.8))
    assert captured.power_from == "the capture"
    stated = known(job(gpu_power_w=400.0, gpu_power_limit_w=700.0), power_w=600.0)
    assert (stated.day.kwh or ())[2] == pytest.approx(14.4)
    assert stated.power_from == "--power-w"


def test_the_next_change_saves_what_the_same_work_no_longer_needs() -> None:
    saved = known(job(), gpu_hour_price=2.0, power_w=500.0).saved_per_day
    assert saved is not None

    assert saved.gpu_hours == pytest.approx((24 * 0.2, 24 * 0.5))
    assert saved.price == pytest.approx((9.6, 24.0))
    assert saved.kwh == pytest.approx((2.4, 6.0))
    alone = replace(job(), next=replace(job().next, predicted_speedup=(1.25, None)))
    best_unknown = known(alone, gpu_hour_price=2.0).saved_per_day
    assert best_unknown is not None
    assert best_unknown.price == pytest.approx((9.6, None))


def test_without_the_tokens_of_a_step_the_day_is_priced_and_the_rest_unknown() -> None:
    cost = known(job(tokens_per_step=None), gpu_hour_price=2.0, tokens=1e9)

    assert cost.day.price == (48.0, 48.0, 48.0)
    assert (cost.billion.price, cost.training_h) == (None, None)
    assert cost.because == "the tokens of a step are not known; pass --tokens-per-step"
    lines = cost_lines(replace(job(), cost=cost)) or []
    assert "a billion tokens: unknown, since the tokens of a step are not known; pass --tokens-per-step" in lines


def test_a_job_without_gpus_has_no_gpu_hours() -> None:
    on_cpu = replace(job(), steps=replace(job().steps, device_time_ns=None))

    assert cost_of(on_cpu, Settings(gpu_hour_price=2.0)) is None


def test_the_command_prices_the_job_and_is_silent_without_a_price() -> None:
    words = ["analyze", SAMPLE, "--tokens-per-step", "8192"]
    priced = [*words, "--gpu-hour-price", "2", "--power-w", "700", "--tokens", "10B"]

    printed = CliRunner().invoke(main, priced).output
    assert "a day of 1 GPU: price 48.0, 16.8 kWh" in printed
    assert "10B tokens: " in printed
    assert "cost  " not in CliRunner().invoke(main, words).output
    found = json.loads(CliRunner().invoke(main, [*priced, "--json"]).stdout)["cost"]
    assert found["billion"]["price"][1] == pytest.approx(1e9 / found["tokens_per_s"][1] / 3600 * 2)


def test_the_power_is_read_of_the_record() -> None:
    record = decoded({"device": {"nvml": {"power_w": 412.5, "power_limit_w": -1}}})

    assert record.number("device.nvml.power_w") == 412.5
    assert record.number("device.nvml.power_limit_w") is None


LARGEST, LEAST = "1e30", "1e-30"


@pytest.mark.parametrize("pue", [LARGEST, "1"])
@pytest.mark.parametrize("others", [LARGEST, LEAST])
def test_the_largest_and_the_least_that_can_be_stated_have_an_answer_in_numbers(others: str, pue: str) -> None:
    stated = ("gpu-hour-price", "power-w", "kg-per-kwh", "tokens", "tokens-per-step", "peak-tflops", "hbm-gbs")
    options = [word for name in stated for word in (f"--{name}", others)]

    found = CliRunner().invoke(main, ["analyze", SAMPLE, "--json", "--pue", pue, *options])

    assert found.exit_code == 0, found.output
    jsonschema.validate(json.loads(found.stdout), Diagnosis.schema())


def test_python_is_told_which_number_is_too_large() -> None:
    with pytest.raises(UserError, match="gpu_hour_price cannot be 1e\\+308"):
        analyze(SAMPLE, gpu_hour_price=1e308)
