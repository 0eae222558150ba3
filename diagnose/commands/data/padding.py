"""Padding of the loaded batches, and the tokens that other ways to batch the same samples would need.

A range is from the 5th to the 95th percentile of many draws of the samples that were seen.
"""

import numpy as np

from diagnose.arrays import Ints
from diagnose.commands.data.answer import Padding, PaddingGain, PaddingKind, PaddingPlace
from diagnose.commands.data.measured import LoadingMeasurement
from diagnose.diagnosis.terms import Estimate
from diagnose.facts import Unknown
from diagnose.formulas.statistics import generator
from diagnose.metrics.data.batching import (
    PERCENTILES,
    Batching,
    grouped_by_length,
    packed,
    padded_to_longest,
    sorted_together,
)
from diagnose.metrics.data.padding import SeenPadding, place_of

LEAST_SAMPLES = 200
LONGEST, GROUPED, PACKED = "pad each batch to its longest sample", "group samples by length", "pack samples"
BOTH = "pad to the longest, and group by length"
GROUPING = (GROUPED, BOTH)
_DRAWS = 60


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
    kind, place, because = _kind(measured, lengths, rows, tokens)
    return Padding(
        kind=kind,
        place=place,
        samples=len(lengths),
        batches=len(rows),
        mean_tokens=float(lengths.mean()),
        longest_tokens=int(lengths.max()),
        padded_share=max(float(share), 0.0),
        standard_error=_standard_error(lengths, rows, tokens),
        gains=() if kind in ("none", "unknown") else _gains(measured, kind, lengths, rows, tokens),
        because=because,
    )


def _kind(
    measured: LoadingMeasurement, lengths: Ints, rows: Ints, tokens: Ints
) -> tuple[PaddingKind, PaddingPlace, str]:
    """The kind that `diagnose run` finds in the same batches, the place of static padding, or why it is unknown."""
    if (rows * tokens).sum() <= lengths.sum():
        return "none", "", ""
    before = measured.lengths.before_collation
    place = place_of(
        SeenPadding(
            batches=len(rows),
            least_length=int(tokens.min()),
            most_length=int(tokens.max()),
            most_beyond=int((tokens - _longest(lengths, rows)).max()),
            in_rows=None if before is None else before.padded_tokens,
            by_collating=None if before is None else before.collated_tokens,
        )
    )
    if isinstance(place, Unknown):
        return "unknown", "", place.because
    return ("dynamic", "", "") if place is None else ("static", place, "")


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
    names = (LONGEST, BOTH, PACKED) if kind == "static" else (GROUPED, PACKED)
    all_seen = measured.dataset.samples is not None and len(lengths) >= measured.dataset.samples
    if len(lengths) < LEAST_SAMPLES and not all_seen:
        few = f"{len(lengths)} samples are too few, {LEAST_SAMPLES} would do: raise --seconds"
        return tuple(PaddingGain(name=name, because=few) for name in names)
    size, width = max(int(np.median(rows)), 1), int(tokens.max())
    together = sorted_together(measured.dataset.samples or len(lengths), size)
    grouped = grouped_by_length(size, together)
    after = {LONGEST: padded_to_longest(size), GROUPED: grouped, BOTH: grouped, PACKED: packed(width)}
    factors = {name: _factor(after[name], lengths, rows, tokens) for name in names}
    return tuple(PaddingGain(name=name, fewer_tokens=factor) for name, factor in factors.items())


def _factor(after: Batching, lengths: Ints, rows: Ints, tokens: Ints) -> Estimate:
    """Tokens per sample of the present batches over those after the change, as a range."""
    draw = generator()
    factors = []
    for _ in range(_DRAWS):
        chosen = draw.integers(len(rows), size=len(rows))
        before = (rows * tokens)[chosen].sum() / rows[chosen].sum()
        factors.extend(before / after(draw, draw.choice(lengths, size=len(lengths))))
    low, likely, high = np.percentile(factors, PERCENTILES)
    return float(low), float(likely), float(high)
