"""Activity of the host in the tables of an export: calls of CUDA, and ranges of NVTX."""

from collections.abc import Iterator, Mapping

import numpy as np

from diagnose.arrays import Ints
from diagnose.trace.builder import Interner
from diagnose.trace.columns import ABSENT
from diagnose.trace.nsight import names
from diagnose.trace.nsight.database import MISSING, Database
from diagnose.trace.nsight.device_tables import kernel_name_column
from diagnose.trace.nsight.processes import CALLS, KERNELS, RANGES, ExportedProcesses, pids, tids
from diagnose.trace.nsight.rows import UNNAMED, EventRows, spelled

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
        said = text if text is not None else texts.get(number, UNNAMED)
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
