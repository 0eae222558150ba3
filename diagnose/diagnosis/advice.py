"""Data types of the advice: findings, recommended changes, their predicted gains, and the evidence for them."""

from typing import Any, Literal

import msgspec

from diagnose.diagnosis.promise import Change, Judgement, judged
from diagnose.diagnosis.terms import Estimate, FindingClass, Over, RestsOn, Severity, Speedup
from diagnose.facts import Capture, to_do


class FactReport(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: its `value`, or null with the reason in `because` and what to capture in `capture_next`.

    Units: share, ns, bytes, count, flag, text, factor, version, flops, flops_per_s, bytes_per_s, samples_per_s,
    flops_per_byte, w. `of` names the denominator of a share.
    """

    name: str
    value: int | float | bool | str | None
    unit: str
    of: str = ""
    because: str = ""
    capture_next: str = ""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that a finding rests on. `of` names the denominator of a share."""

    fact: str
    value: int | float | bool | str
    unit: str
    of: str = ""


class CodePlace(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the user's code, and the function that it is in, "<module>" outside of any."""

    file: str
    line: int
    function: str


class CodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A function of the user's code that causes a fault, with the line in it that takes most of that time.

    `share` is its time, including its callees, as a part of the total that `of` names. For a late rank it is the time
    spent there beyond the median of the other ranks. `most_in` is the user's function that accounts for more than half
    of that time, null if that is the function itself. `calls` is the deepest function of a library or in C that most
    of what it calls is in, "" if there is none, and `calls_share` its time.
    """

    file: str
    line: int
    function: str
    share: float
    of: str
    most_in: CodePlace | None = None
    calls: str = ""
    calls_share: float = 0.0


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A concrete change: `set` holds the values for `target`, in the words of what runs the training loop.

    Targets are environment, training_arguments and model_kwargs (of transformers' TrainingArguments and
    from_pretrained), dataloader, ddp and optimizer (of torch), what other training frameworks take settings with, such
    as accelerator or ds_config (keys of a JSON file, joined by points), and code, whose values are lines to type.
    `install` are commands that bring what the change needs and is not known to be there. `by_run` is what `diagnose run
    --apply` sets in the place of lines to type, by target and key; empty if no run can. `typed_because` says why a
    run of this job would refuse the change, which can be typed; empty if none would. `typed` are the lines to type in
    the words of the job's own script where its text is known: its options, or the calls that it makes, with their
    places; empty if the usual lines hold.
    """

    target: str
    set: dict[str, Any]
    install: tuple[str, ...] = ()
    by_run: dict[str, dict[str, Any]] = {}
    typed_because: str = ""
    typed: tuple[str, ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One rule that fired. `predicted_speedup` is [low, high] of the whole step's speed, for this change alone.

    Low is the prediction to rely on: the worst case; below 1 if
    the worst case is a slower step. High is the best case, null if only the worst is known or what then remains of the
    step is too little to be distinguished from nothing. The whole range is null if nothing is predicted.
    `likely_speedup` is where in such ranges real changes came to lie; null without a range that has two ends, and of a
    bound. `usual_speedup` is where eight in ten of them came to lie, as reports show it; null, too, where the
    change may gain nothing. `title` is the fault in a sentence without numbers. `assumes` names the assumptions behind
    the range or, without a range, the reason why there is none; "" if there is nothing to add. [1, high] without an
    assumption is a bound: what the step gains if the fault goes at no cost. If the high end rests on more of the step
    than the evidence shows, `assumes` names the whole. `booked_share` is the share of the step that the ledger
    attributes to the work that the change touches; low never exceeds it. `hidden_share` is what the best case saves
    beyond that: work that overlaps with other work and still delays the step. Both are null if nothing is replayed.

    `action` is the change in a few words: the settings of `patch` or, if nothing is set, an imperative of the rule; ""
    if the rule has none. `numerics` marks a change that can change the training's results. `rests_on` is "count" if
    the evidence is counted, and so the same however much steps vary, else "time". `over` is "run" if the gain is of the
    mean step of the run: what the change touches comes in few steps, else "step".

    `where` are the lines of the user's code that account for most of it, at most three. If a capture looked for them
    and found none, `where_because` is the reason and `where_capture_next` what to capture. If no capture looked, all
    are empty.
    """

    rule: str
    class_: FindingClass = msgspec.field(name="class")
    severity: Severity
    says: str
    do: str
    evidence: tuple[Evidence, ...]
    predicted_speedup: Speedup | None
    patch: Patch | None
    title: str = ""
    likely_speedup: float | None = None
    usual_speedup: Speedup | None = None
    action: str = ""
    assumes: str = ""
    booked_share: float | None = None
    hidden_share: float | None = None
    numerics: bool = False
    rests_on: RestsOn = "time"
    over: Over = "step"
    where: tuple[CodeLine, ...] = ()
    where_because: str = ""
    where_capture_next: str = ""


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the ordered plan, each chosen with those before it in place.

    `predicted_speedup` is its own gain then, `likely_speedup` and `usual_speedup` the likely value and the usual range
    in it, and `cumulative_speedup` the gain of the plan so far, replayed as one change; null if a part of it is not
    replayed. `together` is where that gain falls, [low, likely, high], since the best cases of several changes hardly
    come true at once. `effort` is "setting", "code" or "cluster"; `numerics` marks a change that can change the
    training's results. `below_noise`: even the best case gains less than the mean step is known to (the fact
    `mean_step_noise_share`), so that no short run would show it. `unmeasurable`: the same of a change whose evidence is
    counted, which noise does not make doubtful, or that saves time over the run.
    """

    rule: str
    patch: Patch | None
    predicted_speedup: Speedup | None
    likely_speedup: float | None = None
    usual_speedup: Speedup | None = None
    cumulative_speedup: Speedup | None = None
    together: Estimate | None = None
    effort: str = "setting"
    numerics: bool = False
    below_noise: bool = False
    unmeasurable: bool = False


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The next thing to do, and why it comes first.

    `of_another_class` is the sentence on why the change is not of the class that bounds the step, "" if it is.

    `kind` is "change", "capture" (the capture is at fault, and `do` is the remedy), "nothing", or "unknown" if that was
    not judged. `rule` names the finding, whose `says`, `where`, `action`, `do`, `patch`, `predicted_speedup`,
    `likely_speedup` and `usual_speedup` are repeated here; without one `rule` is empty and `says` is the whole answer.
    `worth_doing` are the rules of the plan that gain more than the noise of the steps, in its order.
    """

    kind: Literal["change", "capture", "nothing", "unknown"]
    says: str
    because: str = ""
    of_another_class: str = ""
    rule: str = ""
    severity: Severity | None = None
    action: str = ""
    do: str = ""
    patch: Patch | None = None
    predicted_speedup: Speedup | None = None
    likely_speedup: float | None = None
    usual_speedup: Speedup | None = None
    where: tuple[CodeLine, ...] = ()
    worth_doing: tuple[str, ...] = ()


NOT_RECOMMENDED = Recommendation(kind="unknown", says="what to do next was not judged")


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """The error of the replay of the unchanged step; predictions are withheld unless it is `valid`.

    `strict_error` is null if there was no step to replay.
    """

    measured_ns: float
    strict_error: float | None
    valid: bool
    because: str


class NotAdvised(msgspec.Struct, frozen=True, kw_only=True):
    """A change that would not help here, and the number that shows it; `class` is what it would shorten."""

    what: str
    because: str
    class_: FindingClass = msgspec.field(name="class", default="validity")


class NotJudged(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that could not be judged, and what to capture to judge it: all of `captures`.

    `capture_next` is the same as a sentence. If a capture's `kind` is "nothing", no capture helps. `title` is the fault
    that the rule looks for, in a sentence, and `class` what it costs; "" and "validity" of what is no rule. `of_gpu` is
    whether the trace would have to show a GPU: of a job that uses none, the rule is not asked.
    """

    rule: str
    because: str
    capture_next: str
    captures: tuple[Capture, ...] = ()
    title: str = ""
    class_: FindingClass = msgspec.field(name="class", default="validity")
    of_gpu: bool = False

    @classmethod
    def lacking(cls, rule: str, because: str, *captures: Capture | None) -> "NotJudged":
        """The rule that lacks what the captures would show."""
        wanted = tuple(capture for capture in captures if capture is not None)
        return cls(rule=rule, because=because, capture_next=to_do(wanted), captures=wanted)


class NotApplied(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a patch that is not in use in the run."""

    key: str
    because: str


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of `diagnose run --apply`: the parts of the patch in use, the predicted and the measured speedup.

    Speedups are of the whole step, or per sample if the patch changes the samples of a step. `before_ns` and `after_ns`
    are median step times, and `step` is the kind of step: "step without the profiler", "device step" or "host step". Of
    a change over the run they are means, of the "mean step of the run".
    Unknown values are null, and `because` is the reason. `noise_share` is the spread of this run's step times over
    their median. `measured` is the speedup with a 99 % interval; `evidence` are the facts that the rule fired on and
    `confounders` those of the machine, as far as both runs know them.
    """

    patches: tuple[Patch, ...]
    refused: tuple[NotApplied, ...] = ()
    rule: str = ""
    predicted_speedup: Speedup | None = None
    measured_speedup: float | None = None
    before_ns: float | None = None
    after_ns: float | None = None
    step: str = ""
    noise_share: float | None = None
    because: str = ""
    measured: Estimate | None = None
    evidence: tuple[Change, ...] = ()
    confounders: tuple[Change, ...] = ()

    @property
    def judgement(self) -> Judgement | None:
        """The standing of the prediction; None if it or the measurement is unknown, or only a part is in use."""
        return self.judged_by(self.measured)

    def judged_by(self, measured: Estimate | None) -> Judgement | None:
        """The standing of the prediction by such a measurement; None if one is unknown, or only a part is in use."""
        if measured is None or self.predicted_speedup is None or self.refused:
            return None
        return judged(measured, self.predicted_speedup, self.evidence, self.confounders)
