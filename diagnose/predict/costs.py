"""What GPU-hours cost, in money, energy and emissions, at what the user states of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diagnose.formulas.energy import cost_of_tokens, emissions_kg, energy_kwh

BILLION = 1e9
NO_OVERHEAD = 1.0  # a power usage effectiveness: the energy of the data centre over that of its computers


@dataclass(frozen=True)
class Tariff:
    """What is known of a GPU-hour. None is not known.

    Attributes:
        gpu_hour_price: of one GPU, in any currency.
        power_w: of one GPU, with its part of the host where that is meant too.
        pue: energy of the data centre over that of its computers.
        kg_per_kwh: kilograms of CO2e of a kilowatt-hour.
    """

    gpu_hour_price: float | None = None
    power_w: float | None = None
    pue: float = NO_OVERHEAD
    kg_per_kwh: float | None = None

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> "Tariff":
        """From the options of the command line, by their names."""
        return cls(stated["gpu_hour_price"], stated["power_w"], stated["pue"] or NO_OVERHEAD, stated["kg_per_kwh"])

    @property
    def is_known(self) -> bool:
        """Whether anything can be said."""
        return self.gpu_hour_price is not None or self.power_w is not None

    def price(self, gpus: int, hours: float) -> float | None:
        """Money for so many GPUs over so many hours."""
        return None if self.gpu_hour_price is None else self.gpu_hour_price * gpus * hours

    def kwh(self, gpus: int, hours: float) -> float | None:
        """Kilowatt-hours of so many GPUs over so many hours, with what the data centre adds."""
        return None if self.power_w is None else energy_kwh(gpus, self.power_w, 0, 0.0, hours) * self.pue

    def kg(self, gpus: int, hours: float) -> float | None:
        """Kilograms of CO2e of so many GPUs over so many hours."""
        kwh = self.kwh(gpus, hours)
        return None if kwh is None or self.kg_per_kwh is None else emissions_kg(kwh, self.kg_per_kwh)

    def price_of(self, tokens: float, gpus: int, tokens_per_s: float) -> float | None:
        """Money for so many tokens at the rate of the job."""
        if self.gpu_hour_price is None:
            return None
        return cost_of_tokens(tokens, self.gpu_hour_price, gpus, tokens_per_s)


def hours_of(tokens: float, tokens_per_s: float) -> float:
    """Hours of so many tokens at the rate of the job."""
    return tokens / tokens_per_s / 3600
