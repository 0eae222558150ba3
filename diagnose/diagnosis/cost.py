"""The cost of the job in money, energy and emissions."""

import msgspec

from diagnose.diagnosis.terms import Estimate, Speedup


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """Price, energy and emissions as [low, likely, high]; null if no price, power or grid is known."""

    price: Estimate | None = None
    kwh: Estimate | None = None
    kg_co2e: Estimate | None = None


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """The daily saving by the next change for the same work; each [low, high], null if not known."""

    rule: str
    action: str
    gpu_hours: Speedup
    price: Speedup | None = None
    kwh: Speedup | None = None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of `gpus` per day, per billion tokens, and for `tokens` if these were stated.

    Estimates are [low, likely, high]; null means not known. Rates are those of steps without the profiler if the
    capture timed some, else of profiled steps (`profiled`); they range over the difference between repeated runs.
    `power_w` is of one GPU, either stated or read once at the end of the capture (`power_from`); `power_most_w` is then
    its power limit, the upper end for energy and emissions. `pue` is the energy of the data centre over that of its
    computers. `because` is the reason why costs per token are missing, "" if they are there.
    """

    gpus: int
    gpu_hour_price: float | None
    power_w: float | None
    power_most_w: float | None
    power_from: str
    pue: float
    kg_per_kwh: float | None
    profiled: bool
    tokens_per_s: Estimate | None
    day: Money
    billion: Money
    tokens: float | None
    training_h: Estimate | None
    training: Money
    saved_per_day: Saving | None
    because: str = ""
