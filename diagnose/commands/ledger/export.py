"""The predictions as a file to share, which describes its own content."""

import msgspec

from diagnose.commands.ledger.lines import RecordedPredictions
from diagnose.commands.ledger.prediction import Prediction

ABOUT = {
    "format": "version of the record",
    "date": "the day, in UTC, on which the change was measured",
    "rules": "the rules of diagnose whose change it was; rules of your own are named as you named them",
    "predicted": "[low, likely, high] of the whole step's speedup; null is not predicted",
    "achieved": "[low, measured, high] of it; null is not known",
    "inside": "whether the measured speedup fell in the predicted range",
    "hardware": "model of the GPU or the CPU",
    "ranks": "processes of the job",
    "versions": "of torch, transformers and diagnose, without local labels",
    "source": "the command that measured it",
    "key": "a hash of step times that tells runs apart",
}


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a shared file: no path, host, user, script or network, and no time of day."""

    schema_version: int = 1
    about: dict[str, str]
    promises: tuple[Prediction, ...]


def exported(recorded: RecordedPredictions) -> str:
    """The document, as indented JSON."""
    document = Exported(about=ABOUT, promises=recorded.predictions)
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
