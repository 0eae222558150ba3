"""The comparison of two runs: which is faster, by how much beyond the noise, and where the difference comes from."""

from typing import Literal

import msgspec

from diagnose.diagnosis.advice import Applied
from diagnose.diagnosis.answer import COUNTS, Answer
from diagnose.diagnosis.promise import Judgement
from diagnose.diagnosis.terms import CauseClass, Estimate, Nanoseconds

ComparisonVerdict = Literal["better", "worse", "no_difference", "not_comparable"]
KernelChange = Literal["added", "gone", "count", "time", "rest"]


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One side. Times are nanoseconds of a step; unknown values are null.

    `step` names the steps that are compared: "step without the profiler", "device step" or "host step". `steps` counts
    them, without the `left_out` ones: the start of a log, and the one slow step of a window. Rates are of the whole
    job, and by GPU (or by process if there is none) in `tokens_per_s_per_rank`. `predicted_ns` is the range of a
    forecast as [low, likely, high], null for a run that was measured. `each_ns` are the compared steps from the
    shortest to the longest; of more than 200 as many at even distances, both ends among them; empty if only their mean
    is known.
    """

    source: str
    device: str
    ranks: int | None
    step: str
    steps: int
    left_out: int
    step_ns: float | None
    noise_share: float | None
    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    tokens_per_s_per_rank: float | None = None
    predicted_ns: Estimate | None = None
    each_ns: tuple[Nanoseconds, ...] = ()


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A property that differs between the two sides; null for a side that lacks it."""

    what: str
    before: float | bool | str | None
    after: float | bool | str | None


class CauseDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a cause of the ledger per step: `ns` is after less before."""

    cause: str
    class_: CauseClass = msgspec.field(name="class")
    before_ns: Nanoseconds
    after_ns: Nanoseconds
    ns: int


class KernelDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one name, or operators without a GPU, per step of a typical rank; "rest" sums up all others.

    `change` names what makes most of the difference: how often they run, or how long each takes.
    """

    name: str
    change: KernelChange
    before_count: float
    after_count: float
    before_ns: Nanoseconds
    after_ns: Nanoseconds
    ns: int


class RankDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that both sides have: its mean step over all steps of the window, and that less its waiting for others."""

    rank: int
    before_ns: Nanoseconds
    after_ns: Nanoseconds
    before_own_ns: Nanoseconds
    after_own_ns: Nanoseconds
    late_before: bool
    late_after: bool


class NotCompared(msgspec.Struct, frozen=True, kw_only=True):
    """A part that cannot be compared, why, and what to do so that it can."""

    what: str
    because: str
    do: str = ""


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction that one side carries as a run with a patch, and the speed-up of this comparison.

    `patched` is the side with the patch. `judgement` is null if the prediction or the measurement is unknown.
    """

    patched: Literal["before", "after"]
    applied: Applied
    measured: Estimate | None
    judgement: Judgement | None


class Comparison(Answer, frozen=True, kw_only=True):
    """The content of a report of a comparison; its sentences call the runs A, before, and B, after.

    Attributes:
        verdict: "better" or "worse" if the interval of the speed-up excludes 1, of the run after over that before.
        because: the reason in a sentence.
        speedup: [low, mid, high] of the speed, above 1 if the run after is faster; null if it is unknown.
        speedup_of: the quantity that speed means: "step time", "tokens/s", "samples/s", or one of these "per GPU".
        floor_share: how far runs of the same job lie apart, which the interval includes in addition to the noise of the
            steps.
        detectable_share: the least difference of speed that this pair could have shown.
        same_work: whether both do the same work; null if it is unknown.
        work: differences of the work and the hardware.
        difference: each cause per step, the largest first; `ns` add up to `difference_ns`.
        before_ns: the step of the ledger before, and
        after_ns: after, for the work of a step before; their difference is `difference_ns`.
        kernels: the largest differences first, and the rest; they add up to the difference of the time of all kernels.
        kernel_kind: what those are: operators in jobs without a GPU.
        configuration: settings, versions and observed configuration that differ.
        not_compared: what is missing, and why.
        notes: what a reader has to know besides.
    """

    on_one_line = COUNTS
    schema_version: int = 1
    verdict: ComparisonVerdict
    because: str
    speedup: Estimate | None
    speedup_of: str
    floor_share: float
    detectable_share: float | None
    before: ComparedRun
    after: ComparedRun
    same_work: bool | None
    work: tuple[Changed, ...] = ()
    difference: tuple[CauseDifference, ...] = ()
    before_ns: Nanoseconds | None = None
    after_ns: Nanoseconds | None = None
    difference_ns: int | None = None
    kernels: tuple[KernelDifference, ...] = ()
    kernel_kind: Literal["kernel", "operator"] = "kernel"
    ranks: tuple[RankDifference, ...] = ()
    configuration: tuple[Changed, ...] = ()
    promise: Promise | None = None
    not_compared: tuple[NotCompared, ...] = ()
    notes: tuple[str, ...] = ()
