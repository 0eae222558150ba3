"""The times of all steps that a capture timed."""

import msgspec

from diagnose.diagnosis.terms import Nanoseconds


class LaterStall(msgspec.Struct, frozen=True, kw_only=True):
    """A step after the last of the recorded ones that takes five times those around it, `usual_ns`, or more."""

    step: int
    ns: Nanoseconds
    usual_ns: Nanoseconds


class StepTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of rank `rank` by the host's clock, in groups of neighbours: first and last step, shortest and longest
    time. With few steps each is a group of its own; extremes are in the groups however many there are.

    `profiled` are the first and the last step of each window with the profiler on, and no group reaches over the border
    of a window; `median_ns` is of the other steps.
    """

    rank: int
    first_step: tuple[int, ...]
    last_step: tuple[int, ...]
    shortest_ns: tuple[Nanoseconds, ...]
    longest_ns: tuple[Nanoseconds, ...]
    profiled: tuple[tuple[int, int], ...]
    median_ns: Nanoseconds
