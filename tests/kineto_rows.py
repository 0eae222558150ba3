"""What surrounds the events of a Kineto trace: one event as a row, the devices, and the lines at the end."""

from __future__ import annotations

from typing import Any

GPUS = {  # name: memory in bytes, compute capability, SMs
    "NVIDIA H100 80GB HBM3": (85_017_755_648, 9, 0, 132),
    "NVIDIA A100-SXM4-80GB": (84_987_740_160, 8, 0, 108),
    "Tesla V100-SXM2-16GB": (16_945_512_448, 7, 0, 80),
}
Row = dict[str, Any]


def ns_of(us: float) -> int:
    """Whole nanoseconds."""
    return round(us * 1000)


def row_of(cat: str, name: str, begin: int, end: int, pid: int, tid: int, args: dict[str, Any]) -> Row:
    """A complete event between two times in nanoseconds."""
    times = {"ts": begin / 1000, "dur": (end - begin) / 1000}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, **times, "args": args}


def begin_of(row: Row) -> int:
    """Where the event begins, in nanoseconds."""
    ts: float = row["ts"]
    return round(ts * 1000)


def set_end(row: Row, end: int) -> None:
    """Have the event end there."""
    row["dur"] = (end - begin_of(row)) / 1000


def device_properties(gpu: str | None, world: int) -> list[Row]:
    """The devices that a process sees: all of its node, of which there are eight at most."""
    if gpu is None:
        return []
    memory, major, minor, sms = GPUS[gpu]
    one = {"name": gpu, "totalGlobalMem": memory, "computeMajor": major, "computeMinor": minor,
           "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
           "sharedMemPerBlock": 49152, "numSms": sms, "regsPerMultiprocessor": 65536,
           "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472}  # fmt: skip
    return [{"id": number, **one} for number in range(min(world, 8))]


def closing_rows(pid: int, gpu: str | None, begin: int, end: int) -> list[Row]:
    """The names of the processes, and the window of the profiler."""
    names = [(pid, "python", "CPU", pid)]
    names += [(0, "python", "GPU 0", 5_000_000)] if gpu else []
    rows = []
    for process, name, label, index in names:
        for key, args in [("process_name", {"name": name}), ("process_labels", {"labels": label}),
                          ("process_sort_index", {"sort_index": index})]:  # fmt: skip
            rows.append({"name": key, "ph": "M", "ts": begin / 1000, "pid": process, "tid": 0, "args": args})
    span = {"ph": "X", "cat": "Trace", "ts": begin / 1000, "dur": (end - begin) / 1000}
    rows.append({**span, "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)",
                 "args": {"Op count": 0}})  # fmt: skip
    for name, at in [("Iteration Start: PyTorch Profiler", begin), ("Record Window End", end)]:
        rows.append({"name": name, "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace PyTorch Profiler",
                     "ts": at / 1000})  # fmt: skip
    return rows
