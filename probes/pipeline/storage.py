"""Measure how fast the files of a dataset are read: cold, from their storage, and warm, from the memory of the host.

The reads are those of the dataset for a sample: whole files, or pieces of that size; at random places if samples are
asked for by number, one after the other if the dataset gives them in its own order. Only files that this dataset was
seen opening, or holds open, are evicted from the host's memory before.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

from .files_read import ReadCounters, files_of, io_counters

CHUNK_BYTES = 1 << 20
PAGE_BYTES = 4096  # the least that a file system reads
LEAST_READ_BYTES = 1 << 10  # of a sample, so that it is taken to come from files
MOST_BYTES, MOST_PIECES = 256 << 20, 2000
FROM_STORAGE = 0.5  # of the pages, at least, so that a read counts as cold
WHOLE_FILES = 0.5  # files that are opened for a sample, at least, if each sample is a file
MUCH_LARGER = 2  # a file than a single read of it: then it is read in pieces
_SEED = 0


def storage(read: ReadCounters, dataset: Any, sample_bytes: float | None, in_order: bool, seconds: float) -> Any:
    """The answer's `storage`: how fast the files were read, or why it is not known.

    Args:
        read: of the samples that were loaded in process.
        dataset: the job's.
        sample_bytes: of a loaded sample, for files that are mapped into memory.
        in_order: whether the dataset gives samples in its own order.
        seconds: how long to read at most, cold and warm together.
    """
    opened = [path for path in read.opened if os.path.isfile(path)]
    held_open = [path for path in files_of(dataset) if path not in opened]
    files = opened + held_open
    if not files:
        return {"because": _why_no_files(read)}
    whole = _reads_whole_files(read, opened)
    piece_bytes = _piece_bytes(read, sample_bytes)
    if not whole and not piece_bytes:
        return {"because": "how many bytes of its files a sample takes is not known"}
    pieces = _whole(opened, read.opened_per_sample) if whole else _pieces(files, piece_bytes, in_order)
    return {
        "files": len(files),
        "order": "whole files" if whole else "in order" if in_order else "at random places",
        **_read_twice([path for path in files if path in {piece[0] for piece in pieces}], pieces, seconds),
    }


def _reads_whole_files(read: ReadCounters, opened: list[str]) -> bool:
    """Whether a sample is one or several whole files: each sample opens files, of the size of its reads."""
    if not opened or read.opened_per_sample < WHOLE_FILES:
        return False
    mean = sum(os.path.getsize(path) for path in opened) / len(opened)
    called = read.called_per_sample
    return called is None or mean <= MUCH_LARGER * called / read.opened_per_sample


def _why_no_files(read: ReadCounters) -> str:
    if (read.called_per_sample or 0) >= LEAST_READ_BYTES:
        return "bytes are read, and from files that Python did not open"
    where = "its data is in memory or mapped into it, made up, or comes by the network"
    return f"the dataset was seen reading no file: {where}"


def _piece_bytes(read: ReadCounters, sample_bytes: float | None) -> int:
    """Bytes that a sample reads from the files: by read calls if they are counted, else its size once loaded."""
    called = read.called_per_sample or 0.0
    return int(called if called >= 0.5 * (sample_bytes or 1.0) else sample_bytes or 0)


def _whole(files: list[str], per_sample: float) -> list[tuple[str, int, int, float]]:
    """Each file as a piece, with the number of samples that it stands for."""
    return [(path, 0, os.path.getsize(path), 1 / per_sample) for path in files]


def _pieces(files: list[str], size: int, in_order: bool) -> list[tuple[str, int, int, float]]:
    draw = random.Random(_SEED)
    sizes = [os.path.getsize(path) for path in files]
    if in_order:
        return [
            (path, offset, min(size, whole - offset), 1.0)
            for path, whole in zip(files, sizes)  # noqa: B905 - Python 3.9 has no `strict`
            for offset in range(0, min(whole, MOST_BYTES), size)
        ][:MOST_PIECES]
    chosen = draw.choices(range(len(files)), weights=sizes, k=MOST_PIECES)
    offsets = [(each, draw.randrange(max(sizes[each] - size, 0) + 1)) for each in chosen]
    return [(files[each], at, min(size, sizes[each] - at), 1.0) for each, at in offsets]


def _read_twice(files: list[str], pieces: list[tuple[str, int, int, float]], seconds: float) -> dict[str, Any]:
    evicted = _evict(files)
    before = io_counters()
    cold, done = _timed(pieces, seconds * 0.7)
    after = io_counters()
    warm, _ = _timed(pieces[:done], seconds * 0.3)
    fetched = after["read_bytes"] - before["read_bytes"] if before and after else None
    wanted = sum(-(-length // PAGE_BYTES) * PAGE_BYTES for _, _, length, _ in pieces[:done])
    return {"cold": _unless(_why_not_cold(evicted, fetched, wanted), cold), "warm": warm}


def _unless(because: str, known: dict[str, Any]) -> dict[str, Any]:
    return {"because": because} if because else known


def _why_not_cold(evicted: str, fetched: int | None, wanted: int) -> str:
    if evicted:
        return evicted
    if fetched is None:
        return "the kernel does not say what it fetched from storage"
    if fetched < FROM_STORAGE * wanted:
        return (
            "the files stayed in the host's memory: mapped by the job, new and not written yet, in use elsewhere, or "
            "of a file system that does not count what it fetches"
        )
    return ""


def _evict(files: list[str]) -> str:
    """Ask the kernel to evict these files from memory; return why it could not be asked."""
    advise: Callable[..., None] | None = getattr(os, "posix_fadvise", None)
    if advise is None:
        return "this system cannot be asked to forget a file"
    try:
        for path in files:
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                advise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(number)
    except OSError as error:
        return f"the files cannot be opened: {error.strerror}"
    return ""


def _timed(pieces: list[tuple[str, int, int, float]], seconds: float) -> tuple[dict[str, Any], int]:
    """Read the pieces until the time is up, each with its own `open`; also return the number of pieces read."""
    until, samples, size, done = time.perf_counter() + seconds, 0.0, 0, 0
    began = time.perf_counter_ns()
    for path, offset, length, each in pieces:
        if size >= MOST_BYTES or (done and time.perf_counter() > until):
            break
        size += _read(path, offset, length)
        samples += each
        done += 1
    return {"samples": samples, "bytes": size, "wall_ns": time.perf_counter_ns() - began}, done


def _read(path: str, offset: int, length: int) -> int:
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        got = 0
        while got < length:
            part = os.pread(number, min(CHUNK_BYTES, length - got), offset + got)
            if not part:
                break
            got += len(part)
        return got
    finally:
        os.close(number)
