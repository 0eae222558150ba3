"""Small databases as Nsight Systems exports them, made up here: tables by the columns of several of its versions."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from needs import file_beside

VARIABLE = "DIAGNOSE_NSYS_EXPORTS"
REAL = ("h100_2gpu_1s.sqlite", "mfu_2gpu_before.sqlite")
MS = 1_000_000

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
COPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RANGES = "NVTX_EVENTS"
GPUS = "TARGET_INFO_GPU"
Row = Mapping[str, object]


def real_export(name: str) -> Path:
    """A real export by its file name; the test is skipped where the folder or the file is missing."""
    return file_beside(VARIABLE, name)


def global_id(pid: int, tid: int = 0) -> int:
    """The ids of a process and thread as Nsight Systems serializes them."""
    return (1 << 56) | (pid << 24) | tid


def kernel(name: int, begin_ms: float, ms: float, pid: int = 10, device: int = 0, **more: object) -> Row:
    """A kernel whose launch has its time as correlation id."""
    times = {"start": int(begin_ms * MS), "end": int((begin_ms + ms) * MS)}
    about = {"deviceId": device, "streamId": 7, "correlationId": int(begin_ms * 1000) + 1, "globalPid": global_id(pid)}
    return {**times, **about, "demangledName": name, **more}


def launch(name: int, begin_ms: float, of_ms: float, pid: int = 10) -> Row:
    """The call that launches the kernel that begins at `of_ms`."""
    times = {"start": int(begin_ms * MS), "end": int(begin_ms * MS) + 5000}
    return {**times, "globalTid": global_id(pid, pid), "correlationId": int(of_ms * 1000) + 1, "nameId": name}


def named_range(text: str, begin_ms: float, ms: float, pid: int = 10) -> Row:
    """A range that is pushed and popped."""
    times = {"start": int(begin_ms * MS), "end": int((begin_ms + ms) * MS)}
    return {**times, "eventType": 59, "text": text, "textId": None, "globalTid": global_id(pid, pid)}


def write_export(path: Path, texts: Sequence[str], tables: Mapping[str, Iterable[Row]]) -> Path:
    """Writes a database with these tables; the texts are numbered from 0."""
    connection = sqlite3.connect(path)
    rows = {"StringIds": [{"id": at, "value": text} for at, text in enumerate(texts)]} | dict(tables)
    for table, listed in rows.items():
        held = list(listed)
        columns = list(held[0])
        quoted = ", ".join(f'"{column}"' for column in columns)
        connection.execute(f'CREATE TABLE "{table}" ({quoted})')
        marks = ", ".join("?" * len(columns))
        connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', [tuple(row.values()) for row in held])
    connection.commit()
    connection.close()
    return path


def training_export(path: Path, steps: int = 5, processes: Sequence[int] = (10,), mark: str = "iteration {}") -> Path:
    """Steps of 10 ms on each process: 6 ms of products, 2 ms of a copy to the device, 2 ms idle, in named ranges."""
    texts = ("sm90_xmma_gemm_bf16", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020")
    kernels, copies, calls, ranges = [], [], [], []
    for device, pid in enumerate(processes):
        for step in range(steps):
            at = 100.0 + 10 * step
            kernels.append(kernel(0, at + 2, 6, pid, device))
            copies.append(
                {**kernel(0, at, 2, pid, device), "bytes": 1 << 20, "copyKind": 1, "srcKind": 1, "dstKind": 2}
            )
            calls += [launch(2, at - 0.5, at, pid), launch(1, at - 0.4, at + 2, pid)]
            ranges.append(named_range(mark.format(step + 7), at - 1, 9.9, pid))
    of_copy = [{name: value for name, value in row.items() if name != "demangledName"} for row in copies]
    return write_export(path, texts, {KERNEL: kernels, COPY: of_copy, RUNTIME: calls, RANGES: ranges})
