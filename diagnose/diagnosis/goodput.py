"""Parts of a run's wall time, which add up to it."""

from collections.abc import Mapping

import msgspec


class GoodputPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a run's wall time, and its share of it."""

    what: str
    time_s: float
    share: float


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the wall time; they add up to it.

    Of a log it is the time from the first logged step to the last, of a capture that from the start of the process on:
    to its end if it has `ended`, else to the end of the capture.
    """

    wall_s: float
    parts: tuple[GoodputPart, ...]
    ended: bool = True

    @classmethod
    def of(cls, wall_s: float, parts: Mapping[str, float], ended: bool = True) -> "Goodput":
        """The parts of `wall_s` by their seconds."""
        listed = (GoodputPart(what=what, time_s=time_s, share=time_s / wall_s) for what, time_s in parts.items())
        return cls(wall_s=wall_s, parts=tuple(listed), ended=ended)
