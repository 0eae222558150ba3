"""Changes that shorten the stalls that the log explains, each with its gain over the run by the log's own numbers."""

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np

from diagnose.commands.series.answer import Periodic, Remedy, RemedyOption, Stall
from diagnose.diagnosis import Goodput
from diagnose.facts import duration
from diagnose.patch.job_framework import JobFramework
from diagnose.probes.frameworks import FRAMEWORKS
from diagnose.series.tracks import LoggedRun, Series, Track

_PART_OF = {"checkpoint": "checkpoints", "evaluation": "evaluations"}
_OF = {
    "checkpoint": "checkpoints",
    "evaluation": "evaluations",
    "epoch": "starts of an epoch",
    "gc": "collections of garbage",
    "period": "slow steps with nothing told near them",
}
_LEAST_SHARE = 0.01  # of the run
_ANY = "torch"  # whose words hold where the writer has none of its own


class _Way(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `log_remedies.toml`."""

    removes: tuple[float, float]
    but: str
    do: dict[str, str] = {}
    typed: str = ""
    value: bool | None = None
    times: int = 1
    several_ranks: bool = False


class _Spent(msgspec.Struct, frozen=True):
    """The cost of all stalls of a kind; `every` steps as the job counts, 0 if unknown, `step_s` is a usual step."""

    kind: str
    count: int
    every: int
    time_s: float
    whole_s: float
    step_s: float


@cache
def _ways() -> dict[str, tuple[_Way, ...]]:
    table: dict[str, Any] = tomllib.loads(files("diagnose.data").joinpath("log_remedies.toml").read_text("utf-8"))
    return {kind: msgspec.convert(rows, tuple[_Way, ...]) for kind, rows in table.items()}


def remedies_of(
    series: Series,
    stalls: Sequence[Stall],
    longest: Sequence[Stall],
    periodic: Sequence[Periodic],
    goodput: Goodput | None,
) -> tuple[Remedy, ...]:
    """The remedies of all kinds that cost a hundredth of the run or more, the dearest kind first.

    Of a kind without a stall the long steps count.
    """
    told = {_kind_of(one) for one in stalls}
    known = [*stalls, *(one for one in longest if _kind_of(one) not in told)]
    spent = [_spent(series, kind, known, periodic, goodput) for kind in _OF]
    worth = [one for one in spent if one is not None and one.time_s >= _LEAST_SHARE * one.whole_s]
    return tuple(_remedy(series, one) for one in sorted(worth, key=lambda one: -one.time_s))


def _spent(
    series: Series, kind: str, stalls: Sequence[Stall], periodic: Sequence[Periodic], goodput: Goodput | None
) -> _Spent | None:
    """The cost of a kind: by the parts of the wall time if the log has a clock, else by its stalls."""
    tracks = [track for track in series.tracks if len(track)]
    if not tracks:
        return None
    whole = sum(float(track.seconds.sum()) * track.steps_each for track in _one_each(tracks))
    step_s = float(np.median(tracks[0].seconds))
    counted = [_occurrences(series, run, kind) for run in series.runs]
    count, every = sum(one for one, _ in counted), max((each for _, each in counted), default=0)
    part = next((one for one in goodput.parts if one.what == _PART_OF.get(kind)), None) if goodput is not None else None
    if goodput is not None and part is not None:
        return _Spent(kind, count, every, part.time_s, goodput.wall_s, step_s) if count else None
    if kind == "period":
        return _of_period(periodic, stalls, whole, step_s)
    of_kind = [one for one in stalls if _kind_of(one) == kind]
    cost, number = sum(one.cost_s for one in of_kind), sum(one.count for one in of_kind)
    if of_kind:
        return _Spent(kind, number, every, cost, whole, step_s)
    stated = _stated(series, kind) if goodput is None else []
    return _Spent(kind, len(stated), every, sum(stated), whole + sum(stated), step_s) if stated else None


def _stated(series: Series, kind: str) -> list[float]:
    """Seconds of each checkpoint or evaluation whose line states a time that is in no step's; none for other kinds.

    Of several lines before one step the longest time counts: they are about the same.
    """
    if kind not in _PART_OF:
        return []
    by_row: dict[tuple[str, int], float] = {}
    for run in series.runs:
        for one in run.events:
            if one.kind == kind and one.seconds is not None:
                at = (run.name, one.row)
                by_row[at] = max(by_row.get(at, 0.0), one.seconds)
    return list(by_row.values())


def _one_each(tracks: Sequence[Track]) -> list[Track]:
    """The first track of each run: ranks wait for each other."""
    return list({track.run: track for track in reversed(tracks)}.values())


def _kind_of(stall: Stall) -> str:
    return stall.known_as or next((one.kind for one in stall.near if one.kind == "epoch"), "")


def _of_period(periodic: Sequence[Periodic], stalls: Sequence[Stall], whole: float, step_s: float) -> _Spent | None:
    """The dearest period without an event of the log near it."""
    told = {one.recurs.every_steps for one in stalls if one.recurs is not None and one.near}
    free = [one for one in periodic if one.every_steps not in told]
    if not free:
        return None
    most = max(free, key=lambda one: one.time_share)
    return _Spent("period", most.count, most.every_steps, most.time_share * whole, whole, step_s)


def _occurrences(series: Series, run: LoggedRun, kind: str) -> tuple[int, int]:
    """The number of events of the kind in a run that steps follow, and the steps between two; 0 if unknown."""
    track = next((one for one in series.tracks if one.run == run.name and one.rows is not None), None)
    if track is None or track.rows is None:
        return 0, 0
    ends = np.unique(np.searchsorted(track.rows, [one.row for one in run.events if one.kind == kind]))
    steps = track.step[ends[ends < len(track)]]
    if len(steps) < 2:
        return len(steps), round(float(steps[0] - track.covers) / track.counts_per_step) if len(steps) else 0
    return len(steps), round(float(np.median(np.diff(steps))) / track.counts_per_step)


def _remedy(series: Series, spent: _Spent) -> Remedy:
    each = duration(spent.time_s / max(spent.count, 1) * 1e9)
    every = f" every {spent.every:,} steps" if spent.every > 0 else ""
    share = f"{100 * spent.time_s / spent.whole_s:.2g} % of the run"
    single = any(run.gpus == 1 for run in series.runs)
    ways = [way for way in _ways()[spent.kind] if not (single and way.several_ranks)]
    told = [(way, _do(way, series.written_by, spent)) for way in ways]
    return Remedy(
        kind=spent.kind,
        every_steps=spent.every or None,
        count=spent.count,
        time_s=spent.time_s,
        run_share=spent.time_s / spent.whole_s,
        says=f"{_OF[spent.kind]}: {each}{every}, {share}",
        options=tuple(_option(way, do, spent) for way, do in told if do),
    )


def _do(way: _Way, writer: str, spent: _Spent) -> str:
    """The change in the words of the log's writer; "" if it has no such way, or needs a number that is not known."""
    more = spent.every * way.times
    if way.times > 1 and not more:
        return ""
    own = way.do.get(writer, way.do.get(_ANY))
    if own is not None and (writer in way.do or not _is_trainer(writer) or not way.typed):
        return own.replace("{more}", str(more))
    loop = writer if _is_trainer(writer) else ""
    return JobFramework(loop, {}).typed(way.typed, more if way.value is None else way.value).removeprefix("# ")


def _is_trainer(writer: str) -> bool:
    return any(one.name == writer for one in FRAMEWORKS)


def _option(way: _Way, do: str, spent: _Spent) -> RemedyOption:
    low, high = (spent.whole_s / (spent.whole_s - part * spent.time_s) for part in way.removes)
    lost = duration((way.times - 1) * spent.every * spent.step_s * 1e9)
    return RemedyOption(do=do, gain=(low, high), but=way.but.replace("{lost}", lost))
