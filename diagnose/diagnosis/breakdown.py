"""Data types of the step time breakdown: verdict, causes, and the way from the peak to MFU."""

import msgspec

from diagnose.diagnosis.terms import CauseClass, Confidence, DoubtKind, Nanoseconds, Share, VerdictClass


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """One reason to trust a verdict less, with its numbers; `says` is a clause that can follow "because".

    `withholds` is whether no verdict is given for it; else `leaves` is the most confidence that it allows. `rule` names
    the finding that advises what to do about it, "" if there is none: the doubt speaks for that finding.
    """

    kind: DoubtKind
    says: str
    withholds: bool = False
    leaves: Confidence = "low"
    rule: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The class that bounds the step. `between` holds two classes if they are too close to choose.

    `doubts` are the reasons for less than high confidence, worst first; it is high if there are none. If a doubt
    withholds the verdict, the class is "undecided" and `withheld` says in a few words why; it is "" otherwise.
    """

    class_: VerdictClass = msgspec.field(name="class")
    between: tuple[VerdictClass, ...] = ()
    confidence: Confidence
    because: str
    doubts: tuple[Doubt, ...] = ()
    withheld: str = ""


class LightPart(msgspec.Struct, frozen=True, kw_only=True):
    """The time that the training thread spent in a range, without nested ranges, in a step without the profiler.

    `range` is "" for time outside all ranges.
    """

    range: str
    ns: Nanoseconds
    share: Share


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over the counted steps of all analysed ranks; `device_time_ns` is null without GPU activity.

    `numbers` are the step numbers as the job or its profiler counts them; empty if they are not numbered.
    `uncounted_ns` is the start of the capture, outside the steps: the time before the first counted step or, without
    step marks, before the first GPU activity. `each_ns` are the counted steps in order, on the clock of the ledger,
    each the mean of the ranks; empty if the ranks count different steps. `unprofiled_ns` are the steps that the capture
    timed without the profiler before and after its window, on the host's clock or by events of the device.

    `light_parts` are the host's parts of the mean unprofiled step, largest first; they add up to it. Empty if no range
    was timed.

    `distortion` is the profiled over the unprofiled step time if that is 3 or more, else null. Shares of such steps are
    not reported: `time_ns`, `device_time_ns` and the ledger are those of as many steps without the profiler, and the
    ledger entry "distorted" is time of unknown cause.
    """

    source: str
    count: int
    time_ns: Nanoseconds
    device_time_ns: Nanoseconds | None
    numbers: tuple[int, ...] = ()
    uncounted_ns: Nanoseconds = 0
    each_ns: tuple[Nanoseconds, ...] = ()
    unprofiled_ns: tuple[Nanoseconds, ...] = ()
    light_parts: tuple[LightPart, ...] = ()
    distortion: float | None = None


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The time of the steps that one cause takes. All `ns` add up to `device_time_ns`, else to `time_ns`; `share` is of
    that.

    Exposed communication is exposed transfer and exposed waiting. If the fact `transfer_share` is known, the cause
    "exposed-communication" is the transfer alone, and the waiting is in "late-rank-..."; else it is both. `by_step_ns`
    is its part of each counted step, summed over the ranks; it adds up to `ns`. It is empty in the ledger of a single
    rank among several, and if the ranks count different steps.
    """

    cause: str
    class_: CauseClass = msgspec.field(name="class")
    ns: Nanoseconds
    share: Share
    by_step_ns: tuple[Nanoseconds, ...] = ()


class WaterfallPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part on the way from 100 % of the peak to MFU. All `ns` add up to the ledger's total, `points` to 100.

    "model-flops" is the time that the model's FLOPs take at the declared peak: with "padding", its points are MFU.
    Every other part is a loss. Without MFU the matrix kernels appear whole, under the ledger's names.
    """

    part: str
    class_: CauseClass = msgspec.field(name="class")
    ns: Nanoseconds
    points: float


class Convention(msgspec.Struct, frozen=True, kw_only=True):
    """MFU as one convention counts it: "given", "palm", "causal", "6n", "6n-attention", "hf" or "operators"."""

    name: str
    model_flops_per_step: float
    value: float | None


class Mfu(msgspec.Struct, frozen=True, kw_only=True):
    """Model FLOPs per step over (peak FLOP/s times step time); if unknown, `value` is null and `reason` is why.

    `conventions` holds the declared numerator first. `executed_value` (HFU) counts the FLOPs of the operators that ran,
    recomputation included. `goodput_value` counts only tokens that are not padding. `own_value` is against
    `own_peak_flops`, the peak of `own_precision`, in which most matrix work ran. `check` states the difference between
    the numerator and the operators that ran, and its reason; `missing` names work in a step that is not counted, which
    makes `value` a lower bound of MFU; `unused_option` names an option of the user that could not be used, and why.
    `peak_device` and `peak_precision` name the row of the GPU table that the peak comes from, "" for another source,
    and `peak_is_verified` is whether that row is trusted. `reached_value` is of `reached_flops`, the best product that
    the user measured on such a GPU; null without a measurement. `or_pass` are further options that would make MFU
    known.
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
    missing: str = ""
    unused_option: str = ""
    peak_device: str = ""
    peak_precision: str = ""
    peak_is_verified: bool = True
    or_pass: tuple[str, ...] = ()
    reached_flops: float | None = None
    reached_value: float | None = None

    @property
    def of_own_peak(self) -> float | None:
        """MFU of the peak of the precision that ran, if that is another one than the device's fastest."""
        return self.value if self.own_value is None else self.own_value
