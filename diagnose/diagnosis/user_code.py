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


class StackFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame of the stacks that were seen, once for each way of calls to it.

    `caller` is the index of the frame that calls it, which stands before it, and -1 for an outermost one. `doing` is of
    the whole stack: a line that calls for several purposes is there once for each. `line` is 0 for a function of a
    library, of which only the first few below the user's last line are there. `share` is the time with what it calls,
    `own_share` that without, and what of it is in no frame was left out.
    """

    caller: int
    file: str
    line: int
    function: str
    doing: Doing
    share: Share
    own_share: Share


class UserCode(msgspec.Struct, frozen=True, kw_only=True):
    """Functions in which a typical rank spends its Python time, longest first, with their `share` of the total that
    `of` names.

    Attributes:
        functions: at most a hundred; empty if the lines are unknown, for the reason in `because`.
        of: the total that shares refer to: samples of the stack, or time of the recorded calls.
        other_share: the rest of that total: functions that are not listed, and code that is not the user's.
        stacks: the stacks as a tree, at most three hundred frames, those with most time.
        samples: number of samples of the total; null if calls were recorded.
        half_error: how far a share of a half of so many samples is off, as two standard errors; likewise.
        cost_share: the share of the sampled steps that sampling itself took; null if nothing was sampled.
        because: why the lines are unknown, "" if they are known.
        capture_next: what to capture to make them known.
    """

    functions: tuple[UserFunction, ...] = ()
    of: str = ""
    other_share: float | None = None
    stacks: tuple[StackFrame, ...] = ()
    samples: int | None = None
    half_error: Share | None = None
    cost_share: float | None = None
    because: str = ""
    capture_next: str = ""
