"""The cost of the job at the known price and power, and the saving by the next change."""

from msgspec.structs import replace

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.cost import Cost, Money, Saving
from diagnose.diagnosis.terms import Estimate, Speedup, expected_range
from diagnose.formulas.throughput import gpu_hours_lost_per_day
from diagnose.metrics.settings import Settings
from diagnose.predict.costs import BILLION, NO_OVERHEAD, Tariff, hours_of, money_of
from diagnose.predict.plan import promised

_DAY_H = (24.0, 24.0, 24.0)
_NO_TOKENS = "the tokens of a step are not known; pass --tokens-per-step"


def cost_of(diagnosis: Diagnosis, settings: Settings) -> Cost | None:
    """The cost of a job on GPUs; None if neither a price nor a power is known, or no step was counted."""
    tariff, power_from = _tariff(diagnosis, settings)
    if not tariff.is_known or diagnosis.steps.device_time_ns is None or not diagnosis.steps.count:
        return None
    # scaling takes long to load, and of most jobs neither price nor power is known
    from diagnose.predict.job_run import measured_rate
    from diagnose.predict.run_of_diagnosis import run_of

    run = run_of(diagnosis, "").completed()
    rate = measured_rate([run]) if run.tokens_per_s else None
    hours = None if rate is None or not settings.tokens else _hours(settings.tokens, rate)
    return Cost(
        gpus=run.gpus,
        gpu_hour_price=tariff.gpu_hour_price,
        power_w=tariff.power_w,
        power_most_w=tariff.power_most_w,
        power_from=power_from,
        pue=tariff.pue,
        kg_per_kwh=tariff.kg_per_kwh,
        profiled=_fact(diagnosis, "unprofiled_step_time_ns") is None,
        tokens_per_s=rate,
        day=money_of(tariff, run.gpus, _DAY_H),
        billion=Money() if rate is None else money_of(tariff, run.gpus, _hours(BILLION, rate)),
        tokens=settings.tokens,
        training_h=hours,
        training=Money() if hours is None else money_of(tariff, run.gpus, hours),
        saved_per_day=_saving(diagnosis, run.gpus, tariff),
        because="" if rate is not None else _NO_TOKENS,
    )


def _tariff(diagnosis: Diagnosis, settings: Settings) -> tuple[Tariff, str]:
    """The tariff of a GPU-hour, and the source of its power."""
    stated = Tariff(settings.gpu_hour_price, settings.power_w, settings.pue or NO_OVERHEAD, settings.kg_per_kwh)
    if stated.power_w is not None:
        return stated, "--power-w"
    captured, most = _fact(diagnosis, "gpu_power_w"), _fact(diagnosis, "gpu_power_limit_w")
    return replace(stated, power_w=captured, power_most_w=most if captured else None), "the capture" if captured else ""


def _fact(diagnosis: Diagnosis, name: str) -> float | None:
    value = diagnosis.fact(name)
    return float(value) if isinstance(value, (int, float)) else None


def _hours(tokens: float, rate: Estimate) -> Estimate:
    low, likely, high = rate
    return hours_of(tokens, high), hours_of(tokens, likely), hours_of(tokens, low)


def _saving(diagnosis: Diagnosis, gpus: int, tariff: Tariff) -> Saving | None:
    """The saving by the next change; None if there is none, or nothing is predicted of it."""
    answer = diagnosis.next
    gain = expected_range(answer)
    if answer.kind != "change" or gain is None:
        return None
    low, high = promised(gain), gain[1]
    hours = (gpu_hours_lost_per_day(gpus, low), None if high is None else gpu_hours_lost_per_day(gpus, high))
    return Saving(
        rule=answer.rule,
        action=answer.action,
        gpu_hours=hours,
        price=_times(hours, tariff.price(1, 1.0)),
        kwh=_times(hours, tariff.kwh(1, 1.0)),
    )


def _times(hours: Speedup, each: float | None) -> Speedup | None:
    low, high = hours
    return None if each is None else (low * each, None if high is None else high * each)
