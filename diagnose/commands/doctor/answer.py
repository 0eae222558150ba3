"""The answer of `diagnose doctor`."""

from dataclasses import dataclass
from typing import Literal

from diagnose.diagnosis.answer import Answer
from diagnose.hardware.measured import MeasuredMachine


@dataclass(frozen=True)
class Check:
    """One line of the doctor.

    Attributes:
        name: the subject of the check.
        state: ok, warn (a capture loses something), or unknown (it could not be looked at).
        says: the result, and what to do about it.
    """

    name: str
    state: Literal["ok", "warn", "unknown"]
    says: str


class Checked(Answer, frozen=True, kw_only=True):
    """The checks of what a capture can see on this machine, in the order in which they were made.

    With `--measure` there are none, and `measured` has what the machine reaches.
    """

    schema_version: int = 1
    checks: tuple[Check, ...]
    measured: MeasuredMachine | None = None
