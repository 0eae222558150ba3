"""Divide the traces of a folder among the runs that wrote them, and each run's among its windows."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from diagnose.trace.runs import RankFile, TracedRun, TracedWindow
from diagnose.trace.windows import TracedProcess, together


def with_windows(run: TracedRun, processes: list[TracedProcess]) -> TracedRun:
    """The run with the windows of its processes, if they wrote several; the last whole one is chosen."""
    of = {file: at for at, process in enumerate(processes) for file in process.files}
    if len(of) == len(processes):
        return run
    windows = [_by_rank(files) for files in together(of, of.__getitem__, by_steps=True)]
    families = {file.family for file in of}
    name = run.name if "@" in run.name or len(families) > 1 else next(iter(families))
    names = _own_parts(windows) or [f"{name}@{number}" for number in range(1, len(windows) + 1)]
    cut = {process.last for process in processes if process.is_cut}
    most = max(map(len, windows))
    listed = [
        TracedWindow(name, files, is_cut=len(files) < most or not cut.isdisjoint(files))
        for name, files in zip(names, windows, strict=True)
    ]
    whole = [window for window in listed if not window.is_cut]
    return replace(run, files=(whole or listed)[-1].files, windows=tuple(listed))


def apart(files: list[RankFile]) -> list[TracedRun]:
    """The runs among the files, so that no rank appears twice in one."""
    if len(files) < 2:
        return [TracedRun(f.path.name, (f,)) for f in files]
    world_sizes = sorted({f.world_size for f in files if f.world_size})
    if len(world_sizes) > 1:
        sized = [[f for f in files if f.world_size == world_size] for world_size in (*world_sizes, None)]
        return [
            replace(run, name=f"{run.name}@{group[0].world_size}") for group in sized if group for run in apart(group)
        ]
    ranks = [f.rank for f in files]
    if None not in ranks and len(set(ranks)) == len(ranks):
        return [TracedRun(files[0].path.parent.name, _by_rank(files))]
    folders = _by_folder(files)
    if _are_parts_of_one_world(folders):
        return _across(files)
    if len(folders) > 1:
        return [run for name, members in folders.items() for run in _below(name, apart(members))]
    runs = []
    for family in sorted({f.family for f in files}):
        members = [f for f in files if f.family == family]
        runs += _split_repeats(family, members)
    return runs


def _are_parts_of_one_world(folders: Mapping[str, Sequence[RankFile]]) -> bool:
    """Whether each folder holds other ranks of a world, as where each node has a folder of its own."""
    held = [{file.rank for file in files} for files in folders.values()]
    stated = all(file.world_size and file.rank is not None for files in folders.values() for file in files)
    return len(held) > 1 and stated and sum(map(len, held)) == len(set().union(*held))


def _across(files: list[RankFile]) -> list[TracedRun]:
    """The runs of ranks that are in folders by node: by the folders below these if each holds every rank once, else by
    their times.
    """
    common, ranks = _common_folder(files), {file.rank for file in files}
    below: dict[tuple[str, ...], list[RankFile]] = {}
    for file in files:
        below.setdefault(file.path.parent.relative_to(common).parts[1:], []).append(file)
    are_whole = all(len(group) == len(ranks) == len({file.rank for file in group}) for group in below.values())
    groups = [*below.values()] if are_whole else together(files, lambda file: file.rank, by_steps=False)
    names = _own_parts(groups) or [f"{common.name}@{number}" for number in range(1, len(groups) + 1)]
    return [TracedRun(name, _by_rank(group)) for name, group in zip(names, groups, strict=True)]


def _own_parts(groups: Sequence[Sequence[RankFile]]) -> list[str]:
    """For each group the first folder that all its files are below, and not all groups; empty if two have the same."""
    common = _common_folder([file for group in groups for file in group])
    below = [[file.path.parent.relative_to(common).parts for file in group] for group in groups]
    shared = [[part for part in paths[0] if all(part in path for path in paths)] for paths in below]
    own = [next((part for part in parts if not all(part in other for other in shared)), "") for parts in shared]
    return own if all(own) and len(set(own)) == len(own) else []


def _common_folder(files: Iterable[RankFile]) -> Path:
    return Path(os.path.commonpath([file.path.parent for file in files]))


def _by_folder(files: list[RankFile]) -> dict[str, list[RankFile]]:
    """The files by the folder below their common one that they are in; "" for those directly in it."""
    common = _common_folder(files)
    by_folder: dict[str, list[RankFile]] = {}
    for file in files:
        by_folder.setdefault(next(iter(file.path.parent.relative_to(common).parts), ""), []).append(file)
    return by_folder


def _below(folder: str, runs: list[TracedRun]) -> list[TracedRun]:
    """The runs of a folder, named after it too; the only one is called as the folder is."""
    if not folder:
        return runs
    return [replace(run, name=folder if len(runs) == 1 else f"{folder}/{run.name}") for run in runs]


def _split_repeats(family: str, members: list[RankFile]) -> list[TracedRun]:
    takes = together(members, lambda file: file.rank, by_steps=False)
    if len(takes) == 1:
        return [TracedRun(family, _by_rank(takes[0]))]
    return [TracedRun(f"{family}@{i + 1}", _by_rank(take)) for i, take in enumerate(takes)]


def _by_rank(files: Iterable[RankFile]) -> tuple[RankFile, ...]:
    return tuple(sorted(files, key=lambda f: (f.rank is None, f.rank or 0, f.path.name)))
