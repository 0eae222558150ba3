"""Parts of a run's wall time, which add up to it."""

from collections.abc import Mapping

import msgspec


class GoodputPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a run's wall time, and its share of it."""

    what: str
    time_s: float
    share: float


class StartAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """A change that makes the start shorter by at most `saves_s`, out of the seconds that `what` takes."""

    what: str
    do: str
    saves_s: float


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The start of a process, until its first step; the parts, in seconds, add up to `time_s`.

    With several ranks it is that of the `rank` which worked longest before its first step: the others wait for it.
    What torch.compile took until the capture was written comes on top. A start `matters` if it takes a notable share
    of the run, as far as its end is known.
    """

    rank: int
    of_ranks: int
    time_s: float
    parts: dict[str, float]
    compiling_s: float
    advice: tuple[StartAdvice, ...]
    matters: bool = True
    unknown: str = ""


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the wall time; they add up to it.

    Of a log it is the time from the first logged step to the last, of a capture that from the start of the process on:
    to its end if it has `ended`, else to the end of the capture. `start` divides what a capture knows of its start.
    """

    wall_s: float
    parts: tuple[GoodputPart, ...]
    ended: bool = True
    start: Start | None = None

    @classmethod
    def of(cls, wall_s: float, parts: Mapping[str, float], ended: bool = True) -> "Goodput":
        """The parts of `wall_s` by their seconds."""
        listed = (GoodputPart(what=what, time_s=time_s, share=time_s / wall_s) for what, time_s in parts.items())
        return cls(wall_s=wall_s, parts=tuple(listed), ended=ended)
