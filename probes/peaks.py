"""Rates that this machine reaches: products of matrices, copies, an all-reduce between local ranks, its disk.

`python -m diagnose.probes.peaks REQUEST` runs in a process of its own and prints a line of JSON for each rate as soon
as it is measured: the value, or why there is none. Each is the median of repeats behind a warm-up, on random data, with
inputs that take turns so that none stays in a cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import torch

REPEATS = 12
WITHIN_S = 1.5  # of one rate, if a call takes long
COPIED_BYTES = {"cuda": 1 << 29, "cpu": 1 << 27}
REDUCED_BYTES = {"cuda": 1 << 28, "cpu": 1 << 24}
FILE_BYTES = 1 << 28
_RANKS_WITHIN_S = 40.0
_BEHIND = 4
_CHUNK = 1 << 22
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32}
OF_PLACE = {"cuda": ("bf16", "tf32"), "cpu": ("bf16", "fp32")}

Rate = dict[str, Any]


def place() -> str:
    """The device to measure: the GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def seconds(calls: Sequence[Callable[[], Any]], repeats: int = REPEATS, on: str = "") -> float:
    """The median of one call, of several that take turns; on a GPU by events."""
    began = time.perf_counter()
    for n in range(_BEHIND):
        calls[n % len(calls)]()
        if on == "cpu" and time.perf_counter() - began > WITHIN_S:
            break
    return _on_device(calls, repeats) if (on or place()) == "cuda" else _on_host(calls, repeats)


def _on_host(calls: Sequence[Callable[[], Any]], repeats: int) -> float:
    times: list[float] = []
    until = time.perf_counter() + WITHIN_S
    for n in range(repeats):
        since = time.perf_counter()
        calls[n % len(calls)]()
        times.append(time.perf_counter() - since)
        if n >= 2 and time.perf_counter() > until:
            break
    return median(times)


def _on_device(calls: Sequence[Callable[[], Any]], repeats: int) -> float:
    torch.cuda.synchronize()
    marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for n, (begin, end) in enumerate(marks):
        begin.record()
        calls[n % len(calls)]()
        end.record()
    torch.cuda.synchronize()
    return float(median(begin.elapsed_time(end) for begin, end in marks)) / 1e3


def product(m: int, n: int, k: int, dtype: torch.dtype, on: str = "") -> float:
    """FLOP/s of a product of two random matrices."""
    where = on or place()
    pairs = [
        (torch.randn(m, k, device=where).to(dtype), torch.randn(k, n, device=where).to(dtype))
        for _ in range(2 if m * n < 1e9 else 1)
    ]
    return 2 * m * n * k / seconds([lambda a=a, b=b: a @ b for a, b in pairs], on=where)  # type: ignore[misc]


