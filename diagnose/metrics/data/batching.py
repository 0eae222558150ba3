"""Tokens that other ways to batch the same samples would need.

Samples are redrawn from those that were seen, many times (bootstrap), so that few samples give a wide range.
"""

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np

from diagnose.arrays import Floats, Ints

PERCENTILES = (5, 50, 95)
Batching = Callable[[np.random.Generator, Ints], Floats]
"""Draws samples by their lengths, and gives the tokens per sample of one epoch or of several ways to batch it."""
_MEGABATCH = 50  # batches that are sorted together, at most, as transformers' Trainer does it
_OF_AN_EPOCH = 20_000  # samples of one draw that are batched
_MOST_PACKED = 1000  # samples of one draw that are packed


def sorted_together(samples: int, size: int) -> int:
    """Samples of a dataset that are sorted together, in batches of `size`, as transformers' Trainer does it."""
    return max(min(_MEGABATCH, samples // (4 * size)), 1) * size


def padded_to_longest(size: int) -> Batching:
    """Batches of `size` in any order, each as long as its longest sample."""
    return lambda draw, lengths: _batched(_sets(draw, lengths, size), size)


def grouped_by_length(size: int, together: int) -> Batching:
    """The same with so many samples sorted together."""
    return lambda draw, lengths: _batched(np.sort(_sets(draw, lengths, together), axis=1), size)


def packed(width: int) -> Batching:
    """Rows of `width`, of whole samples and of cut ones."""
    return lambda draw, lengths: _packed(draw.choice(lengths, size=_MOST_PACKED), width)


def _sets(draw: np.random.Generator, lengths: Ints, together: int) -> Ints:
    """Rows of as many samples as are sorted together; enough rows for the mean of a whole epoch."""
    return draw.choice(lengths, size=(max(_OF_AN_EPOCH // together, 1), together))


def _batched(lengths: Ints, size: int) -> Floats:
    """Mean tokens per sample if batches of `size`, in this order, are as long as their longest sample."""
    return np.array([lengths.reshape(-1, size).max(axis=1).mean()])


def _packed(lengths: Ints, width: int) -> Floats:
    """Tokens per sample in rows of `width`: with whole samples, longest first and best fit; and with cut samples.

    Cut samples leave no padding.
    """
    room: list[int] = []
    for length in np.sort(lengths)[::-1].tolist():
        at = bisect_left(room, length)
        left = room.pop(at) if at < len(room) else width
        insort(room, left - length)
    return np.array([len(room) * width / len(lengths), max(lengths.mean(), 1.0)])
