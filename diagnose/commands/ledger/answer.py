"""The answer of `diagnose ledger`."""

from diagnose.diagnosis.answer import Answer
from diagnose.diagnosis.track_record import TrackRecord


class LedgerReport(Answer, frozen=True, kw_only=True):
    """The content of `diagnose ledger`.

    `rules` are those with a promise, the most first; `all_rules` counts every promise once, null if there is none.
    `unreadable_lines` are left out. `off_because` is why runs append nothing, "" if they do.
    """

    schema_version: int = 1
    rules: tuple[TrackRecord, ...] = ()
    all_rules: TrackRecord | None = None
    unreadable_lines: int = 0
    off_because: str = ""
