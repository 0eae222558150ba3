"""The user's functions in which the time of a rank goes."""

from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Share

Doing = Literal["collecting", "loading", "backward", "forward", "optimizer", "loop", "step"]


class UserFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function of the user's code, and the line of it that most of its time goes to.

    `share` is the time at its own lines, with what they call in libraries and in C; `total_share` adds what it calls of
    the user's own. `doing` is what most of that is for: "collecting" is Python's garbage collector, "loop" the loop of
    a training library and torch's own code around the model, "step" all that is none of the others. `calls` is the
    deepest function of a library or in C that most of what its own lines call is in, "" if there is none, and
    `calls_share` its time; what a library's training loop calls counts there in its place.
    """

    file: str
    line: int
    function: str
    share: Share
    total_share: Share
    doing: Doing
    calls: str = ""
    calls_share: Share = 0.0


class UserCode(msgspec.Struct, frozen=True, kw_only=True):
    """Functions in which a typical rank spends its Python time, longest first, with their `share` of the total that
    `of` names.

    Attributes:
        functions: at most a hundred; empty if the lines are unknown, for the reason in `because`.
        of: the total that shares refer to: samples of the stack, or time of the recorded calls.
        other_share: the rest of that total: functions that are not listed, and code that is not the user's.
        cost_share: the share of the sampled steps that sampling itself took; null if nothing was sampled.
        because: why the lines are unknown, "" if they are known.
        capture_next: what to capture to make them known.
    """

    functions: tuple[UserFunction, ...] = ()
    of: str = ""
    other_share: float | None = None
    cost_share: float | None = None
    because: str = ""
    capture_next: str = ""
