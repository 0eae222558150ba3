"""The bill of a training run before it starts: hours, GPU-hours, money, energy and emissions, each as a range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import click

from diagnose.commands.fit.step_time import PredictedStep
from diagnose.diagnosis.cost import Money
from diagnose.diagnosis.estimates import between, hours_text, number, tokens_text
from diagnose.diagnosis.terms import Estimate
from diagnose.predict import budgeting
from diagnose.predict.costs import BILLION, Tariff, hours_of, money_of
from diagnose.report.text.page import Page


@dataclass(frozen=True)
class BillQuestion:
    """The question about the cost of a job. None is not asked.

    Attributes:
        tariff: of a GPU-hour.
        tokens: to train on; a billion where nobody says.
        deadline_h: hours within which.
        budget: money, in the currency of the price.
    """

    tariff: Tariff
    tokens: float = BILLION
    deadline_h: float | None = None
    budget: float | None = None


NOTHING_STATED = BillQuestion(Tariff())


@dataclass(frozen=True)
class Bill:
    """The cost of the tokens of a question with one configuration; estimates are [low, likely, high]."""

    step: PredictedStep
    question: BillQuestion

    @property
    def gpus(self) -> int:
        """GPUs of the configuration."""
        return self.step.gpus

    @cached_property
    def hours(self) -> Estimate:
        """Hours until the tokens are trained on."""
        span, tokens = self.step.calibration, self.question.tokens
        low, likely, high = (
            hours_of(tokens, self.step.tokens / seconds) for seconds in (span.low_s, self.step.step_s, span.high_s)
        )
        return low, likely, high

    @property
    def gpu_hours(self) -> Estimate:
        """The hours of all GPUs."""
        low, likely, high = self.hours
        return self.gpus * low, self.gpus * likely, self.gpus * high

    @property
    def money(self) -> Money:
        """Price, energy and emissions."""
        return money_of(self.question.tariff, self.gpus, self.hours)

    @property
    def price(self) -> Estimate | None:
        """Money for the work; None if no price is known."""
        return self.money.price


@dataclass(frozen=True)
class Counted:
    """Forecasts of the same job on several numbers of GPUs.

    Attributes:
        question: what is asked about the cost.
        bills: of each number of GPUs on which the job can run.
        left_out: the others, with the reason.
    """

    question: BillQuestion
    bills: tuple[Bill, ...]
    left_out: tuple[tuple[int, str], ...] = ()

    @property
    def chosen_gpus(self) -> int:
        """The number of GPUs to take."""
        return budgeting.chosen(self.bills, self.question.deadline_h, self.question.budget)[0].gpus

    @property
    def is_met(self) -> bool:
        """Whether that number meets the deadline and the budget."""
        return budgeting.chosen(self.bills, self.question.deadline_h, self.question.budget)[1]

    @property
    def says(self) -> str:
        """The choice as a sentence; if the most GPUs are too slow, how to look at more."""
        text = budgeting.says(self.bills, self.question.deadline_h, self.question.budget)
        most = max(bill.gpus for bill in self.bills)
        if self.is_met or self.question.deadline_h is None or self.chosen_gpus < most or len(self.bills) == 1:
            return text
        return f"{text}; --gpus {2 * most}-{8 * most} looks at more"


def question_of(given: Mapping[str, Any]) -> BillQuestion | None:
    """The question that the options state; None if they state none.

    Raises:
        UsageError: an option lacks what gives it an effect.
    """
    for name in ("kg_per_kwh", "pue"):
        if given[name] is not None and given["power_w"] is None:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --power-w: without a power no energy is known.")
    if given["budget"] is not None and given["tokens"] is None:
        raise click.UsageError("--budget needs --tokens: how much is to be trained for it.")
    tariff = Tariff.of(given)
    if not tariff.is_known and given["tokens"] is None:
        return None
    return BillQuestion(tariff, given["tokens"] or BILLION, given["deadline"], given["budget"])


def bill_words(bill: Bill) -> str:
    """The bill in words."""
    money = bill.money
    parts = [f"{tokens_text(bill.question.tokens)} in {between(bill.hours, hours_text)}"]
    parts.append(f"{between(bill.gpu_hours, number)} GPU-hours")
    parts += [f"costs {between(price, number)}" for price in [money.price] if price]
    parts += [f"{between(kwh, number)} kWh" for kwh in [money.kwh] if kwh]
    parts += [f"{between(kg, number)} kg CO2e" for kg in [money.kg_co2e] if kg]
    return ", ".join(parts)


def _short(bill: Bill) -> str:
    """One number of GPUs with its cost, in a row of several."""
    price = f", costs {between(bill.price, number)}" if bill.price else ""
    return f"{bill.gpus:,}: {between(bill.hours, hours_text)}, {number(bill.gpu_hours[1])} GPU-hours{price}"


def print_bill(page: Page, bills: Sequence[tuple[str, Bill]], counted: Counted | None) -> None:
    """Print the bill of each configuration that is ranked, and what each number of GPUs takes.

    Args:
        page: where.
        bills: with the names of their configurations.
        counted: the numbers of GPUs that were looked at; None if there was no choice.
    """
    for place, (name, bill) in enumerate(bills):
        text = f"{place + 1}. {name}: {bill_words(bill)}" if len(bills) > 1 else bill_words(bill)
        page.paragraph(text, label="" if place else "bill:")
    for place, bill in enumerate(counted.bills if counted and len(counted.bills) > 1 else ()):
        page.paragraph(_short(bill), label="" if place else "by GPUs:")
    for gpus, why in counted.left_out if counted else ():
        page.paragraph(f"{gpus:,}: left out, {why}")
    tariff = bills[0][1].question.tariff if bills else None
    if tariff and tariff.power_w is not None:
        beside = f"times a PUE of {tariff.pue:g}" if tariff.pue != 1 else "without what the data centre adds (--pue)"
        page.paragraph(f"energy of {number(tariff.power_w)} W for a GPU, {beside}")
