"""The ladder that `diagnose tune` climbs: every run of a job with one more change, and its result."""

from typing import Any, Literal

import msgspec

from diagnose.diagnosis.advice import CodeLine, Patch
from diagnose.diagnosis.answer import Answer
from diagnose.diagnosis.promise import Judgement
from diagnose.diagnosis.terms import Estimate, Speedup

Settings = dict[str, dict[str, Any]]
Outcome = Literal["ok", "oom", "failed"]
DONE = "nothing is left to try"  # why a tune ended that went through all changes
Decision = Literal["first", "kept", "rolled back", "refused", "unclear", "again", "held", "not held"]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The settings and the speed of a run, in the columns of a ladder; null is not known.

    `gpus` counts GPUs, 0 of a job without one. `memory_gb` is the peak that the allocator reserved, in 1e9 bytes.
    `samples_per_s` is of the whole job.
    """

    model: str | None = None
    gpus: int | None = None
    micro_batch: int | None = None
    accumulation_steps: int | None = None
    seq_len: int | None = None
    model_precision: str | None = None
    mixed_precision: str | None = None
    attention: str | None = None
    liger: bool | None = None
    tokens_per_s_per_gpu: float | None = None
    memory_gb: float | None = None
    samples_per_s: float | None = None
    step_ms: float | None = None


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        number: from 0, which is the job as it is.
        rule: the one whose change is new in it; "" of the first run.
        change: that change in a few words.
        outcome: how the run ended: "ok" if it was measured.
        decision: the judgement; "refused" if nothing of the change came into use, "unclear" if noise hides its gain and
            it is made again, "again" for a run that another is compared with once more, and "held" or "not held" for
            the best run compared with the first, at the end.
        because: the reason of that in a clause.
        patch: the change in the user's own terms.
        own: settings that the run made for it, by target and key.
        settings: all that the run set, the changes kept before it included, and without what the job refused.
        predicted: [low, high] of the step's speed, by the change.
        achieved: [low, mid, high] of it, against the best run before; null if unknown. Of a change that was made again,
            by both pairs of runs; of the best run at the end, against the first made next to it.
        total: the same against the first run; at the end by all pairs of runs.
        measured: null if the run was not measured.
        seconds: that the run took, its analysis included.
        bundle: name of the folder of its capture, and
        diagnosis: of the file with its diagnosis, "" if there is none.
        repeats: number of the run that it makes again; null of all others.
        judgement: of the prediction by `achieved`; null if one of them is unknown.
    """

    number: int
    rule: str = ""
    change: str
    outcome: Outcome
    decision: Decision
    because: str = ""
    patch: Patch | None = None
    own: Settings = {}
    settings: Settings = {}
    predicted: Speedup | None = None
    achieved: Estimate | None = None
    total: Estimate | None = None
    measured: Measured | None = None
    seconds: float = 0.0
    bundle: str = ""
    diagnosis: str = ""
    repeats: int | None = None
    judgement: Judgement | None = None

    @property
    def stands(self) -> bool:
        """Whether later runs keep the settings of this one."""
        return self.decision in ("first", "kept")


class LeftToUser(msgspec.Struct, frozen=True, kw_only=True):
    """A planned change that no run tried, why, and what to do.

    `likely` is the likely value within `predicted`. `where` are the lines of the user's code that it concerns, as far
    as the first run saw them.
    """

    rule: str
    change: str
    because: str
    do: str = ""
    predicted: Speedup | None = None
    likely: float | None = None
    where: tuple[CodeLine, ...] = ()


class Tuning(Answer, frozen=True, kw_only=True):
    """All runs of one job so far. `why_ended` is "" while more is to be tried.

    `patch` are the kept changes, each line as it is typed; `left` are those that the user may make.
    """

    indented = 1
    on_one_line = None
    schema_version: int = 1
    command: tuple[str, ...]
    rungs: tuple[Rung, ...] = ()
    patch: tuple[str, ...] = ()
    left: tuple[LeftToUser, ...] = ()
    why_ended: str = ""

    @property
    def best(self) -> Rung | None:
        """The last run that stands; the first run if that one did not hold at the end, None before the first."""
        standing = next((rung for rung in reversed(self.rungs) if rung.stands), None)
        if standing is None or self.repeat_of(standing, "not held") is None:
            return standing
        return self.rungs[0]

    def repeat_of(self, rung: Rung, decision: Decision = "held") -> Rung | None:
        """The run that repeated this one, with that decision."""
        return next((each for each in self.rungs if each.repeats == rung.number and each.decision == decision), None)
