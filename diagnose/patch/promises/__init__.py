"""The ledger of promises: what was predicted of a change beside what it achieved, kept on this machine.

A command that has measured a change says `record(promise_of_patch(diagnosis))`, or `record(promise_of(...))` where the
prediction and the measurement are its own; one that shows a diagnosis says `quoting(diagnosis, kept().promises)`.
Nothing here is sent anywhere, and nothing that fails here fails a command.
"""

import msgspec

from diagnose.patch.promises import file
from diagnose.patch.promises.lines import Ledger
from diagnose.patch.promises.promise import Achieved, Predicted, Promise, Source, promise_of, promise_of_patch
from diagnose.patch.promises.switch import why_off
from diagnose.patch.promises.tally import quoting

__all__ = [
    "Achieved",
    "Ledger",
    "Predicted",
    "Promise",
    "Recorded",
    "Source",
    "kept",
    "promise_of",
    "promise_of_patch",
    "quoting",
    "record",
    "why_off",
]


class Recorded(msgspec.Struct, frozen=True):
    """Whether a promise is kept by this call; `because` says why not, and `failed` whether it should have been."""

    done: bool
    because: str = ""
    failed: bool = False


def record(promise: Promise | None) -> Recorded:
    """Append a promise to the user's ledger. Raises nothing."""
    if promise is None:
        return Recorded(False, "no promise was put to the test")
    if because := why_off():
        return Recorded(False, because)
    try:
        return Recorded(True) if file.append(file.default_folder(), promise) else Recorded(False, "it is kept already")
    except OSError as error:
        return Recorded(False, error.strerror or type(error).__name__, failed=True)


def kept() -> Ledger:
    """What is kept, for who quotes it: nothing where the ledger is off or cannot be read. Raises nothing."""
    if why_off():
        return Ledger()
    try:
        return file.read(file.default_folder())
    except OSError:
        return Ledger()
