"""Times that each rank takes for work of its own, where a log has them: which rank is late over the run, by how much.

Step times do not show it, since all ranks wait for the slowest. Megatron-LM logs its timers of all ranks, or the least
and the most (`--timing-log-option`), and DeepSpeed those of the ranks that log (`wall_clock_breakdown`). A table has
columns.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

import msgspec
import numpy as np

from diagnose.arrays import Floats
from diagnose.facts import duration, spoken
from diagnose.series.lines import lines_of
from diagnose.series.log_formats import plain_line
from diagnose.series.tracks import Series, Track

LATE_FROM = 0.05  # of the time: ranks closer than this are alike
FEWEST = 3  # logs: fewer do not tell what is always so
PERSISTENT = 2 / 3  # of the logs
TELLING = 0.01  # of the step: less is not worth a line
LONGEST = 4096
_OWN = re.compile(  # without waiting for another rank
    r"forward-compute|backward-compute|batch-generator|optimizer-inner-step"
    r"|(?:fwd|forward|bwd_inner|backward_inner)(?:_microstep)?"
)
_DECIMAL = r"(\d{1,12}(?:\.\d{0,12})?)"
_EXTREMES = re.compile(rf"([\w/-]{{1,80}}) \.{{0,60}}: \({_DECIMAL}, {_DECIMAL}\)")
_TIMER = re.compile(r"(?:\A|[\s:])([A-Za-z][\w/-]{0,80}):\s*\Z")
_OF_RANK = re.compile(rf"\brank {{1,9}}(\d{{1,7}}): {{1,9}}{_DECIMAL}\s*\Z")
_DEEPSPEED = re.compile(r"\[Rank (\d{1,7})\] time \(ms\)")
_PAIR = re.compile(rf"\| ([\w-]{{1,80}}): {_DECIMAL}")
_ALL_RANKS, _EXTREME_RANKS = "times across ranks (ms):", "(min, max) time across ranks (ms):"
OfRanks = dict[str, dict[int, list[float]]]  # seconds by what is timed and by rank, in the order of the log


class RankTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the ranks for one kind of their own work, over the run.

    Attributes:
        what: the timer or the column.
        logs: how often it was logged.
        ranks: the number of ranks; null if the log holds the least and the most alone.
        late: the ranks that are late over the run, empty if none is, or none is named.
        late_s: the median of the late ranks' time in seconds; null if none is named.
        usual_s: the same of the other ranks; of the fastest if none is named.
        spread_share: by how much the slowest rank takes longer than the fastest, median over the logs.
        says: this in a sentence.
    """

    what: str
    logs: int
    ranks: int | None
    late: tuple[int, ...]
    late_s: float | None
    usual_s: float
    spread_share: float
    says: str


def rank_times(series: Series) -> tuple[RankTimes, ...]:
    """The ranks' own work, by what it costs the others, most first; empty if the source does not have it."""
    of_ranks, extremes = _of_tracks(series.tracks), {}
    if series.kind == "text":
        read = _Timers()
        for path in map(Path, series.files):
            read.file(path)
        of_ranks, extremes = read.of_ranks, read.extremes
    usual = [float(np.median(track.seconds)) for track in series.tracks if len(track)]
    least = TELLING * max(usual, default=0.0)
    told = [*_judged(of_ranks), *(_between(what, pairs) for what, pairs in extremes.items())]
    worth_a_line = (each for each in told if each.usual_s * (1 + each.spread_share) >= least)
    return tuple(sorted(worth_a_line, key=lambda each: (not each.late, -each.usual_s * each.spread_share)))


class _Timers:
    """The timers in the lines of text logs."""

    def __init__(self) -> None:
        self.of_ranks: OfRanks = defaultdict(lambda: defaultdict(list))
        self.extremes: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def file(self, path: Path) -> None:
        """Read one log."""
        timer: str | None = None  # of the block of all ranks that the line is in; "" before its first
        for line in map(plain_line, lines_of(path, LONGEST)):
            if "|" in line and (rank := _DEEPSPEED.search(line)):
                self._add(int(rank[1]), _PAIR.findall(line))
            elif _ALL_RANKS in line:
                timer = ""
            elif timer is not None and (found := _OF_RANK.search(line)):
                self._add(int(found[1]), [(timer, found[2])])
            elif timer is not None:
                named = _TIMER.search(line)
                timer = named[1] if named else None
            if ": (" in line:
                for name, low, high in _EXTREMES.findall(line):
                    if _OWN.fullmatch(name) and float(low) > 0:
                        self.extremes[name].append((float(low) / 1e3, float(high) / 1e3))

    def _add(self, rank: int, pairs: Sequence[tuple[str, str]]) -> None:
        for name, milliseconds in pairs:
            if _OWN.fullmatch(name):
                self.of_ranks[name][rank].append(float(milliseconds) / 1e3)


