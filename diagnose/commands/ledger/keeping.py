"""Keep predictions in the user's track record, and read them back for quoting."""

import msgspec

from diagnose.cli.users_data import default_folder, why_off
from diagnose.commands.ledger import file
from diagnose.commands.ledger.lines import RecordedPredictions
from diagnose.commands.ledger.prediction import Prediction


class RecordOutcome(msgspec.Struct, frozen=True):
    """Whether this call kept the prediction; `because` is why not, and `failed` whether it should have."""

    done: bool
    because: str = ""
    failed: bool = False


def record(prediction: Prediction | None) -> RecordOutcome:
    """Append a prediction to the user's track record, without ever raising."""
    if prediction is None:
        return RecordOutcome(False, "no promise was put to the test")
    if because := why_off():
        return RecordOutcome(False, because)
    try:
        return (
            RecordOutcome(True)
            if file.append(default_folder(), prediction)
            else RecordOutcome(False, "it is kept already")
        )
    except OSError as error:
        return RecordOutcome(False, error.strerror or type(error).__name__, failed=True)


def recorded_predictions() -> RecordedPredictions:
    """The kept predictions, for quoting: empty if the track record is off or cannot be read. It raises nothing."""
    if why_off():
        return RecordedPredictions()
    try:
        return file.read(default_folder())
    except OSError:
        return RecordedPredictions()
