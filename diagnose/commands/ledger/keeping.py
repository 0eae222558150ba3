"""Keep promises in the user's ledger, and read them back for quoting."""

import msgspec

from diagnose.commands.ledger import file
from diagnose.commands.ledger.lines import Ledger
from diagnose.commands.ledger.promise import Promise
from diagnose.commands.ledger.switch import why_off


class Recorded(msgspec.Struct, frozen=True):
    """Whether this call kept the promise; `because` is why not, and `failed` whether it should have."""

    done: bool
    because: str = ""
    failed: bool = False


def record(promise: Promise | None) -> Recorded:
    """Append a promise to the user's ledger, without ever raising."""
    if promise is None:
        return Recorded(False, "no promise was put to the test")
    if because := why_off():
        return Recorded(False, because)
    try:
        return Recorded(True) if file.append(file.default_folder(), promise) else Recorded(False, "it is kept already")
    except OSError as error:
        return Recorded(False, error.strerror or type(error).__name__, failed=True)


def kept() -> Ledger:
    """The kept promises, for quoting: empty if the ledger is off or cannot be read. It raises nothing."""
    if why_off():
        return Ledger()
    try:
        return file.read(file.default_folder())
    except OSError:
        return Ledger()
