"""One trace file to columns: streamed in chunks that are cut at event boundaries, whatever the text layout.

A chunk is decoded in one typed pass. Only a chunk that fails is taken apart event by event and repaired. How the file
falls into blocks does not change the result.
"""

import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnose.errors import UserError, printable
from diagnose.trace.arguments import Arguments
from diagnose.trace.background import second_thread
from diagnose.trace.boundaries import BOUNDARY_BYTES, PROBABLE_END, last_boundary
from diagnose.trace.builder import ColumnBuilder
from diagnose.trace.checks import without_impossible_events
from diagnose.trace.chunks import Chunks
from diagnose.trace.columns import ReadingLoss, Trace
from diagnose.trace.metadata import top_level_keys
from diagnose.trace.nsight import is_database
from diagnose.trace.salvage import Salvage, hopeless
from diagnose.trace.shares import ReadShare, Share, ShareText, Unsplittable, joined
from diagnose.trace.source import Source, Watch
from diagnose.trace.vocabulary import is_of_torch

if TYPE_CHECKING:
    from concurrent.futures import Executor

NOTHING: frozenset[str] = frozenset()
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_LIST = re.compile(rb"\s*\[\s*[{\]]")
_HEAD_LIMIT = 64 << 20
_LARGEST_EVENT = 64 << 20
_LARGEST_TAIL = 64 << 20


def read(
    path: Path,
    watch: Watch | None = None,
    *,
    held_bytes: int | None = None,
    left_out: frozenset[str] = NOTHING,
    ahead: bool = False,
) -> Trace:
    """Read one `.json`, `.json.gz` or `.json.zst` trace, or an SQLite export of Nsight Systems.

    Args:
        path: the file; its content decides how it is unpacked, not its name.
        watch: called with the progress of reading.
        held_bytes: columns that grow larger are kept on disk, in files without a name; None keeps them in memory.
        left_out: categories, in lower case, whose events are not kept; `Trace.left_out` counts them.
        ahead: whether another thread scans a block while this one reads, unpacks and cuts the next.

    Raises:
        UserError: the file cannot be read, is empty, is not a profiler trace, or holds no complete event.
    """
    if is_database(path):
        from diagnose.trace.nsight.reading import read_export  # brings SQLite

        return read_export(path, watch, held_bytes=held_bytes)
    builder = ColumnBuilder(held_bytes, left_out)
    if not ahead:
        return trace_of([read_part(path, watch=watch, builder=builder)])
    with second_thread() as thread:
        return trace_of([read_part(path, watch=watch, builder=builder, ahead=thread)])


