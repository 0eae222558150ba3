"""The period of a job in which one step in several takes much longer than the others."""

import msgspec

from diagnose.diagnosis.terms import Nanoseconds, Share


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """Every `every_steps` steps one takes `more_ns` more than the others, without the profiler: `share` of the time.

    `mean_ns` is the mean step of the period. If MFU is unknown, steps and ledger are those of the period: as many such
    steps as were counted, without the profiler.

    `cause` is the cause of the ledger that it counts for, and `what` says what of it, "" if that is not known.
    """

    every_steps: int
    more_ns: Nanoseconds
    mean_ns: Nanoseconds
    share: Share
    cause: str
    what: str = ""
