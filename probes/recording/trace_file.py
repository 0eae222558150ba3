"""The recorded steps as one gzip file, which has its name only when complete and leaves nothing when it fails.

On the way it is completed: garbage collections go in before the first event.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ..bundle.claim import scratch_of
from ..bundle.disk import cut, in_memory
from ..protocol import OWN_STEPS, RAW, RAW_FOLDER, RAW_PARTIAL, SCRATCH, partial
from .gc_ranges import Collections, as_events

COMPRESSION = 3  # it takes a core of the job's: a little larger is much sooner
_TAIL_BYTES = 64
_HEAD_BYTES = 1 << 20
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')


def write_trace(
    profiler: Any, path: Path, collections: Collections | None = None, steps: tuple[int, int] | None = None
) -> None:
    """Export as Chrome JSON and compress to `path`; nothing is left behind if that fails.

    `steps` are the number of the first recorded step and how many there are at most: they distinguish the marks of the
    probe from those of a profiler of the job, which writes ProfilerStep ranges even while it does not record.

    A process that is killed meanwhile leaves nothing but, without a `diagnose run` above it, a partial file and an
    empty folder next to `path`.

    Raises:
        OSError: no space, no permission, or the exported file is cut.
    """
    incomplete = (scratch_of(path.parent) or path.parent) / partial(path.name)
    with _raw(path.parent, incomplete) as raw:
        profiler.export_chrome_trace(str(raw))
        _check_complete(raw)
        try:
            with raw.open("rb") as source, gzip.open(incomplete, "wb", COMPRESSION) as target:
                target.write(_with_steps(_with_collections(source.read(_HEAD_BYTES), collections), steps))
                shutil.copyfileobj(source, target, 1 << 20)
            incomplete.replace(path)
        finally:
            incomplete.unlink(missing_ok=True)


def exported_bytes(profiler: Any, path: Path) -> int:
    """Bytes of an export of `profiler` to the place of the trace `path`; the export is thrown away.

    Raises:
        OSError: as for `write_trace`.
    """
    incomplete = (scratch_of(path.parent) or path.parent) / partial(path.name)
    with _raw(path.parent, incomplete) as raw:
        profiler.export_chrome_trace(str(raw))
        _check_complete(raw)
        return raw.stat().st_size


def _with_steps(head: bytes, steps: tuple[int, int] | None) -> bytes:
    """The beginning of the text with the probe's own steps as the first entry; unchanged if the text is no object."""
    text = head.lstrip()
    if steps is None or not text.startswith(b"{"):
        return head
    return b"{" + json.dumps({OWN_STEPS: steps})[1:-1].encode() + b"," + text[1:]


def _with_collections(head: bytes, collections: Collections | None) -> bytes:
    """The beginning of the text with the collections before its first event; unchanged if it states no clock."""
    events, base = _EVENTS.search(head), _BASE.search(head)
    if collections is None or events is None or base is None:
        return head
    added = as_events(collections, os.getpid(), int(base[1]))
    return head[: events.end()] + b"".join(json.dumps(each).encode() + b",\n" for each in added) + head[events.end() :]


@contextmanager
def _raw(folder: Path, incomplete: Path) -> Iterator[Path]:
    """A path for the exporter, which only takes a name; gone afterwards.

    If possible it leads to a file without a name on the disk of `incomplete`: its space is free as soon as this process
    is gone, however it ends.
    """
    with ExitStack() as stack:
        raw_folder = _made_folder(folder)
        stack.callback(shutil.rmtree, raw_folder, ignore_errors=True)
        unnamed = _unnamed(incomplete)
        linked = False
        if unnamed is not None:
            stack.callback(os.close, unnamed)
            try:
                for name in (RAW, RAW_PARTIAL):
                    os.symlink(f"/proc/{os.getpid()}/fd/{unnamed}", raw_folder / name)
                linked = True
            except OSError:  # a file system without links: the file has its name
                (raw_folder / RAW).unlink(missing_ok=True)
        if not linked and raw_folder.parent != incomplete.parent and in_memory(raw_folder):
            raise OSError(
                f"the uncompressed trace would lie in memory, below {raw_folder.parent}: set TMPDIR to a disk"
            )
        yield raw_folder / RAW


def _made_folder(folder: Path) -> Path:
    """A folder of this call alone: in one that the parent tidies up, else next to the trace, else a temporary one."""
    failed: OSError | None = None
    for parent, prefix in ((scratch_of(folder), RAW_FOLDER), (folder, f"{SCRATCH}-"), (None, "diagnose-")):
        if (parent is None and prefix == RAW_FOLDER) or not _is_utf8(parent):
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        except OSError as error:
            failed = failed or error
    raise failed or OSError("no folder for temporary files")


def _unnamed(path: Path) -> int | None:
    """A descriptor of an empty file that had the name `path` for a moment; None if no link reaches it."""
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    os.unlink(path)
    if os.path.exists(f"/proc/{os.getpid()}/fd/{number}"):
        return number
    os.close(number)
    return None


def _is_utf8(path: Path | None) -> bool:
    """Whether the exporter, which takes no other name, can write below it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_complete(raw: Path) -> None:
    """Raise if the exported file is cut: the exporter reports no full disk, but the end of the file shows it."""
    with raw.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL_BYTES, 0))
        if not file.read().rstrip().endswith((b"}", b"]")):
            raise cut("the exported trace is cut: no space left for it on the disk?")