def read_part(
    path: Path,
    share: Share | None = None,
    watch: Watch | None = None,
    builder: ColumnBuilder | None = None,
    ahead: "Executor | None" = None,
) -> ReadShare:
    """Reads one share of the file, all of it by default, into the columns of `builder`.

    Raises:
        UserError: as `read` does.
        Unsplittable: the share cannot be read without the rest of the file.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of short-lived structs make the collector scan for nothing
    try:
        return _Reader(path, share or Share(), ColumnBuilder() if builder is None else builder, ahead).read(watch)
    finally:
        if collecting:
            gc.enable()


def trace_of(parts: Sequence[ReadShare]) -> Trace:
    """The trace of the file that the parts make up.

    Raises:
        UserError: it holds no complete event.
        Unsplittable: the parts do not add up to the file.
    """
    part = joined(parts)
    trace, loss = _with_arguments(part.trace), part.trace.loss
    if part.tail is None or part.truncated:
        loss.truncated = True
        loss.count("truncated")
    is_list = not part.head.strip()
    metadata = top_level_keys(b"" if is_list else part.head, part.tail, loss)
    _refuse_if_empty(part, metadata)
    if part.not_finite:
        loss.count("non-finite-number", events=part.not_finite)
    if part.without_phase:
        loss.count("event-without-phase", events=part.without_phase)
    refuse_other_tools(trace.path, (*trace.cats, *trace.left_out))
    possible = without_impossible_events(replace(trace, metadata=metadata))
    if not len(possible):
        why = f"the times of all its {len(trace)} events are impossible"
        raise UserError("nothing to analyse in the trace", where=trace.path, why=why, do="capture again")
    return possible


def _with_arguments(trace: Trace) -> Trace:
    """The trace whose `shapes` are decoded; arguments that cannot be are booked in its loss."""
    arguments = Arguments()
    shapes = arguments.decoded(trace.shapes)
    if arguments.damaged:
        trace.loss.count("unreadable-arguments")
    return replace(trace, shapes=shapes)


@dataclass
class _Reader:
    path: Path
    share: Share
    builder: ColumnBuilder
    ahead: "Executor | None" = None
    ended: bool = False

    def __post_init__(self) -> None:
        self.chunks = Chunks(self.builder, self.ahead)
        self.salvage = Salvage(self.path, self.builder, ReadingLoss())

    def read(self, watch: Watch | None = None) -> ReadShare:
        source = Source(self.path, watch, self.share.begin)
        text = self._share_of(source)
        blocks = text.blocks()
        head, start = self._head(source, blocks) if self.share.begin == 0 else (b"", b"")
        rest = self._stream(start, blocks)
        self.chunks.put_held()
        self.ended = text.end is None
        if not self.ended:
            self._decode(rest)
        elif self.salvage.tail is None and text.begin is not None:
            self._finish(rest)
        self.chunks.put_held()
        builder = self.builder
        return ReadShare(
            trace=builder.trace(str(self.path), source.bytes_read, self.salvage.loss),
            head=head,
            tail=None if self.salvage.tail is None else bytes(self.salvage.tail),
            begin=text.begin,
            end=text.end,
            truncated=source.truncated,
            seen=builder.seen,
            not_finite=builder.not_finite,
            without_phase=builder.without_phase,
        )

    def _share_of(self, source: Source) -> ShareText:
        blocks = source.blocks()
        first = next(blocks, b"")
        return ShareText(self.share, chain([first], blocks), source.bytes_read - len(first))

    def _head(self, source: Source, blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
        """The text before the list of events, and what of the list came with it."""
        text = bytearray()
        for block in blocks:
            searched = max(0, len(text) - BOUNDARY_BYTES)
            text += block
            if _LIST.match(text):
                return b"", bytes(text[text.index(b"[") + 1 :])
            if match := _EVENTS_KEY.search(text, searched):
                return bytes(text[: match.start()]), bytes(text[match.end() :])
            if len(text) > _HEAD_LIMIT:
                break
        raise not_a_trace_error(self.path, bytes(text), cut_off=source.truncated)

    def _stream(self, text: bytes, blocks: Iterator[bytes]) -> bytes:
        """Decodes all that a boundary follows; the text after the last boundary."""
        for block in blocks:
            text = self._settled() + text
            if self.salvage.tail is None:
                text = self._begun(text, block)
                if len(text) > _LARGEST_EVENT:
                    raise hopeless(
                        self.path, "an event of more than 64 MiB: this is no profiler trace, or it is badly damaged"
                    )
            else:
                text += block
            text = self._kept(text)
        return self._kept(self._settled() + text)

    def _kept(self, text: bytes) -> bytes:
        """The text, but for what follows the list of events."""
        if self.salvage.tail is None:
            return text
        self.salvage.tail += text[: max(_LARGEST_TAIL - len(self.salvage.tail), 0)]
        return b""

    def _begun(self, text: bytes, block: bytes) -> bytes:
        """Begins to decode the whole events of `text` and the block that follows it; the text behind them."""
        if cut := last_boundary(block, 0):
            self.chunks.begin(text, memoryview(block)[:cut])
            return block[cut:]
        text += block
        cut = last_boundary(text, max(len(text) - len(block) - BOUNDARY_BYTES, 0))
        if cut:
            self.chunks.begin(text[:cut])
        return text[cut:]

    def _finish(self, text: bytes) -> None:
        """Decodes the rest, in one typed pass if what looks like the end of the list is it."""
        cut = last_boundary(text, 0)
        end = PROBABLE_END.search(text)
        if end is not None:
            self.chunks.begin(text[: end.start(1)])
            if not self.chunks.settled():
                self.salvage.tail = bytearray(text[end.end() :])
                return
        kept = self._decode(text[:cut]) if cut else b""
        if self.salvage.tail is None:
            self.salvage.events(kept + text[cut:], last=True)
        else:
            self.salvage.tail += text[cut:]

    def _decode(self, text: bytes) -> bytes:
        """Decode whole events; return the rest, which depends on the text that follows."""
        self.chunks.begin(text)
        left = self._settled()
        self.chunks.put_held()
        return left

    def _settled(self) -> bytes:
        """Wait for the events begun last; return the rest, which depends on the text that follows."""
        odd = self.chunks.settled()
        if not odd:
            return b""
        if self.share.end is not None and not self.ended:
            raise Unsplittable
        return self.salvage.events(odd, last=False)


def _refuse_if_empty(part: ReadShare, metadata: dict[str, Any]) -> None:
    if len(part.trace):
        return
    lost, left_out = part.trace.loss.events + part.not_finite, sum(part.trace.left_out.values())
    if not part.head.strip() and not (part.seen or lost or left_out):
        raise not_a_trace_error(Path(part.trace.path), b"[")
    if lost:
        why = f"none of its {lost} events can be read"
    elif left_out:
        why = f"its {left_out} events are of kinds that are left out"
    elif part.seen:
        why = f"it holds {part.seen} metadata records and no event with a duration"
    else:
        why = "its list of events is empty" + (" (the profiler wrote only metadata)" if metadata else "")
    raise UserError(
        "nothing to analyse in the trace", where=part.trace.path, why=why, do="capture at least one complete step"
    )


# Refuse files that are not profiler traces, and explain what to pass instead.

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
_OF_EVENT_LIST = re.compile(rb'"pid"\s*:\s*"(?:CPU|CUDA) functions"')
_PASS = "pass what torch.profiler's export_chrome_trace wrote (.json, .gz or .zst), or the folder that holds it"


def refuse_other_tools(path: str, categories: Iterable[str]) -> None:
    """Refuses a file of events of which none has a category that torch's profiler writes.

    Raises:
        UserError: so it is.
    """
    found = sorted({*categories} - {""})
    if any(map(is_of_torch, found)):
        return
    if _is_of_event_list(Path(path)):
        raise UserError(
            "a legacy trace of torch.autograd.profiler",
            where=path,
            why="EventList.export_chrome_trace wrote it: operators alone, without kernels, launches and steps",
            do="profile with torch.profiler.profile(activities=[CPU, CUDA]), and call its own export_chrome_trace"
            " (not that of p.events()); or diagnose run -- COMMAND",
        )
    listed = ", ".join(printable(category) for category in found[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    what = f"its events are of the categories {listed}{more}" if found else "its events have no category"
    why = f"{what}, none of which torch.profiler writes (cpu_op, user_annotation, cuda_runtime, kernel and others)"
    raise UserError("not a PyTorch profiler trace", where=path, why=why, do=_PASS)


def _is_of_event_list(path: Path) -> bool:
    """Whether torch's `EventList.export_chrome_trace` wrote the file: all that it draws is in two made-up processes."""
    start = next(Source(path).blocks(), b"")[:_LOOKED_AT]
    return _OF_EVENT_LIST.search(start) is not None


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
