"""Number of GPUs for a purpose; each answer holds at the slow end of the range."""

from collections.abc import Sequence

from diagnose.commands.scaling.answer import Purpose, Size
from diagnose.commands.scaling.question import ScalingQuestion
from diagnose.diagnosis.estimates import between, hours_text, number, tokens_text
from diagnose.diagnosis.terms import Estimate
from diagnose.predict.budgeting import covers, meets


def purposes_of(sizes: Sequence[Size], question: ScalingQuestion) -> list[Purpose]:
    """The answer for each requested purpose, and the fastest, the cheapest and that of least energy."""
    rated = [size for size in sizes if size.tokens_per_s]
    asked: list[Purpose] = []
    if question.deadline_h is not None and question.tokens is not None:
        asked.append(_deadline(rated, question.tokens, question.deadline_h))
    if question.budget is not None and question.tokens is not None:
        asked.append(_budget(rated, question.tokens, question.budget))
    elif question.budget is not None:
        asked.append(_bought(rated, question.budget))
    return [*asked, *_extremes(rated)]


def _deadline(sizes: Sequence[Size], tokens: float, within_h: float) -> Purpose:
    """The fewest GPUs that meet the deadline at the slow end."""
    task = f"{tokens_text(tokens)} in {hours_text(within_h)}"
    in_time = [size for size in sizes if meets(_hours(size), within_h)]
    if not in_time:
        fastest = min(sizes, key=lambda size: _hours(size)[2])
        takes = between(_hours(fastest), hours_text)
        return _none("deadline", f"{task}: no size that was looked at; {_gpus_of(fastest)} take {takes}")
    chosen = in_time[0]
    says = f"{task}: {_gpus_of(chosen)}, {between(_hours(chosen), hours_text)}{_price(chosen.training.price)}"
    maybe = [size for size in sizes if size.gpus < chosen.gpus and _hours(size)[0] <= within_h]
    return _found("deadline", chosen, says + (f"; {maybe[0].gpus} may do" if maybe else ""))


def _budget(sizes: Sequence[Size], tokens: float, budget: float) -> Purpose:
    """The fastest size that the budget covers at the expensive end."""
    task = f"{tokens_text(tokens)} for {number(budget)}"
    priced = [(size, size.training.price) for size in sizes if size.training.price]
    paid = [size for size, price in priced if covers(price, budget)]
    if not paid:
        cheapest, price = min(priced, key=lambda pair: pair[1][1])
        return _none("budget", f"{task}: no size; the cheapest, {_gpus_of(cheapest)}, costs {between(price, number)}")
    chosen = max(paid, key=lambda size: _rate(size)[0])
    says = f"{task}: {_gpus_of(chosen)}, the fastest within it{_price(chosen.training.price)},"
    return _found("budget", chosen, f"{says} {between(_hours(chosen), hours_text)}")


def _bought(sizes: Sequence[Size], budget: float) -> Purpose:
    """Number of tokens that the budget buys at the size where they are cheapest."""
    priced = [(size, size.billion.price) for size in sizes if size.billion.price]
    cheapest, (low, likely, high) = min(priced, key=lambda pair: pair[1][1])
    tokens = (budget / high * 1e9, budget / likely * 1e9, budget / low * 1e9)
    says = f"{number(budget)} buys {between(tokens, tokens_text)} at {_gpus_of(cheapest)}, where they are cheapest"
    return _found("budget", cheapest, says)


def _extremes(sizes: Sequence[Size]) -> list[Purpose]:
    fastest = max(sizes, key=lambda size: _rate(size)[0])
    rate = between(_rate(fastest), number)
    still = "the most that was looked at" if fastest is sizes[-1] else "more are no faster"
    told = [_found("fastest", fastest, f"{_gpus_of(fastest)}, {rate} tokens/s; {still}")]
    cheapest = min(sizes, key=lambda size: _middle(size.cost_factor))
    priced = cheapest.billion.price
    costs = f", {between(priced, number)} per billion tokens" if priced else ""
    told.append(_found("cheapest", cheapest, f"{_gpus_of(cheapest)}{costs}{_as_cheap(sizes, cheapest)}"))
    powered = [(size, size.billion.kwh) for size in sizes if size.billion.kwh]
    if powered:
        least, kwh = min(powered, key=lambda pair: pair[1][1])
        told.append(_found("least energy", least, f"{_gpus_of(least)}, {between(kwh, number)} kWh per billion tokens"))
    return told


def _as_cheap(sizes: Sequence[Size], cheapest: Size) -> str:
    """Text of the largest size whose tokens may cost no more than the cheapest."""
    if cheapest.cost_factor is None:
        return ""
    most = cheapest.cost_factor[2]
    alike = [s for s in sizes if s.gpus > cheapest.gpus and s.cost_factor and s.cost_factor[0] <= most]
    return f"; {alike[-1].gpus} may cost no more" if alike else ""


def _found(purpose: str, size: Size, says: str) -> Purpose:
    return Purpose(purpose=purpose, gpus=size.gpus, extrapolated=not size.runs, says=says)


def _none(purpose: str, says: str) -> Purpose:
    return Purpose(purpose=purpose, gpus=None, says=says)


def _price(price: Estimate | None) -> str:
    return f", costs {between(price, number)}" if price else ""


def _hours(size: Size) -> Estimate:
    assert size.training_h is not None
    return size.training_h


def _rate(size: Size) -> Estimate:
    assert size.tokens_per_s is not None
    return size.tokens_per_s


def _middle(estimate: Estimate | None) -> float:
    return float("inf") if estimate is None else estimate[1]


def _gpus_of(size: Size) -> str:
    """Number of GPUs as text, and whether it is extrapolated."""
    said = f"{size.gpus:,} GPU{'' if size.gpus == 1 else 's'}"
    return said if size.runs else f"{said} (extrapolated)"
