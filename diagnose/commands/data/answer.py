"""The answer of `diagnose data`: each stage of a job's input. Frozen; the reports are pure functions of it."""

from typing import Literal

import msgspec

from diagnose.diagnosis.answer import Answer
from diagnose.diagnosis.terms import Estimate

StageName = Literal[
    "storage, cold", "storage, warm", "dataset", "collate", "hand-over", "pinning", "copy to the device"
]
Bound = Literal["cpu", "core", "io", "both", "gil", ""]
LockHeld = Literal["held", "partly", "free", "unknown"]
PaddingKind = Literal["static", "dynamic", "none", "unknown"]
PaddingPlace = Literal["dataset", "collate function", ""]


class FunctionShare(msgspec.Struct, frozen=True, kw_only=True):
    """A function of the user's: the line that takes most time, the call in it, and its share of the stage's samples."""

    file: str
    line: int
    function: str
    calls: str | None
    share: float


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of the pipeline; null is not known, and `because` gives the reason, `capture` what would show it.

    `samples_per_s` and `bytes_per_s` are of one process (of the hand-over: of all workers), `spread` the relative
    standard error. `processes` of the job do the stage at once, which gives `in_job_samples_per_s`. `busy_share` is the
    share of the time in which it computes or is ready to. `work` is what takes most of that time.
    """

    name: StageName
    work: str = ""
    samples_per_s: float | None = None
    spread: float | None = None
    bytes_per_s: float | None = None
    processes: int = 1
    in_job_samples_per_s: float | None = None
    busy_share: float | None = None
    bound: Bound = ""
    functions: tuple[FunctionShare, ...] = ()
    because: str = ""
    capture: str = ""


class LoaderRate(msgspec.Struct, frozen=True, kw_only=True):
    """The whole loader with so many workers, 0 in process; null and `because` if it was not measured."""

    workers: int
    samples_per_s: float | None = None
    first_batch_s: float | None = None
    worker_cpu_share: float | None = None
    because: str = ""


class WorkersNeeded(msgspec.Struct, frozen=True, kw_only=True):
    """The workers that keep up with a step, between perfect sharing and workers that hinder each other.

    `room` is how many the rank's cores feed during training. `feeds` are the steps that other numbers keep up with.
    `because` is why the number is not known, `refused` why this input must not use any workers. `first` says what to do
    about the workers of the job before their number is changed.
    """

    step_ms: float | None = None
    step_from: str = ""
    batches_per_step: int = 1
    least: int | None = None
    most: int | None = None
    room: int | None = None
    feeds: tuple["Feeds", ...] = ()
    because: str = ""
    refused: str = ""
    first: str = ""


class Feeds(msgspec.Struct, frozen=True, kw_only=True):
    """The shortest step that so many workers keep up with, [at best, likely, at worst], in milliseconds."""

    workers: int
    step_ms: Estimate


class PaddingGain(msgspec.Struct, frozen=True, kw_only=True):
    """Factor by which a change reduces the tokens of an epoch, padding included; null if it is not known.

    `refused` is why the change must not be made for this input.
    """

    name: str
    fewer_tokens: Estimate | None = None
    because: str = ""
    refused: str = ""


class Padding(msgspec.Struct, frozen=True, kw_only=True):
    """Padding of the batches, and the changes that would remove it.

    `padded_share` is of the tokens of the batches, `standard_error` its own. "static": rows are padded before they are
    batched, or all batches to one length that no sample needs, at `place`; "dynamic": each batch to its longest sample.
    """

    kind: PaddingKind
    place: PaddingPlace = ""
    samples: int = 0
    batches: int = 0
    mean_tokens: float | None = None
    longest_tokens: int | None = None
    padded_share: float | None = None
    standard_error: float | None = None
    gains: tuple[PaddingGain, ...] = ()
    because: str = ""


class PipelineReport(Answer, frozen=True, kw_only=True):
    """The measurement of `diagnose data`, of one rank. `smallest` names the stage that limits the loader of the job."""

    schema_version: int = 1
    loop: str
    dataset: str
    dataset_samples: int | None
    is_iterable: bool
    batch_size: int
    num_workers: int
    world_size: int
    samples: int
    seconds: float
    stages: tuple[Stage, ...]
    smallest: StageName | None
    smallest_because: str
    lock: LockHeld
    lock_because: str
    queued_share: float
    loader: tuple[LoaderRate, ...]
    workers: WorkersNeeded
    padding: Padding
    notes: tuple[str, ...] = ()
