"""Activities of a GPU in the tables of an export: kernels, graphs, copies, fills, and waits for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from diagnose.arrays import ABSENT, Array, Floats, Ints
from diagnose.trace.nsight import names
from diagnose.trace.nsight.database import Database
from diagnose.trace.nsight.processes import COPIES, FILLS, GRAPHS, KERNELS, ExportedProcesses
from diagnose.trace.nsight.rows import EventRows, named, spelled
from diagnose.trace.numbers import within

WAITS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_ALL = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
_KERNEL_NAMES = ("demangledName", "shortName", "name", "nameId", "mangledName")  # the first that a version has
_SHAPE = ("blockX", "blockY", "blockZ", "gridX", "gridY", "gridZ")
_KINDS: Mapping[str, tuple[str, tuple[str, ...], Callable[..., str]]] = {
    GRAPHS: ("kernel", (), lambda: names.GRAPH),
    COPIES: ("gpu_memcpy", ("copyKind", "srcKind", "dstKind"), names.copy),
    FILLS: ("gpu_memset", ("memKind",), names.fill),
    WAITS: ("cuda_sync", ("syncType",), names.synchronisation),
}
_MOST_BYTES, _MOST_BLOCK_THREADS, _MOST_DEVICES, _MOST_STREAMS = 1 << 50, 1024, 1 << 16, (1 << 31) - 1


def kernel_name_column(database: Database) -> str:
    """The column that refers to the names of kernels, by the version of the export."""
    return next((name for name in _KERNEL_NAMES if name in database.columns(KERNELS)), _KERNEL_NAMES[0])


def device_rows(
    database: Database, processes: ExportedProcesses, texts: Mapping[int, str], multiprocessors: Mapping[int, int]
) -> Iterator[EventRows]:
    """The activities, table by table.

    Args:
        database: the export.
        processes: its ranks.
        texts: the names of kernels by their numbers.
        multiprocessors: number of multiprocessors of each device, if known.
    """
    name = kernel_name_column(database)
    for block, told in database.texts(KERNELS, (*_ALL, name, *_SHAPE), name):
        about = spelled(block[:, 6], told, texts, names.kernel)
        spread = _spread(block[:, 7:], block[:, 3], multiprocessors)
        yield _rows(block, processes, "kernel", about, spread)
    for table, (category, columns, name_of) in _KINDS.items():
        for block in database.integers(table, (*_ALL, "bytes", *columns)):
            about = named(block[:, 7:], name_of) if columns else ([name_of()], np.zeros(len(block), np.int64))
            yield _rows(block, processes, category, about, {"bytes": within(block[:, 6], _MOST_BYTES)})


def _rows(
    block: Ints,
    processes: ExportedProcesses,
    category: str,
    about: tuple[Sequence[str], Ints],
    others: Mapping[str, Array],
) -> EventRows:
    begin, end, ids, device, stream, correlation = block[:, :6].T
    device, stream = within(device, _MOST_DEVICES), within(stream, _MOST_STREAMS)
    return EventRows(
        begin=begin,
        end=end,
        owner=processes.owners(ids, device),
        pid=np.maximum(device, 0),
        tid=stream,
        names=about[0],
        name=about[1],
        cats=(category,),
        cat=np.zeros(len(block), np.int64),
        others={"device": device, "stream": stream, "correlation": np.maximum(correlation, ABSENT), **others},
    )


def _spread(shape: Ints, device: Ints, multiprocessors: Mapping[int, int]) -> dict[str, Array]:
    """Threads of a block, and all blocks over the multiprocessors, as Kineto spreads them."""
    sizes = np.where(shape > 0, shape, 0).astype(np.float64)
    threads: Floats = sizes[:, :3].prod(axis=1)
    count = np.full(len(shape), np.nan)
    for number, each in multiprocessors.items():
        count[device == number] = each
    blocks = sizes[:, 3:].prod(axis=1) / count
    sound = (threads >= 1) & (threads <= _MOST_BLOCK_THREADS)
    return {
        "block_threads": np.where(sound, threads, ABSENT),
        "blocks_per_sm": np.where(blocks > 0, blocks, np.nan),
    }
