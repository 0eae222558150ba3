"""Refuse files that are not profiler traces, and explain what to pass instead."""

import re
from collections.abc import Iterable
from pathlib import Path

from diagnose.errors import UserError, printable
from diagnose.trace.vocabulary import is_of_torch

_KNOWN = (
    (rb"PK\x03\x04", "a zip archive: unpack it first"),
    (rb"SQLite format 3", "an SQLite database (of Nsight Systems or rocprof)"),
    (rb"\x80[\x02-\x05]", "a pickle (of a CUDA memory snapshot)"),
    (rb"\xff\xfe|\xfe\xff", "text in UTF-16: save it as UTF-8"),
    (rb"(?i)\s*<(?:!doctype|html|\?xml)", "a web page"),
    (rb"\s*\[\s*\[", "a memory timeline (a list of lists)"),
    (rb"(?s).*?\"?(?:\$schema|exporter)\"?.{0,80}speedscope", "a speedscope profile"),
    (rb"(?s).*?\"rocprofiler", "a rocprof result"),
    (rb"(?s)\s*\{.*?\"nodes\"\s*:", "an execution trace (Chakra)"),
    (rb"(?s)\s*\{.*?\"(?:segments|device_traces)\"\s*:", "a CUDA memory snapshot"),
    (rb"(?s)[^\x00]*\x00", "a binary file"),
    (rb"\s*\{", "JSON without a traceEvents array"),
    (rb"\s*\[", "a JSON array without profiler events"),
    (rb"", "text that is no JSON"),
)
_LOOKED_AT = 1 << 20


_LISTED = 6
_PASS = "pass what torch.profiler's export_chrome_trace wrote (.json, .gz or .zst), or the folder that holds it"


def refuse_other_tools(path: str, categories: Iterable[str]) -> None:
    """Refuses a file of events of which none has a category that torch's profiler writes.

    Raises:
        UserError: so it is.
    """
    found = sorted({*categories} - {""})
    if any(map(is_of_torch, found)):
        return
    listed = ", ".join(printable(category) for category in found[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    what = f"its events are of the categories {listed}{more}" if found else "its events have no category"
    why = f"{what}, none of which torch.profiler writes (cpu_op, user_annotation, cuda_runtime, kernel and others)"
    raise UserError("not a PyTorch profiler trace", where=path, why=why, do=_PASS)


def not_a_trace_error(path: Path, text: bytes, *, cut_off: bool = False) -> UserError:
    """The error for a file that begins with `text` and in which no list of events was found."""
    if not text.strip() and cut_off:
        return UserError("the compressed data is damaged from its start", where=path, do="copy the file again")
    if not text.strip():
        return UserError("the file is empty", where=path, do="check that the capture ended and the disk was not full")
    head = text[:_LOOKED_AT]
    kind = next(name for mark, name in _KNOWN if re.match(mark, head))
    return UserError(
        "not a PyTorch profiler trace",
        where=path,
        why=f"it looks like {kind}",
        do=_PASS,
    )
