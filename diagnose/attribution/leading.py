"""The class that leads a step, and those that may lead it given what the trace does not show.

The largest of data, host and communication leads from `NAMES_THE_CLASS` of the step on, else the larger of compute and
memory. Within `NEAR` of a boundary both sides are named.
"""

from collections.abc import Mapping, Sequence
from itertools import product

from diagnose.attribution.causes import UNKNOWN_KINDS, UNOBSERVED, class_of

NAMES_THE_CLASS = 0.20  # of the step: the largest of data, host and communication
NEAR = 0.05  # of the step: to a boundary, or between two classes

WAITS, WORKS = ("data", "host", "communication"), ("compute", "memory")
Leaders = tuple[str, str]


def class_shares(causes: Mapping[str, float]) -> dict[str, float]:
    """Share of each class, of shares by cause."""
    shares = dict.fromkeys((*WAITS, *WORKS, "unexplained"), 0.0)
    for cause, share in causes.items():
        shares[class_of(cause)] += share
    return shares


def leader(shares: Mapping[str, float]) -> Leaders:
    """The class that leads and, within `NEAR` of a boundary, the class on its other side, else ""."""
    waits, works = (sorted(classes, key=lambda c: -shares[c]) for classes in (WAITS, WORKS))
    first, second = waits[0], waits[1]
    if shares[first] >= NAMES_THE_CLASS:
        if shares[second] >= NAMES_THE_CLASS - NEAR and shares[first] - shares[second] < NEAR:
            return first, second
        return first, works[0] if shares[first] < NAMES_THE_CLASS + NEAR and shares[works[0]] > 0 else ""
    if shares[first] >= NAMES_THE_CLASS - NEAR:
        return works[0], first
    return works[0], works[1] if shares[works[0]] - shares[works[1]] < NEAR else ""


def unobserved_share(causes: Mapping[str, float]) -> float:
    """Share of the step for which the trace does not show what the device waits for."""
    return sum(causes.get(cause, 0.0) for cause in UNOBSERVED)


def unknown_kind_share(causes: Mapping[str, float]) -> float:
    """Share of the step in kernels or operators whose name does not say what they do."""
    return sum(causes.get(cause, 0.0) for cause in UNKNOWN_KINDS)


def outcomes(causes: Mapping[str, float]) -> list[Leaders]:
    """The leaders by the causes as they stand, then with the unobserved time moved to each class that it may be of.

    Unexplained time may be of any class. Untraced host time is some waiting: the device idles for want of a launch.
    Kernels and operators of unknown kind count as memory-bound and may as well compute. Up to `NEAR` of either is left
    where it stands, since no call between classes is finer.
    """
    unknown = unknown_kind_share(causes)
    shares = class_shares(causes)
    if unknown <= NEAR:
        return _by_unobserved(causes, shares)
    computing = {**shares, "memory": shares["memory"] - unknown, "compute": shares["compute"] + unknown}
    return [*_by_unobserved(causes, shares), *_by_unobserved(causes, computing)]


def _by_unobserved(causes: Mapping[str, float], shares: Mapping[str, float]) -> list[Leaders]:
    moved = []
    if unobserved_share(causes) > NEAR:
        untraced = sum(causes.get(cause, 0.0) for cause in UNOBSERVED if class_of(cause) == "host")
        for waiting, anything in product(WAITS, (*WAITS, *WORKS)):
            each = dict(shares)
            each["host"] -= untraced
            each[waiting] += untraced
            each[anything] += shares["unexplained"]
            moved.append(leader(each))
    return [leader(shares), *moved]


def settled(possible: Sequence[Leaders]) -> Leaders | None:
    """The result that all outcomes agree on: one class, or the pair between which each of them is close; else None."""
    first, beside = possible[0]
    others = {leading for leading, _ in possible} - {first}
    if not others:
        return first, beside
    is_close = len(others) == 1 and all(first in outcome for outcome in possible)
    return (first, others.pop()) if is_close else None