def _of_tracks(tracks: Sequence[Track]) -> OfRanks:
    """The columns of computation and of loading, at the steps that all ranks logged."""
    found: OfRanks = {}
    named = {track.rank: track for track in tracks if track.rank is not None}
    if len(named) < 2 or len(named) != len(tracks):
        return found
    steps = reduce(np.intersect1d, [track.step for track in named.values()])
    for part in ("compute", "data"):
        if all(part in track.parts for track in named.values()):
            columns = {r: t.parts[part][np.searchsorted(t.step, steps)] for r, t in named.items()}
            whole = np.isfinite(np.stack([*columns.values()])).all(axis=0)
            found[f"{part} time"] = {rank: column[whole].tolist() for rank, column in columns.items()}
    return found


def _judged(of_ranks: Mapping[str, Mapping[int, Sequence[float]]]) -> Iterator[RankTimes]:
    for what, by_rank in of_ranks.items():
        logs = min(map(len, by_rank.values()))
        if len(by_rank) > 1 and logs:
            ranks = sorted(by_rank)
            times = np.array([by_rank[rank][:logs] for rank in ranks])
            if (times > 0).all():
                yield _of_one(what, ranks, times)


def _of_one(what: str, ranks: Sequence[int], times: Floats) -> RankTimes:
    """The judgement of one timer; `times` has the shape (ranks, logs)."""
    spread = float(np.median(times.max(axis=0) / times.min(axis=0))) - 1
    each = np.median(times, axis=1)
    usual = float(np.median(each))
    late = np.flatnonzero(each - usual >= max((each.max() - usual) / 2, LATE_FROM * usual))
    if len(ranks) == 2:
        late = np.flatnonzero(each >= (1 + LATE_FROM) * each.min())
    often = int(np.isin(times.argmax(axis=0), late).sum())
    logs = times.shape[1]
    named = 0 < len(late) <= len(ranks) / 2 and logs >= FEWEST and often >= PERSISTENT * logs
    if not named:
        return _between(what, [*zip(times.min(axis=0).tolist(), times.max(axis=0).tolist(), strict=True)], len(ranks))
    late_s, others_s = float(np.median(each[late])), float(np.median(np.delete(each, late)))
    who = [ranks[position] for position in late.tolist()]
    takes = f"{_listed(who)} {'take' if who[1:] else 'takes'} {duration(1e9 * late_s)} for {what}"
    longer = f"the others {duration(1e9 * others_s)}: {spoken(late_s / others_s - 1, 'share')} longer"
    return RankTimes(
        what=what,
        logs=logs,
        ranks=len(ranks),
        late=tuple(who),
        late_s=late_s,
        usual_s=others_s,
        spread_share=spread,
        says=f"{takes}, {longer}, and slowest in {often} of {logs} logs",
    )


def _listed(ranks: Sequence[int]) -> str:
    more = ", ..." if len(ranks) > 8 else ""
    return f"{'ranks' if ranks[1:] else 'rank'} {', '.join(map(str, ranks[:8]))}{more}"


def _between(what: str, pairs: Sequence[tuple[float, float]], ranks: int | None = None) -> RankTimes:
    """The least and the most of all ranks, where no rank is always late or none is named."""
    spread = float(np.median([high / low for low, high in pairs])) - 1
    logs = f"median of {len(pairs)} logs" if pairs[1:] else "1 log"
    says = f"{what}: the slowest rank takes {spoken(spread, 'share')} longer than the fastest ({logs})"
    if ranks is not None and spread >= LATE_FROM:
        says += "; no rank is the slowest in two thirds of them" if len(pairs) >= FEWEST else "; too few to name one"
    elif spread >= LATE_FROM:
        says += "; --timing-log-option all says which rank it is"
    return RankTimes(
        what=what,
        logs=len(pairs),
        ranks=ranks,
        late=(),
        late_s=None,
        usual_s=float(np.median([low for low, _ in pairs])),
        spread_share=spread,
        says=says,
    )
