"""An export of Nsight Systems to the columns of a trace, as if torch's profiler had recorded the same window.

Tables are read by the columns that they have, which differ between versions. A process that works on a GPU is a rank;
of several ranks the process ids are numbered as in files that hold merged ranks.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from diagnose.arrays import ABSENT, Array, Ints, Mask
from diagnose.errors import UserError
from diagnose.trace.builder import DTYPES, Interner, Names, growing
from diagnose.trace.checks import without_impossible_events
from diagnose.trace.columns import NSIGHT, PROCESSES, Collectives, ReadingLoss, Trace
from diagnose.trace.merged import pids_of_rank
from diagnose.trace.nsight import names
from diagnose.trace.nsight.database import MISSING, Database
from diagnose.trace.nsight.device_tables import device_rows, kernel_name_column
from diagnose.trace.nsight.exports import is_export, is_of_nsight, is_of_nvprof
from diagnose.trace.nsight.processes import (
    CALLS,
    KERNELS,
    RANGES,
    ExportedProcesses,
    described,
    pids,
    processes_of,
    tids,
)
from diagnose.trace.nsight.rows import UNNAMED, EventRows, spelled
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
        processes = processes_of(database)
        metadata = metadata_of(database) | {PROCESSES: described(database, processes)}
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
    if is_of_nvprof(database):
        raise UserError(
            "a profile of nvprof, which is not read",
            where=database.path,
            why="its tables are those of nvprof and the Visual Profiler, which Nsight Systems replaced",
            do=f"record the job again: {_CAPTURE}, then nsys export --type sqlite; or with torch.profiler",
        )
    if is_of_nsight(database) and not is_export(database):
        raise _empty(database.path, "it was recorded without CUDA and NVTX: it has no table of either")
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
            memory={},
            metadata=metadata,
            loss=self._loss,
        )


def _is_time(ns: Ints) -> Mask:
    return (ns > -_LATEST_NS) & (ns < _LATEST_NS)


def _interned(table: Interner, texts: Any) -> Array:
    return np.array([table[text] for text in texts], np.int64)


_NONE = np.zeros(0, np.int64)
_NO_CALLS = Collectives(_NONE, (), (), (), _NONE, _NONE, _NONE, _NONE, (), _NONE, _NONE)
# An export's data about its machine and itself, under the names of a torch trace's top-level keys.

_DEVICES = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")  # the second is of versions before 2021.2
_OF_DEVICE = {  # the columns of newer and older versions
    "totalGlobalMem": ("totalMemory", "globalMemorySize"),
    "numSms": ("smCount", "numMultiprocessors"),
    "computeMajor": ("computeMajor", "computeCapabilityMajor"),
}
_NUMBERS = ("cuDevice", "id", "deviceId")
_MOST = {"totalGlobalMem": 1 << 50, "numSms": 1 << 16, "computeMajor": 1 << 10}
_MOST_DEVICES = 1024
_START, _EPOCH = "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"


def metadata_of(database: Database) -> dict[str, Any]:
    """The devices, when time 0 was, and that Nsight Systems recorded it."""
    metadata: dict[str, Any] = {NSIGHT: True}
    if devices := _devices(database):
        metadata["deviceProperties"] = devices
    epochs = [int(ns) for rows in database.integers(_START, (_EPOCH,)) for ns in rows[:, 0] if 0 < ns < _LATEST_NS]
    if len(epochs) == 1:  # an export of several machines has several
        metadata["baseTimeNanoseconds"] = epochs[0]
    return metadata


def _devices(database: Database) -> list[dict[str, Any]]:
    """The GPUs in the order of the table; a device id counts CUDA's devices if the table has their numbers."""
    found: list[dict[str, Any]] = []
    table = next((table for table in _DEVICES if database.columns(table)), _DEVICES[0])
    sizes = [_first_of(database, table, columns) for columns in _OF_DEVICE.values()]
    wanted = (_first_of(database, table, _NUMBERS), *sizes)
    for rows, told in database.texts(table, wanted, "name"):
        for row, name in zip(rows, told, strict=True):
            if name and len(found) < _MOST_DEVICES:
                found.append(_device(row, name))
    return found


def _first_of(database: Database, table: str, columns: Sequence[str]) -> str:
    """The first of the columns that the table has, by the version of the export."""
    return next((column for column in columns if column in database.columns(table)), columns[0])


def _device(row: Ints, name: str) -> dict[str, Any]:
    number, *sizes = row.tolist()
    device: dict[str, Any] = {"name": name}
    if number != MISSING and 0 <= number < 1 << 16:
        device["id"] = number
    for key, value in zip(_OF_DEVICE, sizes, strict=True):
        if 0 < value <= _MOST[key]:
            device[key] = value
    return device


# Activity of the host in the tables of an export: calls of CUDA, and ranges of NVTX.

_TEXTS = "StringIds"
_ALL = ("start", "end", "globalTid")
_RANGE_TYPES = (MISSING, 59, 60, 70, 71)  # pushed and popped, or started and ended; others are marks and definitions
_OPERATOR, _RANGE = 0, 1


def texts_of(database: Database) -> dict[int, str]:
    """The texts that names of events refer to; an export holds many more."""
    wanted: set[int] = set()
    for table, column in ((KERNELS, kernel_name_column(database)), (CALLS, "nameId"), (RANGES, "textId")):
        for rows in database.integers(table, (column,)):
            wanted.update(np.unique(rows).tolist())
    found: dict[int, str] = {}
    for rows, told in database.texts(_TEXTS, ("id",), "value"):
        for number, text in zip(rows[:, 0].tolist(), told, strict=True):
            if text is not None and number in wanted:
                found[number] = text
    return found


def host_rows(database: Database, processes: ExportedProcesses, texts: Mapping[int, str]) -> Iterator[EventRows]:
    """The calls of CUDA, then the ranges."""
    for block, told in database.texts(CALLS, (*_ALL, "correlationId", "nameId"), "nameId"):
        called, which = spelled(block[:, 4], told, texts, names.call)
        runtime = np.array([names.is_runtime(name) for name in called], bool)
        others = {"correlation": np.maximum(block[:, 3], ABSENT)}
        cats = ("cuda_driver", "cuda_runtime")
        yield _rows(block, processes, (called, which), (cats, runtime[which].astype(np.int64)), others)
    for block, told in database.texts(RANGES, (*_ALL, "textId", "eventType"), "text"):
        ended = np.isin(block[:, 4], _RANGE_TYPES) & (block[:, 1] != MISSING)
        yield _ranges(block[ended], [told[at] for at in np.flatnonzero(ended).tolist()], processes, texts)


def _ranges(block: Ints, told: list[str | None], processes: ExportedProcesses, texts: Mapping[int, str]) -> EventRows:
    numbers = Interner()
    name, cat = np.zeros(len(block), np.int64), np.full(len(block), _RANGE)
    for at, (text, number) in enumerate(zip(told, block[:, 3].tolist(), strict=True)):
        said = text or texts.get(number, UNNAMED)  # versions of 2019 have an empty text beside a number
        name[at] = numbers[names.range_name(said)]
        cat[at] = _OPERATOR if names.is_operator(said) else _RANGE
    return _rows(block, processes, (list(numbers), name), (("cpu_op", "user_annotation"), cat), {})


def _rows(
    block: Ints,
    processes: ExportedProcesses,
    about: tuple[list[str], Ints],
    kind: tuple[tuple[str, ...], Ints],
    others: Mapping[str, Ints],
) -> EventRows:
    begin, end, ids = block[:, :3].T
    return EventRows(begin, end, processes.owners(ids), pids(ids), tids(ids), *about, *kind, others)
