"""The step times of several runs of one job, each at a path of its own."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from diagnose.errors import WrongUsage, shown_path
from diagnose.series.columns import Stated
from diagnose.series.counting import counting_samples
from diagnose.series.not_taken import UnitNotTaken
from diagnose.series.sources import read_series
from diagnose.series.tracks import LoggedRun, Series, Track


def read_runs(
    paths: Sequence[str | os.PathLike[str]],
    unit: str | None = None,
    step_column: str | None = None,
    time_column: str | None = None,
    samples_per_step: int | None = None,
) -> Series:
    """The step times of several runs of one job, each at a path of its own; arguments and errors as `read_series`.

    Args:
        samples_per_step: the samples of an optimizer step, if the logs count samples instead of steps.
    """
    series = _read_each(paths, unit, step_column, time_column)
    return series if samples_per_step is None else counting_samples(series, samples_per_step)


def _read_each(
    paths: Sequence[str | os.PathLike[str]], unit: str | None, step_column: str | None, time_column: str | None
) -> Series:
    if len(paths) == 1:
        return read_series(paths[0], unit, step_column, time_column)
    units = _units_taken(paths, Stated(step_column, time_column, unit))
    each = [read_series(path, taken, step_column, time_column) for path, taken in zip(paths, units, strict=True)]
    names = _distinguished([shown_path(path) for path in paths])
    tracks, runs, notes = list[Track](), list[LoggedRun](), list[str]()
    for name, one in zip(names, each, strict=True):
        tracks += [replace(track, run=f"{name} {track.run}".strip()) for track in one.tracks]
        of_path = one.runs or (LoggedRun(),)
        runs += [replace(run, name=f"{name} {run.name}".strip()) for run in of_path]
        notes += [f"{name}: {note}" for note in one.notes]
    unknown = next((one.unknown for one in each if one.unknown is not None), None) if not tracks else None
    files = tuple(file for one in each for file in one.files)
    restarts = tuple(sorted({step for one in each for step in one.restarts}))
    return Series(
        kind=each[0].kind,
        files=files,
        unit=each[0].unit,
        tracks=tuple(tracks),
        restarts=restarts,
        notes=tuple(notes),
        unknown=unknown,
        runs=tuple(runs),
        written_by=each[0].written_by,
    )


def _distinguished(paths: Sequence[str]) -> list[str]:
    """The shortest ends of the paths by which all differ."""
    parts = [path.split("/") for path in paths]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    raise WrongUsage("the same path is named twice", where=Path(paths[0]), do="name each run once")


def _units_taken(paths: Sequence[str | os.PathLike[str]], stated: Stated) -> list[str | None]:
    """The unit, for those of the paths that take one.

    Raises:
        WrongUsage: none does.
    """
    if stated.unit is None:
        return [None] * len(paths)
    refused = dict[int, UnitNotTaken]()
    for at, path in enumerate(paths):
        try:
            read_series(path, stated.unit, stated.step, stated.time)
        except UnitNotTaken as error:
            refused[at] = error
    if len(refused) == len(paths):
        raise refused[0]
    return [None if at in refused else stated.unit for at in range(len(paths))]
