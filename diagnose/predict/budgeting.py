"""Choose among numbers of GPUs by a deadline and a budget; each holds at the unfavourable end of its range."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from diagnose.diagnosis.estimates import between, hours_text, number
from diagnose.diagnosis.terms import Estimate


class Offer(Protocol):
    """The work on one number of GPUs. Estimates are [low, likely, high]."""

    @property
    def gpus(self) -> int:
        """GPUs of the job."""

    @property
    def hours(self) -> Estimate:
        """Hours until the work is done."""

    @property
    def gpu_hours(self) -> Estimate:
        """The same times the GPUs: what is paid."""

    @property
    def price(self) -> Estimate | None:
        """Money for the work; None if no price is known."""


Offered = TypeVar("Offered", bound=Offer)


def meets(hours: Estimate, within_h: float | None) -> bool:
    """Whether the work is done by then at the slow end; without a deadline it is."""
    return within_h is None or hours[2] <= within_h


def covers(price: Estimate | None, budget: float | None) -> bool:
    """Whether the budget pays for the work at the expensive end; without a budget it does."""
    return budget is None or (price is not None and price[2] <= budget)


def chosen(offers: Sequence[Offered], within_h: float | None, budget: float | None) -> tuple[Offered, bool]:
    """The offer to take, and whether it meets what is asked.

    The cheapest that meets the deadline within the budget; with a budget alone the fastest within it. If none does, the
    nearest: with a deadline the fastest, with a budget alone the cheapest.
    """
    suited = [offer for offer in offers if meets(offer.hours, within_h) and covers(offer.price, budget)]
    if budget is not None and within_h is None:
        return (_fastest(suited), True) if suited else (_cheapest(offers), False)
    if suited:
        return _cheapest(suited), True
    affordable = [offer for offer in offers if covers(offer.price, budget)]
    return _fastest(affordable or offers), False


def _fastest(offers: Sequence[Offered]) -> Offered:
    return min(offers, key=lambda offer: (offer.hours[1], offer.gpus))


def _cheapest(offers: Sequence[Offered]) -> Offered:
    return min(offers, key=lambda offer: (offer.gpu_hours[1], offer.gpus))


def says(offers: Sequence[Offer], within_h: float | None, budget: float | None) -> str:
    """The choice as a sentence."""
    offer, suits = chosen(offers, within_h, budget)
    takes = f"{_gpus(offer)}, {between(offer.hours, hours_text)}"
    takes += f", costs {between(offer.price, number)}" if offer.price else ""
    asked = _asked(within_h, budget)
    if not suits:
        return f"{asked}: none does at the slow end of its range; the nearest is {takes}"
    if within_h is None and budget is None:
        return f"the fewest GPU-hours: {takes}"
    which = "the fastest" if within_h is None else "the cheapest"
    alone = "" if len(offers) > 1 else "the only size that was looked at, "
    maybe = [each for each in offers if each.gpus < offer.gpus and within_h and each.hours[0] <= within_h]
    return f"{asked}: {alone or f'{which} is '}{takes}" + (f"; {maybe[0].gpus} may do" if maybe else "")


def _asked(within_h: float | None, budget: float | None) -> str:
    deadline = "" if within_h is None else f"within {hours_text(within_h)}"
    return " ".join(filter(None, (deadline, "" if budget is None else f"for {number(budget)}")))


def _gpus(offer: Offer) -> str:
    return f"{offer.gpus:,} GPU{'' if offer.gpus == 1 else 's'}"
