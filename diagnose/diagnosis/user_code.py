"""The user's functions in which the time of a rank goes."""

from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Share

Doing = Literal["collecting", "loading", "backward", "forward", "optimizer", "step"]


class UserFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function of the user's code, and the line of it that most of its time goes to.

    `share` is the time at its own lines, with what they call in libraries and in C; `total_share` adds what it calls of
    the user's own. `doing` is what most of that is for: "collecting" is Python's garbage collector, "step" all that is
    none of the others.
    """

    file: str
    line: int
    function: str
    share: Share
    total_share: Share
    doing: Doing


class UserCode(msgspec.Struct, frozen=True, kw_only=True):
    """Where Python is, on a typical rank: the functions with most time first, their `share` in parts of what `of` says.

    Attributes:
        functions: at most a hundred; empty where the lines are unknown, for the reason in `because`.
        of: the samples of the stack, or the time of the recorded calls, that the shares are of.
        other_share: the rest of the same: functions that are not listed, and no code of the user at all.
        cost_share: what the sampling took of the steps in which it was done; null where nothing was sampled.
        because: why the lines are unknown, "" where they are known.
        capture_next: what makes them known.
    """

    functions: tuple[UserFunction, ...] = ()
    of: str = ""
    other_share: float | None = None
    cost_share: float | None = None
    because: str = ""
    capture_next: str = ""
