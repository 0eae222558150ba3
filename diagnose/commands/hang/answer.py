"""The answer of `diagnose hang` from the dumps of a job. Frozen; the reports are pure functions of it."""

from typing import Literal

import msgspec

from diagnose.diagnosis.answer import Answer

Kind = Literal[
    "missing-rank",
    "missing-dump",
    "order",
    "type",
    "size",
    "data-type",
    "group",
    "condition",
    "desynchronised",
    "in-call",
    "behind",
]
Verdict = Literal["hung", "slow", "nothing-open", "unknown"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of code, or a frame of a stack."""

    file: str
    line: int
    function: str


class CallOf(msgspec.Struct, frozen=True, kw_only=True):
    """The same call of some ranks. `elements` is of each input tensor, null if the dump has no sizes.

    `line` is the innermost line of the user's own code, null if the dump has no stack, `stack` all of it, innermost
    first.
    """

    ranks: tuple[int, ...]
    group: str
    number: int
    op: str
    elements: tuple[int, ...] | None
    types: tuple[str, ...] | None
    states: tuple[str, ...]
    line: Line | None
    stack: tuple[Line, ...] = ()


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of one call of one group.

    `blamed` ranks keep `waiting` ones from going on; none are blamed if the dumps do not show which side is right.
    `calls` has each side, `instead` the last recorded call of each blamed rank that has not made this one. `parted_at`
    is the first recorded number from which the ranks run different lines, null if they never do. `says` is the whole as
    a sentence.
    """

    kind: Kind
    group: str
    number: int
    blamed: tuple[int, ...]
    waiting: tuple[int, ...]
    calls: tuple[CallOf, ...]
    instead: tuple[CallOf, ...] = ()
    parted_at: int | None = None
    says: str


class RankState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a rank got: its last recorded call, and how many of its calls are open.

    `stack` is the one that py-spy printed. A rank that was seen and left no dump has "" as its `file`, and no calls are
    known.
    """

    rank: int
    file: str
    version: str
    calls: int
    open: int
    last: CallOf | None
    stack: tuple[str, ...] = ()


class UnreadFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be used."""

    file: str
    why: str


class Hang(Answer, frozen=True, kw_only=True):
    """The answer of `diagnose hang`.

    `faults` are causes, the first one first; `follow` are those of which a blamed rank waits in another fault itself.
    `unknown` is what the dumps do not show, `next` what to do, type or capture.
    """

    schema_version: int = 1
    folder: str
    verdict: Verdict
    headline: str
    faults: tuple[Fault, ...]
    follow: tuple[Fault, ...]
    ranks: tuple[RankState, ...]
    without_dump: tuple[int, ...]
    unread: tuple[UnreadFile, ...]
    unknown: tuple[str, ...]
    next: tuple[str, ...]
