"""Read the windows below a folder: diagnoses as they are, and runs without one by analysis.

One at a time is in memory.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
from msgspec.structs import replace

from diagnose import analysis
from diagnose.commands.fleet.answer import FleetUnread
from diagnose.commands.fleet.documents import (
    JSON_SUFFIXES,
    begins_diagnosis,
    diagnosis_at,
    is_diagnosis,
    refuse_no_json,
    stem_of,
)
from diagnose.commands.fleet.jobs import preferred
from diagnose.commands.fleet.tree import Tree
from diagnose.commands.fleet.window import FleetWindow, window_of
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable
from diagnose.errors.defects import netted
from diagnose.probes.protocol import STEP_LOG, rank_in
from diagnose.series.places import is_window
from diagnose.series.timing_log import TimingLog, read_timing_log
from diagnose.trace.discover import SUFFIXES, runs_in, traces_among
from diagnose.trace.runs import TracedRun

_RECORD = re.compile(r"capture[\w.-]*\.json")
_TOP = "."
_NAMELESS = "diagnosis"  # a file of this name is called after its folder
Watch = Callable[[str, int, int], None]  # called with the place of what is read next, what is done, and how many


@dataclass
class Read:
    """The windows and files that were read so far.

    Attributes:
        windows: each capture once.
        known: the key of the window that is kept, by the digests and the traces of all its duplicates.
        diagnoses: files that hold one.
        analysed: runs that were analysed.
        repeats: duplicates of both.
        unread: files that cannot be used.
        left: runs that were not to be analysed.
        armed_h: hours of each armed run, by its folder.
    """

    windows: dict[str, FleetWindow] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    diagnoses: int = 0
    analysed: int = 0
    repeats: int = 0
    unread: list[FleetUnread] = field(default_factory=list)
    left: int = 0
    armed_h: dict[str, float] = field(default_factory=dict)

    def take(self, window: FleetWindow | None, place: str) -> None:
        """Keep the window; of two windows of the same steps, or of the same trace, keep one."""
        if window is None:
            self.refuse(place, "no step was counted in it")
            return
        key = self.known.get(window.digest) or self.known.get(window.trace) or window.digest
        self.known |= {window.digest: key, window.trace: key}
        known = self.windows.get(key)
        self.repeats += known is not None
        self.windows[key] = window if known is None else preferred(known, window)

    def refuse(self, place: str, why: str) -> None:
        """Name a place that cannot be used."""
        self.unread.append(FleetUnread(file=printable(place) or ".", why=printable(" ".join(why.split()))))


@dataclass
class _Found:
    """Places below the folder: documents, folders with possible traces, folders of armed runs with a step log."""

    documents: list[str] = field(default_factory=list)
    runs: dict[str, list[str]] = field(default_factory=dict)
    armed: dict[str, str] = field(default_factory=dict)


def read_fleet(tree: Tree, options: analysis.Options, *, analyse: bool = True, watch: Watch | None = None) -> Read:
    """All windows of the tree.

    A run is not analysed if a diagnosis in its folder covers all its files.

    Args:
        tree: the files.
        options: for the analysis of runs without a diagnosis.
        analyse: whether these are analysed at all.
        watch: called with each file that is read.
    """
    read = Read()
    reading = _Reading(tree, options if analyse else None, _survey(tree, read), read, watch or _unwatched)
    reading.all()
    return reading.read


def _unwatched(place: str, done: int, number: int) -> None:
    pass


def _survey(tree: Tree, read: Read) -> _Found:
    found = _Found()
    for folder, names in tree.folders(read.refuse):
        logs = [name for name in names if rank_in(name, STEP_LOG) is not None]
        if logs:
            found.armed[folder] = _joined(folder, logs[0])
        for name in names:
            if name.endswith(SUFFIXES) and not _RECORD.fullmatch(name):
                place = _joined(folder, name)
                _tried(read, place, partial(_survey_file, tree, found, folder, name))
    found.runs = {folder: names for folder, names in found.runs.items() if not _is_second(folder, found)}
    return found


def _is_second(folder: str, found: _Found) -> bool:
    """Whether it holds the second window of the run above it, which is no job of its own."""
    above, _, last = folder.rpartition("/")
    return is_window(last) and above in found.runs and above not in found.armed


def _survey_file(tree: Tree, found: _Found, folder: str, name: str) -> None:
    if name.endswith(".json"):
        start = tree.start(_joined(folder, name))
        refuse_no_json(start)
        if begins_diagnosis(start):
            found.documents.append(_joined(folder, name))
            return
    found.runs.setdefault(folder, []).append(name)


def _tried(read: Read, place: str, take: Callable[[], None]) -> None:
    """Run `take`; name the place if it cannot be used, and go on."""
    try:
        netted(place, take, partial(read.refuse, place))
    except UserError as error:
        read.refuse(place, f"{error.what}: {error.why}" if error.why else error.what)
    except OSError as error:
        read.refuse(place, error.strerror or type(error).__name__)


@dataclass
class _Reading:
    """The conversion of a tree into windows; `told` are names of traces that a diagnosis in their folder covers."""

    tree: Tree
    options: analysis.Options | None
    found: _Found
    read: Read
    watch: Watch
    told: dict[str, set[str]] = field(default_factory=dict)

    def all(self) -> None:
        """Read everything, documents first, since they save the analysis of their runs."""
        takes = [(place, partial(self._document, place)) for place in self.found.documents]
        takes += [(log, partial(self._step_log, folder, log)) for folder, log in self.found.armed.items()]
        takes += [(folder, partial(self._runs, folder, names)) for folder, names in self.found.runs.items()]
        for number, (place, take) in enumerate(takes):
            self.watch(place, number, len(takes))
            _tried(self.read, place, take)

    def _document(self, place: str) -> None:
        with self.tree.here(place) as path:
            diagnosis = diagnosis_at(path)
        if diagnosis is None:
            return
        self.read.diagnoses += 1
        folder, _, name = place.rpartition("/")
        if folder in self.found.runs:
            own = ("", folder.rpartition("/")[2] or self.tree.shown.rstrip("/").rpartition("/")[2])
            files = (PurePosixPath(file) for file in diagnosis.trace.files)
            self.told.setdefault(folder, set()).update(file.name for file in files if file.parent.name in own)
        stem = stem_of(name)
        self._take(diagnosis, place, folder if stem == _NAMELESS and folder else _joined(folder, stem), folder)

    def _other_document(self, place: str, file: Path) -> None:
        """Read a document that does not begin as diagnose writes it, if it is a diagnosis."""
        if is_diagnosis(file):
            self._document(place)

    def _step_log(self, folder: str, log: str) -> None:
        with self.tree.here(log) as path:
            self.read.armed_h[folder or _TOP] = hours_of(read_timing_log(path))

    def _runs(self, folder: str, names: list[str]) -> None:
        with self.tree.here(folder) as path:
            files = [path / name for name in names if (path / name).is_file()]
            traces = {file.path for file in traces_among(files)}
            for file in files:
                if file not in traces and file.name.endswith(JSON_SUFFIXES):
                    place = _joined(folder, file.name)
                    _tried(self.read, place, partial(self._other_document, place, file))
            told = self.told.get(folder, set())
            runs = runs_in(path) if traces else []
            for run in runs:
                if not {file.path.name for file in run.files} <= told:
                    name = f"{folder or '.'}@{run.name}" if len(runs) > 1 else folder
                    _tried(self.read, name, partial(self._run, path, run, folder, name))

    def _run(self, path: Path, run: TracedRun, folder: str, name: str) -> None:
        if self.options is None:
            self.read.left += 1
            return
        diagnosis = analysis.analyze(path, options=replace(self.options, run=run.name))
        self.read.analysed += 1
        called = run.files[0].path.name.partition(".")[0] if len(run.files) == 1 and "@" in name else run.name
        self._take(diagnosis, name or _TOP, _joined(folder, called) if "@" in name else folder or called, folder)

    def _take(self, diagnosis: Diagnosis, place: str, name: str, folder: str) -> None:
        """Take the window of a diagnosis; one in the folder of an armed run belongs to that run, and has its name."""
        above, _, last = folder.rpartition("/")
        armed = self.found.armed
        of_run = above if is_window(last) and above in armed else folder if folder in armed else None
        if of_run is None:
            window = window_of(diagnosis, place, name)
        else:
            window = window_of(diagnosis, place, of_run or name, of_run or _TOP)
        self.read.take(window, place)


def hours_of(log: TimingLog) -> float:
    """Hours of an armed run by the clock of its log; the time between an end and the next begin is left out."""
    seconds, before = 0.0, None
    for number, (_, covers, us, ended_s) in enumerate(log.blocks):
        own_s = float(us.astype(np.float64).sum()) * covers / 1e6
        resumed = before is None or number in log.restarts
        seconds += own_s if resumed else max(ended_s - before, own_s)  # type: ignore[operator]
        before = ended_s
    return seconds / 3600


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
