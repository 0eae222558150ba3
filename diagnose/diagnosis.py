"""The answer: a frozen, versioned record that every report is a pure function of."""

import re
from typing import Annotated, Any, Literal

import msgspec

from diagnose.postmortem import Postmortem, Straggler

SCHEMA_VERSION = 3

VerdictClass = Literal["data-bound", "host-bound", "memory-bound", "compute-bound", "communication-bound", "undecided"]
CauseClass = Literal["data", "host", "memory", "compute", "communication", "unexplained"]
FindingClass = Literal[
    "data", "host", "memory", "compute", "communication", "capacity", "imbalance", "validity", "unexplained"
]
Severity = Literal["critical", "warning", "info"]
Confidence = Literal["high", "medium", "low"]

Bound = Literal["compute", "memory", "latency", "under-filled", "unknown"]

LaneKind = Literal["stream", "thread", "cause"]
SliceClass = Literal[CauseClass, ""]

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
    """One cause's part of the steps. All `ns` add up to `device_time_ns`, else to `time_ns`; `share` is of that.

    Exposed communication is exposed transfer and exposed waiting. Where the fact `transfer_share` is known, the cause
    "exposed-communication" is the transfer alone, and the waiting is in "late-rank-..."; else it is both.
    """

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


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Dense FLOP/s that the device does at most in one precision, and who says so."""

    precision: str
    flops_per_s: float
    source: str


class Roofs(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the kernels of `roofline`; `hbm_bytes_per_s` is null, and `hbm_source` the reason, when unknown."""

    hbm_bytes_per_s: float | None
    hbm_source: str
    peaks: tuple[Peak, ...]


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """GPU activities of one name on a typical rank, per step; the last row sums up `names` others and has no name.

    `ns` counts the whole of each activity that begins in the counted steps, so rows of streams that run together can
    add up to more than the step; `share` is of the step. `operator` launched most of the time, "" when not known.
    `above_roof_ns` is time above max(FLOPs / peak, bytes / bandwidth), null where that is unknown.
    """

    name: str
    names: int = 1
    family: str
    class_: SliceClass = msgspec.field(name="class")
    bound: Bound
    operator: str
    count: float
    ns: Nanoseconds
    share: Share
    mean_ns: Nanoseconds
    above_roof_ns: int | None


class SliceLabel(msgspec.Struct, frozen=True, kw_only=True):
    """What a slice of a timeline is, and the class it counts in; "" where it counts in none."""

    name: str
    class_: SliceClass = msgspec.field(name="class")


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a step's timeline: a stream, the calls of a thread, or the causes of the gaps.

    The arrays are parallel, one entry for each slice, by start; slices do not overlap. `start_ns` counts from the
    step's start, `label` indexes the timeline's labels, and a slice with a `count` above 1 stands for that many short
    neighbours, under the label that most of their time has.
    """

    name: str
    kind: LaneKind
    start_ns: tuple[int, ...]
    length_ns: tuple[int, ...]
    label: tuple[int, ...]
    count: tuple[int, ...]


class StepTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The step of median length of a typical rank, on the clock of its device.

    `merged_below_ns` is the length below which neighbours share a slice, 0 where every activity has its own;
    `lanes_left_out` counts streams and threads that have no lane.
    """

    rank: int
    step: int
    length_ns: Nanoseconds
    labels: tuple[SliceLabel, ...]
    lanes: tuple[Lane, ...]
    merged_below_ns: Nanoseconds
    lanes_left_out: int = 0


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
    "code" or "cluster"; `numerics` marks a change that can change the training's results. `below_noise`: even the best
    case buys less than steps of the window lie apart (the fact `step_noise_share`), so that no short run would show it.
    """

    rule: str
    patch: Patch | None
    predicted_speedup: tuple[float, float] | None
    cumulative_speedup: tuple[float, float] | None = None
    effort: str = "setting"
    numerics: bool = False
    below_noise: bool = False


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far the replay of the unchanged step is from the measured one; predictions are withheld unless `valid`.

    `strict_error` is null when there was no step to replay.
    """

    measured_ns: float
    strict_error: float | None
    valid: bool
    because: str


class FactReport(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: its `value`, or null with the reason in `because` and what to capture in `capture_next`.

    Units: share, ns, bytes, count, flag, text, factor, flops, flops_per_s, bytes_per_s, flops_per_byte. `of` names
    the denominator of a share.
    """

    name: str
    value: float | bool | str | None
    unit: str
    of: str = ""
    because: str = ""
    capture_next: str = ""


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
    """Verdict and ledger of one rank over its counted steps; `host` is "" when nothing says it."""

    rank: int
    device: str
    host: str = ""
    steps: int = 0
    verdict: Verdict
    ledger: tuple[LedgerEntry, ...]


class HistoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """The step time of the run moved to another level, by the step times that lie beside the traces.

    `change_share` is of the median step time before; positive is slower. `diagnose series` tells all there is.
    """

    since_step: int
    until_step: int
    change_share: float
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    says: str


class NotApplied(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a patch that is not in use in the run."""

    key: str
    because: str


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A run of `diagnose run --apply`: what of the patch is in use, what was predicted, what was measured.

    Speeds are of the whole step, per sample where the patch changes how many a step has. `before_ns` and `after_ns` are
    median times of a step, `step` says of which: "step without the profiler", "device step" or "host step". What is not
    known is null, for the reason in `because`. `noise_share` is how far steps of this run lie apart, of the median one.
    """

    patches: tuple[Patch, ...]
    refused: tuple[NotApplied, ...] = ()
    rule: str = ""
    predicted_speedup: tuple[float, float] | None = None
    measured_speedup: float | None = None
    before_ns: float | None = None
    after_ns: float | None = None
    step: str = ""
    noise_share: float | None = None
    because: str = ""


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
    """Everything any report shows. Serialise with `to_json`.

    With `rank`, all but `ranks`, `stragglers`, `postmortem` and `trace` is of that rank alone; null is the whole job.
    """

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
    postmortem: Postmortem | None = None
    rank: int | None = None
    history: tuple[HistoryChange, ...] = ()
    applied: Applied | None = None
    timeline: StepTimeline | None = None
    kernels: tuple[KernelRow, ...] = ()
    roofs: Roofs | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    facts: tuple[FactReport, ...] = ()


_NUMBERS = re.compile(r"\[\n[\s\d,.]+\]")  # no text holds a bare end of line


def to_json(diagnosis: Diagnosis) -> str:
    """The diagnosis as one indented JSON object, each list of numbers on one line."""
    indented = msgspec.json.format(msgspec.json.encode(diagnosis), indent=2).decode()
    return _NUMBERS.sub(lambda numbers: "".join(numbers[0].split()).replace(",", ", "), indented)


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `to_json`'s object: every key is always present."""
    described = msgspec.json.schema(Diagnosis)
    for definition in described["$defs"].values():
        definition["required"] = sorted(definition["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Diagnosis"} | described
