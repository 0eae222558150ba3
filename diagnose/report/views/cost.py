"""The cost of the job for every report: a sentence each."""

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.cost import Cost, Money, Saving
from diagnose.diagnosis.estimates import between, hours_text, number, tokens_text
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted


def cost_lines(diagnosis: Diagnosis) -> list[str] | None:
    """Sentences on the cost of the job; None if neither a price nor a power is known."""
    cost = diagnosis.cost
    if cost is None:
        return None
    lines = [f"a day of {counted(cost.gpus, 'GPU')}: {_money(cost.day)}"]
    if cost.tokens_per_s is not None:
        rate = between(cost.tokens_per_s, number)
        lines.append(f"a billion tokens: {_money(cost.billion)}, at {rate} tokens/s of the job")
    if cost.tokens is not None and cost.training_h is not None:
        hours = between(cost.training_h, hours_text)
        lines.append(f"{tokens_text(cost.tokens)}: {hours}, {_money(cost.training)}")
    if cost.because:
        lines.append(f"a billion tokens: unknown, since {cost.because}")
    if cost.saved_per_day is not None:
        lines.append(_saved(cost.saved_per_day))
    return [plain(line) for line in (*lines, *_rests_on(cost))]


def _money(money: Money) -> str:
    parts = [f"price {between(money.price, number)}"] if money.price else []
    parts += [f"{between(money.kwh, number)} kWh"] if money.kwh else []
    parts += [f"{between(money.kg_co2e, number)} kg CO2e"] if money.kg_co2e else []
    return ", ".join(parts)


def _saved(saving: Saving) -> str:
    parts = [f"price {_range(saving.price)}"] if saving.price else []
    parts += [f"{_range(saving.kwh)} kWh"] if saving.kwh else []
    parts.append(f"{_range(saving.gpu_hours)} GPU-hours")
    return f"the next change, {saving.action or saving.rule}, saves in a day: {', '.join(parts)}"


def _range(amount: tuple[float, float | None]) -> str:
    low, high = amount
    if high is None:
        return f"at least {number(low)}"
    return number(low) if number(low) == number(high) else f"{number(low)} to {number(high)}"


def _rests_on(cost: Cost) -> list[str]:
    """A sentence on the sources of the rates."""
    parts = []
    if cost.gpu_hour_price is not None:
        parts.append(f"{cost.gpu_hour_price:g} per GPU-hour")
    if cost.power_w is not None:
        most = f", {number(cost.power_most_w)} W at most" if cost.power_most_w else ""
        added = f"times a PUE of {cost.pue:g}" if cost.pue != 1 else "without what the data centre adds (--pue)"
        parts.append(f"{number(cost.power_w)} W per GPU by {cost.power_from}{most}, {added}")
    if cost.profiled and cost.tokens_per_s is not None:
        parts.append("by steps with the profiler on, which only slows them")
    return [f"reckoned with {'; '.join(parts)}"]
