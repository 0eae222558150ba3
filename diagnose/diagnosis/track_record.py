"""What earlier predictions came to: one held against its measurement, and all of a rule."""

from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Speedup

NOT_TOLD_APART = 0.005  # what two printed factors cannot tell apart
Standing = Literal["less", "as", "more"]


class TrackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How the promises of a rule turned out, by the user's ledger of promises; of all rules where `rule` is "".

    Of `promises` that were put to the test `inside` fell in the predicted range. `achieved_of_predicted` is the median
    of the achieved speedup over the middle of the range (1 is as predicted), `newest` the UTC date of the last one.
    """

    rule: str
    promises: int
    inside: int
    achieved_of_predicted: float
    newest: str


def standing(achieved: float, predicted: Speedup) -> Standing:
    """How a measured speedup stands to the predicted range."""
    low, high = predicted
    if achieved < low - NOT_TOLD_APART:
        return "less"
    return "more" if high is not None and achieved > high + NOT_TOLD_APART else "as"
