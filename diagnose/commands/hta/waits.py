"""The targets of synchronisations, read from the text: the columns do not hold them, and few traces record them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from diagnose.arrays import Ints
from diagnose.decoding import UNREADABLE
from diagnose.trace import Trace
from diagnose.trace.source import Source

_KEY = b'"wait_on_stream"'
_LONGEST_ARGS = 1 << 12
CATEGORY = "cuda_sync"
ABSENT = -1


class _Wait(msgspec.Struct):
    """The arguments of one synchronisation; the record is the cudaEventRecord that it waits for."""

    correlation: int
    stream: int = msgspec.field(name="wait_on_stream")
    record: int = msgspec.field(default=ABSENT, name="wait_on_cuda_event_record_corr_id")


def awaited(trace: Trace) -> tuple[Ints, Ints]:
    """The stream and the correlation of the event record that each row waited for; ABSENT elsewhere; (rows,) each."""
    stream, record = np.full((2, len(trace)), ABSENT, np.int64)
    rows = np.flatnonzero(trace.rows_of(CATEGORY))
    if len(rows):
        waits = {wait.correlation: wait for wait in _waits(Path(trace.path))}
        for row in rows:
            if (wait := waits.get(int(trace.correlation[row]))) is not None:
                stream[row], record[row] = wait.stream, wait.record
    return stream, record


def _waits(path: Path) -> Iterator[_Wait]:
    text, decode = b"", msgspec.json.Decoder(_Wait).decode
    for block in Source(path).blocks():
        text += block
        at = text.find(_KEY)
        while at >= 0 and (end := text.find(b"}", at)) >= 0:
            with suppress(*UNREADABLE):  # damaged: what it waited for stays absent
                yield decode(text[text.rfind(b"{", 0, at) : end + 1])
            at = text.find(_KEY, end)
        text = text[-_LONGEST_ARGS:]
