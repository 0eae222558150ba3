"""Track record of each rule's kept promises, and the part of it that a diagnosis quotes."""

from collections.abc import Iterable

from msgspec.structs import replace

from diagnose.commands.ledger.answer import LedgerReport
from diagnose.commands.ledger.lines import Ledger
from diagnose.commands.ledger.promise import Promise
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.track_record import TrackRecord

QUOTED_FROM = 5  # promises of a rule; fewer show little


def report_of(ledger: Ledger, off_because: str) -> LedgerReport:
    """The report of each rule, and of all together."""
    return LedgerReport(
        rules=track_records(ledger.promises),
        all_rules=_track_record("", ledger.promises) if ledger.promises else None,
        unreadable_lines=ledger.unreadable,
        off_because=off_because,
    )


def track_records(promises: Iterable[Promise]) -> tuple[TrackRecord, ...]:
    """One for each rule, those with the most promises first; a promise of several rules counts for each."""
    by_rule: dict[str, list[Promise]] = {}
    for promise in promises:
        for rule in promise.rules:
            by_rule.setdefault(rule, []).append(promise)
    records = [_track_record(rule, own) for rule, own in by_rule.items()]
    return tuple(sorted(records, key=lambda record: (-record.promises, record.rule)))


def quoting(diagnosis: Diagnosis, promises: Iterable[Promise]) -> Diagnosis:
    """The diagnosis with the track records of its findings' rules that have enough promises behind them."""
    found = {finding.rule for finding in diagnosis.findings}
    records = track_records(promises)
    told = tuple(record for record in records if record.rule in found and record.promises >= QUOTED_FROM)
    return replace(diagnosis, track_records=told)


def _track_record(rule: str, promises: Iterable[Promise]) -> TrackRecord:
    from statistics import median  # few users have a ledger

    own = list(promises)
    return TrackRecord(
        rule=rule,
        promises=len(own),
        inside=sum(promise.inside for promise in own),
        achieved_of_predicted=median(promise.of_predicted for promise in own),
        newest=max(promise.date for promise in own),
    )
