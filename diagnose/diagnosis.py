"""The answer: a frozen, versioned record that every report is a pure function of."""

from typing import Annotated, Any, Literal

import msgspec

SCHEMA_VERSION = 2

VerdictClass = Literal["data-bound", "host-bound", "memory-bound", "compute-bound", "communication-bound", "undecided"]
CauseClass = Literal["data", "host", "memory", "compute", "communication", "unexplained"]
FindingClass = Literal[
    "data", "host", "memory", "compute", "communication", "capacity", "imbalance", "validity", "unexplained"
]
Severity = Literal["critical", "warning", "info"]
Confidence = Literal["high", "medium", "low"]
LatenessCause = Literal["data", "host", "slower_kernels", "more_work", "gc", "checkpoint", "link", "unknown"]

Bound = Literal["compute", "memory", "latency", "under-filled", "unknown"]

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Nanoseconds = Annotated[int, msgspec.Meta(ge=0)]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the step. `between` holds two classes when they are within five points of each other."""

    class_: VerdictClass = msgspec.field(name="class")
    between: tuple[VerdictClass, ...] = ()
    confidence: Confidence
    because: str


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over the counted steps of all analysed ranks; `device_time_ns` is null without GPU activity."""

    source: str
    count: int
    time_ns: Nanoseconds
    device_time_ns: Nanoseconds | None


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One cause's part of the steps. All `ns` add up to `device_time_ns`, else to `time_ns`; `share` is of that."""

    cause: str
    class_: CauseClass = msgspec.field(name="class")
    ns: Nanoseconds
    share: Share


class Convention(msgspec.Struct, frozen=True, kw_only=True):
    """MFU as one convention counts it: "given", "palm", "causal", "6n", "hf" or "operators"."""

    name: str
    model_flops_per_step: float
    value: float | None


class Mfu(msgspec.Struct, frozen=True, kw_only=True):
    """Model FLOPs per step over peak FLOP/s times the step; `value` is null with a `reason` when it is unknown.

    `conventions` holds the declared numerator first. `executed_value` (HFU) counts the FLOPs of the operators that
    ran, recomputation included. `goodput_value` is of the tokens that are not padding. `own_value` is against
    `own_peak_flops`, the peak of `own_precision`, in which most matrix work ran. `check` says how far the numerator
    and the operators that ran are apart, and why.
    """

    value: float | None
    reason: str
    numerator: str
    model_flops_per_step: float | None
    peak_flops: float | None
    peak_source: str
    conventions: tuple[Convention, ...] = ()
    executed_value: float | None = None
    goodput_value: float | None = None
    own_precision: str | None = None
    own_peak_flops: float | None = None
    own_value: float | None = None
    tokens_per_step: float | None = None
    tokens_per_s: float | None = None
    check: str = ""


class WaterfallPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part on the way from 100 % of the peak to MFU. All `ns` add up to the ledger's total, `points` to 100.

    "model-flops" is the time that the model's FLOPs take at the declared peak: with "padding", its points are MFU.
    Every other part is a loss. Without MFU the matrix kernels appear whole, under the ledger's names.
    """

    part: str
    class_: CauseClass = msgspec.field(name="class")
    ns: Nanoseconds
    points: float


class RooflineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one family, direction and precision on the first rank, per step; or of one operator, by its sizes.

    `intensity` (FLOP per byte) is an upper bound and `gbs` a lower one: `bytes` is the least that has to move.
    `above_roof_ns` is time above max(FLOPs / peak, bytes / bandwidth). A figure is null where shapes or peaks are
    unknown; rates are over the part of the time whose cost is known.
    """

    family: str
    direction: str
    precision: str
    ns: Nanoseconds
    kernels: float
    flops: float | None
    bytes: float | None
    intensity: float | None
    tflops: float | None
    gbs: float | None
    bound: Bound
    above_roof_ns: int | None
    note: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that a finding rests on. `of` names the denominator of a share."""

    fact: str
    value: float | bool | str
    unit: str
    of: str = ""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A concrete change: `set` holds the values for `target` (training_arguments, model_kwargs, environment, ...)."""

    target: str
    set: dict[str, Any]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that fired. `predicted_speedup` is [low, high] of the whole step's speed, for this change alone.

    It is null when nothing is predicted; `assumes` says what the range rests on. [1, high] without an assumption is a
    bound: what the step gains if the fault goes at no cost.
    """

    rule: str
    class_: FindingClass = msgspec.field(name="class")
    severity: Severity
    says: str
    do: str
    evidence: tuple[Evidence, ...]
    predicted_speedup: tuple[float, float] | None
    patch: Patch | None
    assumes: str = ""


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the ordered plan, each chosen with those before it in place.

    `predicted_speedup` is its own gain then, `cumulative_speedup` that of the plan so far. `effort` is "setting",
    "code" or "cluster"; `numerics` marks a change that can change the training's results.
    """

    rule: str
    patch: Patch | None
    predicted_speedup: tuple[float, float] | None
    cumulative_speedup: tuple[float, float] | None = None
    effort: str = "setting"
    numerics: bool = False


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far the replay of the unchanged step is from the measured one; predictions are withheld unless `valid`.

    `strict_error` is null when there was no step to replay.
    """

    measured_ns: float
    strict_error: float | None
    valid: bool
    because: str


class NotAdvised(msgspec.Struct, frozen=True, kw_only=True):
    """A change that would not help here, and the number that says so."""

    what: str
    because: str


class NotJudged(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that could not be judged, and what to capture to judge it."""

    rule: str
    because: str
    capture_next: str


class RankReport(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict and ledger of one rank."""

    rank: int
    device: str
    verdict: Verdict
    ledger: tuple[LedgerEntry, ...]


class Straggler(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that the others wait for; `waiting_ns_caused` sums over the other ranks and the counted steps."""

    rank: int
    cause: LatenessCause
    waiting_ns_caused: Nanoseconds


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What of the files could not be used."""

    events: int
    bytes: int
    truncated: bool
    kinds: tuple[str, ...]


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The input: files, events read, bytes of JSON, and the loss.

    `missing_ranks` are those of the job's world of which there is no trace. `left_out` counts the events of Python
    functions that were not kept to save memory. `copies` are files that hold the same as one of `files`.
    """

    files: tuple[str, ...]
    events: int
    bytes: int
    loss: Loss
    missing_ranks: tuple[int, ...] = ()
    left_out: int = 0
    copies: tuple[str, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything any report shows. Serialise with `to_json`."""

    schema_version: int = SCHEMA_VERSION
    verdict: Verdict
    steps: Steps
    ledger: tuple[LedgerEntry, ...]
    waterfall: tuple[WaterfallPart, ...]
    mfu: Mfu
    roofline: tuple[RooflineEntry, ...]
    operators: tuple[RooflineEntry, ...]
    findings: tuple[Finding, ...]
    plan: tuple[PlanStep, ...]
    replay: ReplayReport
    not_advised: tuple[NotAdvised, ...]
    not_judged: tuple[NotJudged, ...]
    ranks: tuple[RankReport, ...]
    stragglers: tuple[Straggler, ...]
    trace: TraceSummary


def to_json(diagnosis: Diagnosis) -> str:
    """The diagnosis as one indented JSON object."""
    return msgspec.json.format(msgspec.json.encode(diagnosis), indent=2).decode()


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `to_json`'s object: every key is always present."""
    described = msgspec.json.schema(Diagnosis)
    for definition in described["$defs"].values():
        definition["required"] = sorted(definition["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Diagnosis"} | described
