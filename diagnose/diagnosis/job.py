"""The ranks of the job, its history, and the files that were read."""

import msgspec

from diagnose.diagnosis.ledger import LedgerEntry, Verdict


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """When the counted steps began, in UTC to the second, and the job's number in Slurm; "" where nothing says it."""

    began: str = ""
    slurm_job: str = ""


class RankReport(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict and ledger of one rank over its counted steps; `host` is "" when nothing says it.

    `clock_held_by` is what held the clock of its GPU down while it worked ("heat", "its power limit", ...), empty where
    nothing did; null where no reading tells.
    """

    rank: int
    device: str
    host: str = ""
    clock_held_by: tuple[str, ...] | None = None
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
    `skipped` are pipes, sockets and devices beside them. `unreadable` are files named like the others that hold no
    trace. `shapes_of` are the execution traces that shapes were taken from.
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
