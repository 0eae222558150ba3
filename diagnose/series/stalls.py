"""Find single slow samples and short bursts that stand out from the job's other samples.

Each sample is compared with the running median around it. The reach of the others is estimated from their own tail: the
largest of them are fitted by a power law (Hill, Annals of Statistics 1975), whose index grows with the weight of the
tail, so that a job whose steps vary much has to show more. A sample above everything that this tail would reach by
chance is a stall. Bursts are found in medians over 5 to 65 samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.formulas.statistics import binomial_tail
from diagnose.series.tracks import Track

ALPHA = 0.01  # samples beyond a stall that the tail of the others may give
_ALPHA_IN_LOGS = 0.1
LEAST_EXCESS = 0.2  # of the step time around
LEAST_SHARE = 0.002  # of the time of all steps: less is not worth a finding
LEAST_TIMES = 5.0  # the running median: a sample is long, whatever the others vary by
_WINDOW = 51  # samples of the running median
_WIDTHS = (5, 9, 17, 33, 65)  # samples of the medians that show bursts
_TIMES_AS_WIDE = 4  # as a burst is the running median that it is held against
LONGEST_WINDOW = _TIMES_AS_WIDE * _WIDTHS[-1] + 1
_MOST_WINDOWED = 50_000_000  # values that are sorted for a running median: wider ones are left out for long series
_RARE = 0.02  # of the samples may be stalls: anything more frequent is normal for the job
_TAILS = (0.02, 0.05)  # of the samples make a tail
_LEAST_TAIL = 10
_SEVERAL = 4  # if none is expected, that many are surer than one
_MOST_COUNTS = 100  # numbers of stalls that are tried
_FINEST = 0.02  # of the step time: differences below are no tail
_LEAST_INDEX = 0.15  # of the power law, for tails that end abruptly


@dataclass(frozen=True)
class Burst:
    """Samples [begin, end) of a track that are a stall; `cost_s` is what they take beyond the steps around."""

    begin: int
    end: int
    time_s: float
    cost_s: float


def bursts(track: Track, edges: Sequence[int] = ()) -> tuple[Burst, ...]:
    """The stalls of a track, in order.

    Args:
        track: its samples, without warm-up and without what comes periodically.
        edges: samples at which the step time moves to another level.
    """
    if len(track) < 2 * _LEAST_TAIL:
        return ()
    level = running_level(track.seconds, edges)
    excess = track.seconds / level - 1
    marked = np.zeros(len(track), bool)
    for begin, end in _singles(excess):
        marked[begin:end] = True
    for width in _WIDTHS:
        window = max(_TIMES_AS_WIDE * width + 1, _WINDOW)
        if window * len(track) > _MOST_WINDOWED and width > _WIDTHS[0]:
            break
        around = running_level(track.seconds, edges, window)
        slow = _slow_stretches(np.where(marked, 0.0, track.seconds / around - 1), width)
        for begin, end in slow:
            marked[begin:end] = True
            level[begin:end] = around[begin:end]
    excess = track.seconds / level - 1
    each = (track.seconds * track.steps_each, (track.seconds - level) * track.steps_each)
    return tuple(
        Burst(begin, end, float(each[0][begin:end].sum()), float(each[1][begin:end].sum()))
        for begin, end in _stretches(marked)
        if excess[begin:end].mean() >= LEAST_EXCESS
    )


def long_samples(track: Track, edges: Sequence[int] = ()) -> tuple[Ints, Floats]:
    """The rows of samples that take `LEAST_TIMES` as long as those around them, and the running median at each."""
    window = LONGEST_WINDOW if LONGEST_WINDOW * len(track) <= _MOST_WINDOWED else _WINDOW
    level = running_level(track.seconds, edges, window)
    rows = np.flatnonzero(track.seconds >= LEAST_TIMES * level)
    return rows, level[rows]


def running_level(seconds: Floats, edges: Sequence[int] = (), window: int = _WINDOW) -> Floats:
    """The median of the `window` samples around each, an odd number, between the `edges`; shape as `seconds`."""
    level = np.empty(len(seconds))
    for begin, end in zip((0, *edges), (*edges, len(seconds)), strict=True):
        level[begin:end] = _running_median(seconds[begin:end], window)
    return level


def _running_median(values: Floats, window: int) -> Floats:
    if len(values) <= window:
        return np.full(len(values), np.median(values) if len(values) else 0.0)
    return _medians_over(np.pad(values, window // 2, mode="reflect"), window)


def _medians_over(values: Floats, width: int) -> Floats:
    """The median of each `width` neighbours, shape (n - width + 1,)."""
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    pieces = np.array_split(windows, -(-len(windows) // 20_000))  # a median copies its windows
    return np.concatenate([np.median(piece, axis=1) for piece in pieces])


def _singles(excess: Floats) -> list[tuple[int, int]]:
    """Samples beyond what the tail of the others reaches: a power law above its threshold u, with the index g.

    g is the mean of log(x / u) over the k values of the tail, and k (x / u)^(-1 / g) of them are expected above x.
    Longer tails know the index better, shorter ones are less of the body: all have to agree. So has, with a wider
    margin, the same law of the logarithms of the step times, whose tail is heavier still.
    """

    def expected(value: float, tail: Floats) -> float:
        in_logs = _above(np.log1p(value), np.log1p(tail)) * ALPHA / _ALPHA_IN_LOGS
        return max(_above(value, tail), in_logs)

    return [(at, at + 1) for at in _beyond(excess, expected)]


def _above(value: float, tail: Floats) -> float:
    threshold = max(float(tail[-1]), _FINEST)
    index = float(np.log(np.maximum(tail[:-1] / threshold, 1.0)).mean()) * _caution(tail)
    return float((len(tail) - 1) * (value / threshold) ** (-1 / max(index, _LEAST_INDEX)))


def _slow_stretches(excess: Floats, width: int) -> list[tuple[int, int]]:
    """Stretches whose median over `width` samples is beyond the tail of the others.

    The tail of medians is light, whatever that of the samples: it falls exponentially.
    """
    if len(excess) < width * 2 * _LEAST_TAIL:
        return []
    medians = _medians_over(excess, width)
    whole = len(medians) // width * width
    place = np.arange(0, whole, width) + np.argmax(medians[:whole].reshape(-1, width), axis=1)

    def expected(value: float, tail: Floats) -> float:
        threshold = float(tail[-1])
        scale = max(float((tail[:-1] - threshold).mean()) * _caution(tail), _FINEST / 4)
        return float((len(tail) - 1) * np.exp(-(value - threshold) / scale))

    slow = place[_beyond(medians[place], expected, _WIDTHS[-1] // width + 2)]
    stretches = [_extent(excess, int(at), width) for at in slow]
    return [(begin, end) for begin, end in stretches if _together(excess, begin, end)]


def _together(excess: Floats, begin: int, end: int) -> bool:
    """Whether so many slow samples in [begin, end) do not come together by chance, at the rate of those elsewhere.

    Slow is what is above half of the stretch; the chance is that of a binomial distribution, anywhere in the series.
    """
    slow = excess > excess[begin:end].mean() / 2
    count, length = int(slow[begin:end].sum()), end - begin
    rate = (int(slow.sum()) - count + 1) / (len(excess) - length + 1)
    if rate >= 1:
        return False
    return len(excess) * binomial_tail(count, length, rate) < ALPHA


def _caution(tail: Floats) -> float:
    """Factor that raises the index of a tail by its standard error."""
    return 1 + 1 / float(np.sqrt(len(tail) - 1))


def _beyond(values: Floats, expected: Callable[[float, Floats], float], least_most: int = 1) -> Ints:
    """Places of as many of the largest values as the tail of the others would not give by chance.

    They are few of all values, or at most `least_most`, as many as one burst makes.
    """
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    lengths = sorted({min(max(int(share * len(values)), _LEAST_TAIL), len(values) // 3) for share in _TAILS})
    most = min(max(int(np.ceil(_RARE * len(values))), least_most), len(values) - lengths[-1] - 1)
    counts = np.unique(np.rint(np.geomspace(1, max(most, 1), _MOST_COUNTS)).astype(np.int64))
    for count in counts[counts <= most][::-1]:
        candidate, limit = float(ordered[count - 1]), ALPHA * min(count, _SEVERAL) / _SEVERAL
        if candidate >= LEAST_EXCESS and all(
            expected(candidate, ordered[count : count + length + 1]) < limit for length in lengths
        ):
            return np.asarray(order[:count], np.int64)
    return np.zeros(0, np.int64)


def _extent(excess: Floats, at: int, width: int) -> tuple[int, int]:
    """The stretch near the `width` samples from `at` on that is slower throughout: the largest sum above half of it."""
    first = max(at - width, 0)
    sums = np.cumsum(np.append(0.0, excess[first : at + 2 * width] - excess[at : at + width].mean() / 2))
    lowest = np.minimum.accumulate(sums)
    last = int(np.argmax(sums - lowest))
    return first + int(np.argmin(sums[: last + 1])), first + last


def _stretches(marked: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """Neighbouring marked samples as [begin, end); up to two unmarked ones between do not part them."""
    places = np.flatnonzero(marked)
    if not len(places):
        return []
    parts = np.split(places, np.flatnonzero(np.diff(places) > 3) + 1)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]
