"""Predictions as lines of JSON. The content of a file is checked like any outside data: damaged lines are counted."""

import datetime
from collections.abc import Mapping
from typing import Any

import msgspec

from diagnose.commands.ledger.prediction import (
    FORMAT,
    LONGEST_NAME,
    MOST_FACTOR,
    MOST_RULES,
    PACKAGES,
    RULE,
    SOURCES,
    VERSION,
    Prediction,
    fell_inside,
)
from diagnose.decoding import (
    MOST_RANKS,
    UNREADABLE,
    Kind,
    OnLeftOut,
    all_of,
    in_order,
    number,
    table,
    text,
    unreported,
    whole,
)
from diagnose.errors import printable

LONGEST_LINE = 4096
BEGINNING = b'{"format":'
_SMALLEST_FACTOR = 1e-9
_KEY_CHARACTERS = "0123456789abcdef"


class RecordedPredictions(msgspec.Struct, frozen=True):
    """The predictions of a file in its order, each once, and how many of its lines cannot be read."""

    predictions: tuple[Prediction, ...] = ()
    unreadable: int = 0


def line_of(prediction: Prediction) -> bytes:
    """The prediction as it is stored, with its end of line."""
    return msgspec.json.encode(prediction) + b"\n"


def predictions_of(content: bytes) -> RecordedPredictions:
    """The predictions that can be read from a file's content, and the number of unreadable lines."""
    lines = [line for line in content.split(b"\n") if line.strip()]
    found = [prediction for line in lines if (prediction := prediction_in(line)) is not None]
    return RecordedPredictions(
        tuple({prediction.key: prediction for prediction in found}.values()), len(lines) - len(found)
    )


def prediction_in(line: bytes) -> Prediction | None:
    """The prediction of a line; None if it holds none, or one of another format."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        known = _FIELDS(msgspec.json.decode(line), "", unreported)
    except UNREADABLE:
        return None
    if not isinstance(known, Mapping) or any(known.get(name) is None for name in _NEEDED):
        return None
    return _prediction(known)


def _prediction(known: Mapping[str, Any]) -> Prediction | None:
    """The prediction with these checked fields; None if the fields contradict each other."""
    predicted, achieved = tuple(known["predicted"]), tuple(known["achieved"])
    if len(predicted) != 3 or len(achieved) != 3 or predicted[0] is None or achieved[1] is None:
        return None
    if predicted[2] is not None and predicted[2] < predicted[0]:
        return None
    return Prediction(
        date=known["date"],
        rules=tuple(known["rules"]),
        predicted=predicted,
        achieved=achieved,
        inside=fell_inside(predicted, achieved),
        hardware=printable(known.get("hardware") or "")[:LONGEST_NAME],
        ranks=known["ranks"],
        versions={name: version for name, version in (known.get("versions") or {}).items() if name in _VERSIONS},
        source=known["source"],
        key=known["key"],
    )


def _text(fits: Any) -> Kind:
    """A kind for `decoding`: the text if `fits` accepts it, else None."""

    def decoded(value: Any, path: str, told: OnLeftOut) -> Any:
        known = text(value, path, told)
        return known if known is not None and fits(known) else None

    return decoded


def _is_date(value: str) -> bool:
    try:
        return datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_key(value: str) -> bool:
    return len(value) == 24 and set(value) <= set(_KEY_CHARACTERS)


_VERSIONS = (*PACKAGES, "diagnose")
_FACTOR = number(_SMALLEST_FACTOR, MOST_FACTOR)
_FIELDS = table(
    {
        "format": whole(FORMAT, FORMAT),
        "date": _text(_is_date),
        "rules": all_of(_text(RULE.fullmatch), least=1, most=MOST_RULES),
        "predicted": in_order(_FACTOR),
        "achieved": in_order(_FACTOR),
        "hardware": text,
        "ranks": whole(1, MOST_RANKS),
        "versions": table(dict.fromkeys(_VERSIONS, _text(VERSION.fullmatch))),
        "source": _text(SOURCES.__contains__),
        "key": _text(_is_key),
    }
)
_NEEDED = ("format", "date", "rules", "predicted", "achieved", "ranks", "source", "key")
