"""The answer of `diagnose scaling`. Frozen; the reports are pure functions of it."""

from typing import Literal

import msgspec

from diagnose.diagnosis.answer import Answer
from diagnose.diagnosis.cost import Money
from diagnose.diagnosis.terms import Estimate

Kind = Literal["weak", "strong", "mixed", "unknown"]


class TaxPart(msgspec.Struct, frozen=True, kw_only=True):
    """Time per step of `name` beyond that of the smallest run, for the same work; negative is less."""

    name: str
    s: float


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The job at one number of GPUs. Estimates are [low, likely, high]; null is not known.

    `runs` were measured there, 0 if the size is extrapolated. `speedup` and `efficiency` are over the smallest size:
    the rate of the job, and the rate of a GPU. `doubling_efficiency` is the gain of the last doubling of GPUs: the
    growth of the rate for each doubling since the size before, over 2. `tax_s` is how much longer a step takes than the
    same work of a GPU at the smallest size, `tax_parts` the causes of it. `communication_s` is the measured
    communication that no work hides. `cost_factor` is the cost of a token over that at the smallest size. `training_h`
    and `training` are of the requested tokens, `billion` of 10^9 tokens.
    """

    gpus: int
    nodes: int | None
    runs: int
    step_s: Estimate | None
    tokens_per_step: float | None
    tokens_per_s: Estimate | None
    tokens_per_s_per_gpu: Estimate | None
    speedup: Estimate | None
    efficiency: Estimate | None
    doubling_efficiency: Estimate | None
    tax_s: Estimate | None
    tax_parts: tuple[TaxPart, ...] = ()
    communication_s: float | None = None
    cost_factor: Estimate | None
    billion: Money = Money()
    training_h: Estimate | None = None
    training: Money = Money()


class Wall(msgspec.Struct, frozen=True, kw_only=True):
    """The number of GPUs from which on the time that grows with them exceeds that of the work of a step.

    Null is none up to `horizon`, or if `because` is given, unknown. `earliest` and `latest` bound the sizes that the
    runs do not rule out.
    """

    earliest: int | None = None
    likely: int | None = None
    latest: int | None = None
    horizon: int = 0
    because: str = ""


class Purpose(msgspec.Struct, frozen=True, kw_only=True):
    """The number of GPUs for a purpose: "deadline", "budget", "fastest", "cheapest" or "least energy".

    `gpus` is null if no number serves it, or if it is unknown; `says` is the whole answer as a sentence.
    """

    purpose: str
    gpus: int | None
    extrapolated: bool = False
    says: str


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """One job at several sizes.

    `kind` is "weak" if the tokens of a step per GPU stay, "strong" if those of the whole step do, "mixed" if neither
    does, "unknown" if the runs do not show it. `base_gpus` is the smallest size, which all else is compared with.
    `because` is why nothing is extrapolated, "" if something is.
    """

    name: str
    kind: Kind
    base_gpus: int
    sizes: tuple[Size, ...]
    wall: Wall
    purposes: tuple[Purpose, ...]
    notes: tuple[str, ...]
    because: str = ""


class ScalingReport(Answer, frozen=True, kw_only=True):
    """The answer of `diagnose scaling`.

    `sources` are the files that were read; `power_from` is the source of the power of a GPU.
    """

    schema_version: int = 1
    sources: tuple[str, ...]
    jobs: tuple[Scaling, ...]
    gpu_hour_price: float | None = None
    power_w: float | None = None
    power_from: str = ""
    pue: float = 1.0
    kg_per_kwh: float | None = None
    tokens: float | None = None
    notes: tuple[str, ...] = ()
