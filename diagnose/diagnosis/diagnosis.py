"""The whole record, its JSON and its schema."""

import msgspec

from diagnose.diagnosis.advice import (
    NOT_RECOMMENDED,
    Applied,
    FactReport,
    Finding,
    NotAdvised,
    NotJudged,
    PlanStep,
    Recommendation,
    ReplayReport,
)
from diagnose.diagnosis.answer import COUNTS, Answer
from diagnose.diagnosis.breakdown import LedgerEntry, Mfu, Steps, Verdict, WaterfallPart
from diagnose.diagnosis.capacity import NO_CAPACITY, Capacity
from diagnose.diagnosis.cost import Cost
from diagnose.diagnosis.goodput import Goodput
from diagnose.diagnosis.job import HistoryChange, Origin, RankReport, TraceSummary, WindowReport
from diagnose.diagnosis.kernels import KernelRow, OperatorRow, RooflineEntry, Roofs
from diagnose.diagnosis.memory_over_time import MemoryOverTime
from diagnose.diagnosis.period import Period
from diagnose.diagnosis.postmortem import Postmortem, Straggler
from diagnose.diagnosis.ranges import RangeRow
from diagnose.diagnosis.speed import Speed
from diagnose.diagnosis.step_times import LaterStall, StepTimes
from diagnose.diagnosis.timeline import JobTimeline, SlowStep, StepTimeline
from diagnose.diagnosis.track_record import TrackRecord
from diagnose.diagnosis.user_code import UserCode


class Diagnosis(Answer, frozen=True, kw_only=True):
    """Everything that any report shows. Serialise with `to_json`.

    `cost` is null if neither a price nor a power is known. `host_operators` are those of a job without a GPU.
    `user_code` is null if nothing looked for its lines. `trains` is whether a backward pass or an optimizer was seen,
    null if the trace cannot show one. `cpu_only` is whether the job uses no GPU, so that questions about one do not
    arise. `speed` is the job's without the profiler. `origin` is the start time of the counted steps and the job's
    Slurm number. `windows` are those that the processes of the run wrote one after the other, in order of time; empty
    if there is one. `setup` are the settings of the job that its capture recorded, by their path in the record.
    `command` are the words that `diagnose run` was given to run, as typed, with "[left out]" where a secret stood;
    empty if not known. `track_records` come from the user's own record of predictions and are added by whatever shows
    the diagnosis; an analysis has none. If `rank` is set, everything except `ranks`, `stragglers`, `postmortem` and
    `trace` is about that rank alone; null is the whole job.
    """

    on_one_line = COUNTS
    schema_version: int = 5
    verdict: Verdict
    next: Recommendation = NOT_RECOMMENDED
    steps: Steps
    speed: Speed = Speed()
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
    origin: Origin = Origin()
    trains: bool | None = None
    cpu_only: bool = False
    history: tuple[HistoryChange, ...] = ()
    windows: tuple[WindowReport, ...] = ()
    applied: Applied | None = None
    track_records: tuple[TrackRecord, ...] = ()
    capacity: Capacity = NO_CAPACITY
    cost: Cost | None = None
    slow_steps: tuple[SlowStep, ...] = ()
    step_times: StepTimes | None = None
    later_stalls: tuple[LaterStall, ...] = ()
    memory_over_time: MemoryOverTime | None = None
    goodput: Goodput | None = None
    period: Period | None = None
    timeline: StepTimeline | None = None
    job_timeline: JobTimeline | None = None
    kernels: tuple[KernelRow, ...] = ()
    host_operators: tuple[OperatorRow, ...] = ()
    ranges: tuple[RangeRow, ...] = ()
    user_code: UserCode | None = None
    roofs: Roofs | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    setup: dict[str, float | bool | str] = msgspec.field(default_factory=dict)
    command: tuple[str, ...] = ()
    facts: tuple[FactReport, ...] = ()

    @property
    def open_questions(self) -> tuple[NotJudged, ...]:
        """The rules that are asked of such a job and could not be judged: of one that uses no GPU none about it."""
        return tuple(item for item in self.not_judged if item.title and not (self.cpu_only and item.of_gpu))

    @property
    def unasked(self) -> int:
        """How many rules are not asked, since the job uses no GPU."""
        return sum(self.cpu_only and item.of_gpu for item in self.not_judged)

    def fact(self, name: str) -> float | bool | str | None:
        """The value of the fact; None if it is unknown, or not among the facts."""
        return next((fact.value for fact in self.facts if fact.name == name), None)

    def finding(self, rule: str) -> Finding | None:
        """The finding of the rule; None if it did not fire."""
        return next((finding for finding in self.findings if finding.rule == rule), None)
