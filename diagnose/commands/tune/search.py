"""Search the best value of a number that speeds a job up to a point: double it until it fails, then bisect."""

from collections.abc import Mapping, Sequence
from typing import Literal

from diagnose.commands.tune.settings import CLOSE

Trial = Literal["better", "no better", "failed"]


def next_value(values: Sequence[int], in_use: int, trials: Mapping[int, Trial]) -> int | None:
    """The next value to try; None if the search is over.

    A value that failed bounds the search, and the values between it and the best are bisected. One that ran and was no
    better ends it: larger values gain nothing.

    Args:
        values: those that may be tried, ascending.
        in_use: that of the best run so far.
        trials: the results of those that were tried.
    """
    above = {value: trial for value, trial in trials.items() if value > in_use}
    if "no better" in above.values():
        return None
    failed = min((value for value, trial in above.items() if trial == "failed"), default=None)
    if failed is None:
        return next((value for value in values if value >= 2 * max(in_use, 1)), None)
    between = [value for value in values if in_use < value < failed]
    if not between or failed <= CLOSE * in_use:
        return None
    return between[len(between) // 2]
