"""Where the time of a step goes: verdict, causes, and the way from the peak to MFU."""

import msgspec

from diagnose.diagnosis.terms import CauseClass, Confidence, Nanoseconds, Share, VerdictClass


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the step. `between` holds two classes when the call between them is close."""

    class_: VerdictClass = msgspec.field(name="class")
    between: tuple[VerdictClass, ...] = ()
    confidence: Confidence
    because: str


class LightPart(msgspec.Struct, frozen=True, kw_only=True):
    """What of a step without the profiler the training thread spent in a range, those within it left out.

    `range` is "" for what lies in none.
    """

    range: str
    ns: Nanoseconds
    share: Share


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over the counted steps of all analysed ranks; `device_time_ns` is null without GPU activity.

    `numbers` are those of the counted steps, as the job or its profiler counts; empty where nothing numbers them.
    `uncounted_ns` is the start of the capture, outside the steps: all before the first counted step, and in a capture
    without step marks all before the first GPU activity. `each_ns` are the counted steps in order, on the clock of the
    ledger, each the mean of the ranks; empty where the ranks count different steps. `unprofiled_ns` are the steps that
    the capture timed without the profiler before and after its window, on the host's clock or by events of the device.

    `light_parts` are the parts of the mean one of these on the host, largest first: they add up to it. Empty where no
    range was timed.

    Where the profiler makes a step three times as long or more, `distortion` says how many times, else it is null. No
    share of such steps is stated: `time_ns` and `device_time_ns` are those of as many steps without the profiler, and
    so is the ledger, in which "distorted" is what nobody knows the cause of.
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
    """One cause's part of the steps. All `ns` add up to `device_time_ns`, else to `time_ns`; `share` is of that.

    Exposed communication is exposed transfer and exposed waiting. Where the fact `transfer_share` is known, the cause
    "exposed-communication" is the transfer alone, and the waiting is in "late-rank-..."; else it is both. `by_step_ns`
    is its part of each counted step, all ranks together: it adds up to `ns`. It is empty in the ledger of a single rank
    among others, and where the ranks count different steps.
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
    """Model FLOPs per step over peak FLOP/s times the step; `value` is null with a `reason` when it is unknown.

    `conventions` holds the declared numerator first. `executed_value` (HFU) counts the FLOPs of the operators that
    ran, recomputation included. `goodput_value` is of the tokens that are not padding. `own_value` is against
    `own_peak_flops`, the peak of `own_precision`, in which most matrix work ran. `check` says how far the numerator
    and the operators that ran are apart, and why; `missing` what ran in a step and is not counted, so that `value` is
    the least that MFU can be; `unused_option` which option of the user could not be used, and why. `peak_device` and
    `peak_precision` name the row of the GPU table that the peak is of, "" for another source, and `peak_is_verified`
    whether that row is trusted. `or_pass` are options beside the `reason` that MFU lacks.
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
