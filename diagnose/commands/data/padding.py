"""Padding of the loaded batches, and the tokens that other ways to batch the same samples would need.

Samples are redrawn from those that were seen, many times (bootstrap): the range is from the 5th to the 95th percentile
of the results, so that few samples give a wide one.
"""

from bisect import bisect_left, insort
from collections.abc import Callable

import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.commands.data.answer import Padding, PaddingGain, PaddingKind
from diagnose.commands.data.measured import LoadingMeasurement
from diagnose.diagnosis.terms import Estimate
from diagnose.formulas.statistics import generator
from diagnose.metrics.data.padding import LEAST_BATCHES, LEAST_BEYOND

LEAST_SAMPLES = 200
LONGEST, GROUPED, PACKED = "pad each batch to its longest sample", "group samples by length", "pack samples"
_DRAWS = 60
_MEGABATCH = 50  # batches that are sorted together, at most, as transformers' Trainer does it
_OF_AN_EPOCH = 20_000  # samples of one draw that are batched
_MOST_PACKED = 1000  # samples of one draw that are packed
_PERCENTILES = (5, 50, 95)


def padding_of(measured: LoadingMeasurement) -> Padding:
    """Kind and share of the padding, and the changes that would remove it; unknown if samples have no lengths."""
    seen = measured.lengths
    if not seen.batches:
        return Padding(kind="unknown", because=seen.because or "no batch was looked at")
    lengths = np.array(seen.samples, np.int64)
    rows, tokens = np.array(seen.batches, np.int64).T
    if rows.sum() != len(lengths):
        return Padding(kind="unknown", because="lengths of samples and batches do not belong together")
    share = 1 - lengths.sum() / (rows * tokens).sum()
    kind, because = _kind(lengths, rows, tokens, float(share))
    return Padding(
        kind=kind,
        samples=len(lengths),
        batches=len(rows),
        mean_tokens=float(lengths.mean()),
        longest_tokens=int(lengths.max()),
        padded_share=max(float(share), 0.0),
        standard_error=_standard_error(lengths, rows, tokens),
        gains=() if kind in ("none", "unknown") else _gains(measured, kind, lengths, rows, tokens),
        because=because,
    )


def _kind(lengths: Ints, rows: Ints, tokens: Ints, share: float) -> tuple[PaddingKind, str]:
    if share <= 0:
        return "none", ""
    if len(rows) < LEAST_BATCHES:
        return "unknown", f"{len(rows)} batches are too few to tell how they are padded"
    beyond = rows * (tokens - _longest(lengths, rows))
    static = tokens.min() == tokens.max() and beyond.sum() / rows.sum() >= LEAST_BEYOND
    return ("static" if static else "dynamic"), ""


def _longest(lengths: Ints, rows: Ints) -> Ints:
    """Length of the longest sample of each batch; samples are in the order of their batches."""
    return np.maximum.reduceat(lengths, np.concatenate([[0], np.cumsum(rows)[:-1]]))


def _standard_error(lengths: Ints, rows: Ints, tokens: Ints) -> float | None:
    """Standard error of the share of padding, a ratio of sums over batches; None for a single batch."""
    if len(rows) < 2:
        return None
    all_tokens = rows * tokens
    real = np.add.reduceat(lengths, np.concatenate([[0], np.cumsum(rows)[:-1]]))
    off = (all_tokens - real) - (1 - real.sum() / all_tokens.sum()) * all_tokens
    return float(np.sqrt((off**2).sum() * len(rows) / (len(rows) - 1)) / all_tokens.sum())


def _gains(
    measured: LoadingMeasurement, kind: PaddingKind, lengths: Ints, rows: Ints, tokens: Ints
) -> tuple[PaddingGain, ...]:
    names = (LONGEST, GROUPED, PACKED) if kind == "static" else (GROUPED, PACKED)
    all_seen = measured.dataset.samples is not None and len(lengths) >= measured.dataset.samples
    if len(lengths) < LEAST_SAMPLES and not all_seen:
        few = f"{len(lengths)} samples are too few, {LEAST_SAMPLES} would do: raise --seconds"
        return tuple(PaddingGain(name=name, because=few) for name in names)
    size = max(int(np.median(rows)), 1)
    whole = measured.dataset.samples or len(lengths)
    together = max(min(_MEGABATCH, whole // (4 * size)), 1) * size
    width = int(tokens.max())
    after: dict[str, Callable[[np.random.Generator, Ints], Floats]] = {
        LONGEST: lambda draw, some: _batched(_sets(draw, some, together), size),
        GROUPED: lambda draw, some: _batched(np.sort(_sets(draw, some, together), axis=1), size),
        PACKED: lambda draw, some: _packed(_drawn(draw, some, _MOST_PACKED), width),
    }
    factors = {name: _factor(after[name], kind, lengths, rows, tokens) for name in names}
    return tuple(PaddingGain(name=name, fewer_tokens=factor) for name, factor in factors.items())


def _factor(
    after: Callable[[np.random.Generator, Ints], Floats], kind: PaddingKind, lengths: Ints, rows: Ints, tokens: Ints
) -> Estimate:
    """Tokens per sample of the present batches over those after the change, as a range."""
    draw = generator()
    factors = []
    for _ in range(_DRAWS):
        chosen = draw.integers(len(rows), size=len(rows))
        before = (rows * tokens)[chosen].sum() / rows[chosen].sum() if kind == "dynamic" else tokens[0]
        factors.extend(before / after(draw, _drawn(draw, lengths, len(lengths))))
    low, likely, high = np.percentile(factors, _PERCENTILES)
    return float(low), float(likely), float(high)


def _drawn(draw: np.random.Generator, lengths: Ints, count: int) -> Ints:
    return draw.choice(lengths, size=count)


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
