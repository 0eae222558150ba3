"""The bill of a configuration, and the choice of a number of GPUs, as plain values."""

import msgspec

from diagnose.commands.fit.bill import Bill, Counted
from diagnose.diagnosis.cost import Money
from diagnose.diagnosis.terms import Estimate


class PlannedBill(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of `tokens`; estimates are [low, likely, high], from the range of the step."""

    tokens: float
    hours: Estimate
    gpu_hours: Estimate
    money: Money


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A number of GPUs on which the job cannot run."""

    gpus: int
    because: str


class ChosenGpus(msgspec.Struct, frozen=True, kw_only=True):
    """The number of GPUs for the deadline and the budget, which it meets at the unfavourable end or not (`is_met`).

    `says` is the choice as a sentence.
    """

    gpus: int
    is_met: bool
    deadline_h: float | None
    budget: float | None
    left_out: tuple[LeftOut, ...]
    says: str


def planned_bill(bill: Bill) -> PlannedBill:
    """The bill as plain values."""
    return PlannedBill(tokens=bill.question.tokens, hours=bill.hours, gpu_hours=bill.gpu_hours, money=bill.money)


def chosen_gpus(counted: Counted) -> ChosenGpus:
    """The choice as plain values."""
    return ChosenGpus(
        gpus=counted.chosen_gpus,
        is_met=counted.is_met,
        deadline_h=counted.question.deadline_h,
        budget=counted.question.budget,
        left_out=tuple(LeftOut(gpus=gpus, because=because) for gpus, because in counted.left_out),
        says=counted.says,
    )
