"""The ranks of the job, its history, and the files that were read."""

from typing import Literal

import msgspec

from diagnose.diagnosis.breakdown import LedgerEntry, Verdict
from diagnose.diagnosis.terms import CauseClass


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The start of the counted steps, in UTC to the second, and the job's number in Slurm; "" if not recorded."""

    began: str = ""
    slurm_job: str = ""


class RankReport(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict and ledger of one rank over its counted steps; `host` is "" if not recorded.

    `clock_held_by` are the causes that limited the clock of its GPU while it worked ("heat", "its power limit", ...),
    empty if there were none; null if not read.
    """

    rank: int
    device: str
    host: str = ""
    clock_held_by: tuple[str, ...] | None = None
    steps: int = 0
    verdict: Verdict
    ledger: tuple[LedgerEntry, ...]


class HistoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A lasting change of the run's step time, found in the step times recorded next to the traces.

    `change_share` is of the median step time before; positive is slower. `diagnose series` shows all changes.
    """

    since_step: int
    until_step: int
    change_share: float
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    says: str


class WindowReport(msgspec.Struct, frozen=True, kw_only=True):
    """One of several windows of a run, as its first rank (or the chosen one) went through it.

    `name` is what `--run` takes. `is_cut`: a rank has not written it, or the training ended in it. `process` are the
    number and host of the processes that wrote it, `began` is its begin in UTC; both are "" if they are unknown.
    `step_ns` is the mean over the counted steps of `rank`, and `class_ns` what of it each class of causes takes;
    `step_ns` is null if the window was not read, and `because` says why.

    `holds` is what a second window of `diagnose run` was opened for: a "slow step" that comes again and again, or
    "stacks"; "" for the others.
    """

    name: str
    is_reported: bool
    is_cut: bool = False
    holds: Literal["", "slow step", "stacks"] = ""
    process: str = ""
    began: str = ""
    files: tuple[str, ...] = ()
    rank: int = 0
    numbers: tuple[int, ...] = ()
    steps: int = 0
    step_ns: float | None = None
    class_ns: dict[CauseClass, float] = msgspec.field(default_factory=dict)
    because: str = ""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the files that could not be used."""

    events: int
    bytes: int
    truncated: bool
    kinds: tuple[str, ...]


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The input: files, events read, bytes of JSON, and the loss.

    `missing_ranks` are ranks of the job without a trace. `left_out` is the number of Python function events dropped to
    save memory. `copies` are files with the same content as one of `files`. `skipped` are pipes, sockets and devices in
    the same folder. `unreadable` are files named like the others that hold no trace. `shapes_of` are the execution
    traces that shapes were taken from. `processes` are those that the ranks of an export of Nsight Systems are.
    """

    files: tuple[str, ...]
    events: int
    bytes: int
    loss: Loss
    missing_ranks: tuple[int, ...] = ()
    left_out: int = 0
    copies: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    shapes_of: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
