"""The period of a job in which one step in several takes much longer than the others."""

import msgspec

from diagnose.diagnosis.terms import Nanoseconds, Share


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """Every `every_steps` steps one takes `more_ns` more than the others, without the profiler: `share` of the time.

    `mean_ns` is the mean step of the period. Steps, ledger, waterfall and MFU are those of the period: as many such
    steps as were counted, without the profiler.

    If `regular` is false these steps come at no regular distance, of which `every_steps` is the mean.

    `rank` is the one rank of several that works in that step, for which the others wait; null if all do.

    `cause` is the cause of the ledger that it counts for, and `what` says what of it, "" if that is not known. If a
    window recorded such a step, it is `recorded_step`, in the window of that name ("" for that of the diagnosis). If
    `cause` says no more than that the phase comes again, the ledger counts it by that step: `cause_shares` are the
    causes of what it takes beyond the usual step. They add up to 1.
    """

    every_steps: int
    more_ns: Nanoseconds
    mean_ns: Nanoseconds
    share: Share
    cause: str
    what: str = ""
    regular: bool = True
    rank: int | None = None
    recorded_step: int | None = None
    window: str = ""
    cause_shares: dict[str, Share] = msgspec.field(default_factory=dict)
