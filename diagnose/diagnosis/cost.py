"""What the job costs, in money, energy and emissions."""

import msgspec

from diagnose.diagnosis.terms import Estimate, Speedup


class Money(msgspec.Struct, frozen=True, kw_only=True):
    """Price, energy and emissions as [low, likely, high]; null where no price, power or grid is known."""

    price: Estimate | None = None
    kwh: Estimate | None = None
    kg_co2e: Estimate | None = None


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """What the next change saves in a day, for the same work; each [low, high], where null is not known."""

    rule: str
    action: str
    gpu_hours: Speedup
    price: Speedup | None = None
    kwh: Speedup | None = None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What `gpus` cost in a day, for a billion tokens, and for `tokens` where these were stated.

    Estimates are [low, likely, high], and null is not known. Rates are those of the step without the profiler where
    the capture timed some, else of the profiled one (`profiled`), and range over what a run and its repetition differ
    by. `power_w` is of one GPU, stated or, by `power_from`, read once at the end of the capture; `power_most_w` is then
    its limit, up to which energy and emissions range. `pue` is the energy of the data centre over that of its
    computers. `because` says why nothing is said of tokens, "" where something is.
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
