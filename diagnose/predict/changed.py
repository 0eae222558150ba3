"""A change to the replayed step with its further gain, the source of its saving, and the combination of two changes."""

import msgspec
import numpy as np

from diagnose.arrays import Coded, Floats, Mask
from diagnose.predict.replay import StepChange


class ChangedStep(msgspec.Struct, frozen=True):
    """A change to the replayed step, and its further factor on speed: more tokens, or a share that disappears."""

    change: StepChange
    gain: float = 1.0


NOTHING = ChangedStep(StepChange())


class SavedShares(msgspec.Struct, frozen=True):
    """The sources of the time that a change saves in its best case, as shares of the step.

    `booked`: the time that the breakdown attributes to the work that it touches. `hidden`: the saving beyond that, by
    work that overlaps with other work and still delays the step.
    """

    booked: float
    hidden: float


def combined(one: ChangedStep, other: ChangedStep) -> ChangedStep:
    """Both changes together: factors multiply, masks join."""
    a, b = one.change, other.change
    change = StepChange(
        kernels=_product(a.kernels, b.kernels),
        merge=_either(a.merge, b.merge),
        host={cause: a.host.get(cause, 1.0) * b.host.get(cause, 1.0) for cause in {*a.host, *b.host}},
        no_wait=_either(a.no_wait, b.no_wait),
        launches=a.launches * b.launches,
        communication=a.communication * b.communication,
        overlap=a.overlap or b.overlap,
    )
    return ChangedStep(change, one.gain * other.gain)


def joined(one: ChangedStep, other: ChangedStep) -> ChangedStep:
    """One change by two accounts of what it does: each part as far as the bolder account goes, never both in turn."""
    a, b = one.change, other.change
    change = StepChange(
        kernels=_bolder_each(a.kernels, b.kernels),
        merge=_either(a.merge, b.merge),
        host={cause: _bolder(a.host.get(cause, 1.0), b.host.get(cause, 1.0)) for cause in {*a.host, *b.host}},
        no_wait=_either(a.no_wait, b.no_wait),
        launches=min(a.launches, b.launches),
        communication=min(a.communication, b.communication),
        overlap=a.overlap or b.overlap,
    )
    return ChangedStep(change, max(one.gain, other.gain))


def without_what_it_shortens(changed: ChangedStep) -> ChangedStep:
    """A step on the host alone from which all goes that the change shortens."""
    change = changed.change
    gone = {cause: 0.0 for cause, factor in change.host.items() if factor < 1}
    sends = change.communication < 1 or change.overlap
    return ChangedStep(StepChange(host=gone, communication=0.0 if sends else 1.0))


def _product(a: Coded | None, b: Coded | None) -> Coded | None:
    return b if a is None else a if b is None else a.paired(b, np.multiply)


def _either(a: Mask | None, b: Mask | None) -> Mask | None:
    return b if a is None else a if b is None else a | b


def _bolder(a: float, b: float) -> float:
    return min(a, b) if min(a, b) < 1 else max(a, b)


def _bolder_each(a: Coded | None, b: Coded | None) -> Coded | None:
    return b if a is None else a if b is None else a.paired(b, _bolder_of)


def _bolder_of(a: Floats, b: Floats) -> Floats:
    least = np.minimum(a, b)
    return np.where(least < 1, least, np.maximum(a, b))
