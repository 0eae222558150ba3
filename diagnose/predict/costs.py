"""The cost of GPU-hours in money, energy and emissions, as far as prices are known."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from diagnose.diagnosis.cost import Money
from diagnose.diagnosis.terms import Estimate
from diagnose.formulas.energy import emissions_kg, energy_kwh

BILLION = 1e9
NO_OVERHEAD = 1.0  # a power usage effectiveness: the energy of the data centre over that of its computers


class Tariff(msgspec.Struct, frozen=True):
    """The price, power and emissions of a GPU-hour. None means unknown.

    Attributes:
        gpu_hour_price: price for one GPU, in any currency.
        power_w: power of one GPU, with its part of the host if that is to be included.
        pue: energy of the data centre over that of its computers.
        kg_per_kwh: kilograms of CO2e of a kilowatt-hour.
        power_most_w: the highest power of a GPU, if `power_w` is a reading.
    """

    gpu_hour_price: float | None = None
    power_w: float | None = None
    pue: float = NO_OVERHEAD
    kg_per_kwh: float | None = None
    power_most_w: float | None = None

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> "Tariff":
        """Build a tariff from the options of the command line, by their names."""
        return cls(stated["gpu_hour_price"], stated["power_w"], stated["pue"] or NO_OVERHEAD, stated["kg_per_kwh"])

    @property
    def is_known(self) -> bool:
        """Whether a price or a power is known."""
        return self.gpu_hour_price is not None or self.power_w is not None

    def price(self, gpus: int, hours: float) -> float | None:
        """Money for so many GPUs over so many hours."""
        return None if self.gpu_hour_price is None else self.gpu_hour_price * gpus * hours

    def kwh(self, gpus: int, hours: float) -> float | None:
        """Kilowatt-hours of so many GPUs over so many hours, with what the data centre adds."""
        return None if self.power_w is None else energy_kwh(gpus, self.power_w, 0, 0.0, hours) * self.pue


def hours_of(tokens: float, tokens_per_s: float) -> float:
    """Hours of so many tokens at the rate of the job."""
    return tokens / tokens_per_s / 3600


def money_of(tariff: Tariff, gpus: int, hours: Estimate) -> Money:
    """The cost of a number of GPUs over [low, likely, high] hours."""
    kwh = _kwh(tariff, gpus, hours)
    grid = tariff.kg_per_kwh
    return Money(
        price=_each(tariff.price(gpus, h) for h in hours),
        kwh=kwh,
        kg_co2e=None if kwh is None or grid is None else _each(emissions_kg(amount, grid) for amount in kwh),
    )


def _kwh(tariff: Tariff, gpus: int, hours: Estimate) -> Estimate | None:
    """Energy at the known power; the high end at the highest power of a GPU."""
    estimate = _each(tariff.kwh(gpus, h) for h in hours)
    if estimate is None or tariff.power_w is None:
        return None
    low, likely, high = estimate
    return low, likely, high * max((tariff.power_most_w or tariff.power_w) / tariff.power_w, 1.0)


def _each(values: Iterable[float | None]) -> Estimate | None:
    low, likely, high = values
    return None if low is None or likely is None or high is None else (low, likely, high)
