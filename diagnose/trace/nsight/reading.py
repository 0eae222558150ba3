"""An export of Nsight Systems to the columns of a trace, as if torch's profiler had recorded the same window.

Tables are read by the columns that they have, which differ between versions. A process that works on a GPU is a rank;
of several ranks the process ids are numbered as in files that hold merged ranks.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from diagnose.arrays import Array, Ints, Mask
from diagnose.errors import UserError
from diagnose.trace.builder import DTYPES, Interner, Names, growing
from diagnose.trace.checks import without_impossible_events
from diagnose.trace.columns import ABSENT, Collectives, ReadingLoss, Trace
from diagnose.trace.merged import pids_of_rank
from diagnose.trace.nsight.about import metadata_of
from diagnose.trace.nsight.database import Database
from diagnose.trace.nsight.device_tables import device_rows
from diagnose.trace.nsight.exports import is_export
from diagnose.trace.nsight.host_tables import host_rows, texts_of
from diagnose.trace.nsight.processes import ExportedProcesses, processes_of
from diagnose.trace.nsight.rows import EventRows
from diagnose.trace.source import Watch

_LATEST_NS = 1 << 62
_BYTES_A_ROW = 64  # about, for the bar alone
_CAPTURE = "nsys profile --trace=cuda,nvtx,osrt COMMAND"


def read_export(path: Path, watch: Watch | None = None, *, held_bytes: int | None = None) -> Trace:
    """Read the trace of an SQLite export.

    Args:
        path: the database.
        watch: called with the progress of reading.
        held_bytes: columns that grow larger are kept on disk; None keeps them in memory.

    Raises:
        UserError: it is damaged, no export of Nsight Systems, or holds nothing that can be analysed.
    """
    with Database(path) as database:
        _refuse_others(database)
        processes, metadata = processes_of(database), metadata_of(database)
        reading = _Reading(processes, held_bytes)
        for rows in _all_rows(database, processes, metadata):
            reading.add(rows)
            if watch is not None:
                watch(min(reading.rows * _BYTES_A_ROW, database.size - 1), database.size)
        trace = reading.trace(path, database.size, metadata)
    if not len(trace):
        raise _empty(path, "it holds no kernels, no calls of CUDA and no NVTX ranges")
    possible = without_impossible_events(trace)
    if not len(possible):
        raise _empty(path, f"the times of all its {len(trace)} events are impossible")
    if watch is not None:
        watch(trace.size, trace.size)
    return possible


def _all_rows(database: Database, processes: ExportedProcesses, metadata: Mapping[str, Any]) -> Iterator[EventRows]:
    texts = texts_of(database)
    devices = metadata.get("deviceProperties", ())
    multiprocessors = {each["id"]: each["numSms"] for each in devices if {"id", "numSms"} <= each.keys()}
    return chain(device_rows(database, processes, texts, multiprocessors), host_rows(database, processes, texts))


def _refuse_others(database: Database) -> None:
    if not is_export(database):
        raise UserError(
            "not an export of Nsight Systems",
            where=database.path,
            why="the SQLite database has no table of CUDA's activities and none of NVTX ranges",
            do="pass what nsys export --type sqlite wrote of a report taken with --trace=cuda,nvtx",
        )


def _empty(path: Path, why: str) -> UserError:
    return UserError("nothing to analyse in the export", where=path, why=why, do=f"capture again: {_CAPTURE}")


class _Reading:
    """Rows to growing columns.

    Attributes:
        rows: how many have been kept.
    """

    def __init__(self, processes: ExportedProcesses, held_bytes: int | None) -> None:
        self.rows = 0
        self._processes, self._held_bytes = processes, held_bytes
        self._names, self._cats = Names(), Interner()
        self._columns = {name: growing(name) for name in DTYPES}
        self._loss, self._of_others = ReadingLoss(), 0

    def add(self, rows: EventRows) -> None:
        """Appends the rows of the ranks whose times are numbers."""
        rank = self._processes.ranks(rows.owner)
        timed = _is_time(rows.begin) & _is_time(rows.end)
        ours = rank != ABSENT
        if "device" in rows.others:
            self._of_others += int((~ours).sum())
        if lost := int((ours & ~timed).sum()):
            self._loss.count("non-finite-number", events=lost)
        kept = np.flatnonzero(ours & timed)
        if not len(kept):
            return
        columns: dict[str, Array] = {
            "ts": rows.begin[kept],
            "dur": rows.end[kept] - rows.begin[kept],
            "name": _interned(self._names, rows.names)[rows.name[kept]],
            "cat": _interned(self._cats, rows.cats)[rows.cat[kept]],
            "pid": self._pids(rank[kept], rows.pid[kept]),
            "tid": rows.tid[kept],
            **{name: column[kept] for name, column in rows.others.items()},
        }
        for name, dtype in DTYPES.items():
            absent = np.nan if dtype is np.float64 else ABSENT
            self._columns[name].append(np.asarray(columns.get(name, np.full(len(kept), absent)), dtype))
        self.rows += len(kept)
        self._spill()

    def _pids(self, rank: Array, pid: Array) -> Array:
        return pids_of_rank(rank, pid) if len(self._processes.keys) > 1 else pid

    def _spill(self) -> None:
        if self._held_bytes is not None and sum(c.held_bytes for c in self._columns.values()) > self._held_bytes:
            for column in self._columns.values():
                column.spill()

    def trace(self, path: Path, size: int, metadata: dict[str, Any]) -> Trace:
        """The finished columns."""
        if self._of_others:
            self._loss.count("gpu-activity-of-other-processes", events=self._of_others)
        columns: dict[str, Any] = {name: column.finished() for name, column in self._columns.items()}
        return Trace(
            path=str(path),
            size=size,
            **columns,
            names=tuple(self._names),
            cats=tuple(self._cats),
            shapes=(),
            collectives=_NO_CALLS,
            memory_reserved={},
            metadata=metadata,
            loss=self._loss,
        )


def _is_time(ns: Ints) -> Mask:
    return (ns > -_LATEST_NS) & (ns < _LATEST_NS)


def _interned(table: Interner, texts: Any) -> Array:
    return np.array([table[text] for text in texts], np.int64)


_NONE = np.zeros(0, np.int64)
_NO_CALLS = Collectives(_NONE, (), (), (), _NONE, _NONE, _NONE, _NONE, (), _NONE, _NONE)
