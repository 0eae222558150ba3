"""Track record of each rule's kept predictions, and the part of it that a diagnosis quotes."""

from collections.abc import Iterable

from msgspec.structs import replace

from diagnose.commands.ledger.answer import LedgerReport
from diagnose.commands.ledger.lines import RecordedPredictions
from diagnose.commands.ledger.prediction import Prediction
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.track_record import TrackRecord

QUOTED_FROM = 5  # predictions of a rule; fewer show little


def report_of(recorded: RecordedPredictions, off_because: str) -> LedgerReport:
    """The report of each rule, and of all together."""
    return LedgerReport(
        rules=track_records(recorded.predictions),
        all_rules=_track_record("", recorded.predictions) if recorded.predictions else None,
        unreadable_lines=recorded.unreadable,
        off_because=off_because,
    )


def track_records(predictions: Iterable[Prediction]) -> tuple[TrackRecord, ...]:
    """One for each rule, those with the most predictions first; a prediction of several rules counts for each."""
    by_rule: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        for rule in prediction.rules:
            by_rule.setdefault(rule, []).append(prediction)
    records = [_track_record(rule, own) for rule, own in by_rule.items()]
    return tuple(sorted(records, key=lambda record: (-record.promises, record.rule)))


def quoting(diagnosis: Diagnosis, predictions: Iterable[Prediction]) -> Diagnosis:
    """The diagnosis with the track records of its findings' rules that have enough predictions behind them."""
    found = {finding.rule for finding in diagnosis.findings}
    records = track_records(predictions)
    told = tuple(record for record in records if record.rule in found and record.promises >= QUOTED_FROM)
    return replace(diagnosis, track_records=told)


def _track_record(rule: str, predictions: Iterable[Prediction]) -> TrackRecord:
    from statistics import median  # few users have a track record

    own = list(predictions)
    return TrackRecord(
        rule=rule,
        promises=len(own),
        inside=sum(prediction.inside for prediction in own),
        achieved_of_predicted=median(prediction.of_predicted for prediction in own),
        newest=max(prediction.date for prediction in own),
    )