def memory(on: str) -> dict[str, float]:
    """Bytes a second of a copy, which reads and writes, and of a sum, which reads."""
    size = COPIED_BYTES[on]
    x, y = (torch.randn(size // 4, device=on) for _ in range(2))
    return {
        "memory copy": 2 * size / seconds([lambda: y.copy_(x)], on=on),
        "memory read": size / seconds([lambda: x.sum()], on=on),
    }


def host_copies(size: int = 1 << 28) -> dict[str, float]:
    """Bytes a second between host and device."""
    pageable, there = torch.empty(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8, device="cuda")
    pinned = pageable.pin_memory()
    calls: dict[str, Callable[[], Any]] = {
        "pinned to device": lambda: there.copy_(pinned, non_blocking=True),
        "pageable to device": lambda: there.copy_(pageable),
        "device to pinned": lambda: pinned.copy_(there, non_blocking=True),
    }
    return {name: size / seconds([call], on="cuda") for name, call in calls.items()}


def disk(folder: str) -> dict[str, float]:
    """Bytes a second of a file that is written to the disk and read back from it, page cache apart if that can be."""
    block = os.urandom(_CHUNK)
    with tempfile.TemporaryFile(dir=folder) as file:
        since = time.perf_counter()
        written = 0
        while written < FILE_BYTES and time.perf_counter() - since < WITHIN_S:
            written += file.write(block)
        file.flush()
        os.fsync(file.fileno())
        wrote_s = time.perf_counter() - since
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        since = time.perf_counter()
        while file.read(_CHUNK):
            pass
        return {"disk write": written / wrote_s, "disk read": written / (time.perf_counter() - since)}


def all_reduce() -> dict[str, float]:
    """Bytes a second on the bus of an all-reduce between the GPUs of this host, else between two processes of it.

    Raises:
        RuntimeError: a rank ended without a result.
    """
    gpus = torch.cuda.device_count()
    backend, ranks = ("nccl", gpus) if gpus > 1 else ("gloo", 2)
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "rank", backend, str(ranks), folder]
        started = [subprocess.Popen([*words, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
        try:
            said = [process.communicate(timeout=_RANKS_WITHIN_S)[0] for process in started]
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"the ranks did not meet within {_RANKS_WITHIN_S:.0f} s") from None
        finally:
            for process in started:
                process.kill()
                process.wait()
    if any(process.returncode for process in started):
        raise RuntimeError("a rank ended with an error")
    return {f"all-reduce of {ranks} ranks, {backend}": min(map(float, said))}


def _rank(backend: str, ranks: int, folder: str, rank: int) -> None:
    """Print bus bytes a second of one rank: each byte crosses it 2 (n - 1) / n times."""
    on = "cuda" if backend == "nccl" else "cpu"
    if on == "cuda":
        torch.cuda.set_device(rank)
    store = torch.distributed.FileStore(os.path.join(folder, "store"), ranks)
    torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    size = REDUCED_BYTES[on]
    tensor = torch.ones(size // 4, device=on)
    took: list[float] = []
    for _ in range(REPEATS):
        torch.distributed.barrier()
        since = time.perf_counter()
        torch.distributed.all_reduce(tensor)
        if on == "cuda":
            torch.cuda.synchronize()
        took.append(time.perf_counter() - since)
    print(2 * (ranks - 1) / ranks * size / median(took[2:]))
    torch.distributed.destroy_process_group()


def rates(request: Mapping[str, Any]) -> Iterator[Rate]:
    """Each rate as it is measured; `request` has the products of each device, and the folder of the disk."""
    for on in dict.fromkeys((place(), "cpu")):
        for name, m, n, k in request["products"][on]:
            for precision in OF_PLACE[on]:
                torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
                size = {"on": on, "precision": precision, "size": [m, n, k]}
                value, because = _tried(lambda: product(m, n, k, DTYPES[precision], on))  # noqa: B023 - called here
                yield {"name": name, "unit": "flops_per_s", "value": value, "because": because, **size}
        yield from _each(("memory copy", "memory read"), lambda: memory(on), on)  # noqa: B023
    on = place()
    if on == "cuda":
        yield from _each(("pinned to device",), host_copies, on)
    yield from _each(("all-reduce",), all_reduce, on)
    yield from _each(("disk write", "disk read"), lambda: disk(request["folder"]), "cpu")


def _each(names: Sequence[str], measured: Callable[[], dict[str, float]], on: str) -> Iterator[Rate]:
    found, because = _tried(measured)
    for name, value in (found or dict.fromkeys(names)).items():
        yield {"name": name, "unit": "bytes_per_s", "value": value, "because": because, "on": on}


def _tried(measured: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return measured(), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _about() -> dict[str, Any]:
    if place() == "cpu":
        return {"device": "", "memory_bytes": 0, "torch": torch.__version__, "threads": torch.get_num_threads()}
    of = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {"device": of.name, "memory_bytes": of.total_memory, "torch": torch.__version__,
            "threads": torch.get_num_threads()}  # fmt: skip


def main(words: Sequence[str]) -> None:
    """Print what the request asks for, or be one rank of the all-reduce."""
    if words[0] == "rank":
        _rank(words[1], int(words[2]), words[3], int(words[4]))
        return
    print(json.dumps(_about()), flush=True)
    for rate in rates(json.loads(words[0])):
        print(json.dumps(rate), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
