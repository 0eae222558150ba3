"""Execution traces of torch (Chakra): they supply shapes that a profiler's trace of the same process lacks.

An operator has one number in both, `rf_id` in the nodes of torch's ExecutionTraceObserver and "Record function id" in a
trace that was recorded at the same time. The process and the names of the operators show whether they belong together.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from diagnose.arrays import ABSENT, Ids
from diagnose.errors import UserError, pass_over
from diagnose.trace.arguments import Arguments
from diagnose.trace.columns import Json, Trace
from diagnose.trace.source import Source

FOREIGN, UNREADABLE = "foreign-execution-trace", "unreadable-execution-trace"  # kinds of loss
SHAPES_OF = "shapesOf"  # the key of the trace's metadata that names the file with its shapes
_SUFFIXES = (".json", ".json.gz", ".json.zst")
_SCHEMA = re.compile(rb'"schema"\s*:\s*"[^"]*chakra')
_PID = re.compile(rb'"pid"\s*:\s*(\d{1,10})\b')
_NUMBERS = re.compile(rb'"External id"\s*:\s*(\d{1,18})\b[^{}]{0,1000}?"Record function id"\s*:\s*(\d{1,18})\b')
_PEEKED_BYTES = 4096
_MOST_BYTES = 1 << 30
_LONGEST_BETWEEN = 1 << 20  # bytes that are kept for the next block
_BELONGS = 0.99  # of the operators that both have, those with one name

Recorded = tuple[Json, Json, Json]  # sizes, types and values of an operator's arguments


class _Attribute(msgspec.Struct, gc=False):
    name: str = ""
    value: Any = None


class _Inputs(msgspec.Struct, gc=False):
    values: list[Any] = []
    shapes: list[Any] = []
    types: list[str] = []


class _Node(msgspec.Struct, gc=False):
    name: str = ""
    inputs: _Inputs = msgspec.field(default_factory=_Inputs)
    attrs: list[_Attribute] = []


class _Document(msgspec.Struct):
    nodes: list[_Node]


class _File(NamedTuple):
    path: Path
    pid: int


_decode = msgspec.json.Decoder(_Document).decode


def with_shapes(trace: Trace) -> Trace:
    """Return the trace with shapes from the execution trace in its folder, if it has none and both are of one run.

    An execution trace that cannot be used is counted as lost.
    """
    operators = np.flatnonzero(trace.rows_of("cpu_op") & (trace.external_id > 0))
    if trace.of_nsight or not len(operators) or (trace.shape != ABSENT).any():
        return trace
    if not (there := _beside(Path(trace.path))):
        return trace
    pids = set(np.unique(trace.pid[operators]).tolist())
    own = next((file for file in there if file.pid in pids), None)
    try:
        shapes, shape = ((), None) if own is None else _matched(trace, operators, own.path)
    except (UserError, OSError, msgspec.MsgspecError, ValueError, RecursionError):
        trace.loss.count(UNREADABLE)
        return trace
    if own is None or shape is None:
        trace.loss.count(FOREIGN)
        return trace
    return replace(trace, shape=shape, shapes=shapes, metadata={**trace.metadata, SHAPES_OF: own.path.name})


def _beside(path: Path) -> tuple[_File, ...]:
    try:
        return _execution_traces(path.parent, path.parent.stat().st_mtime_ns)
    except OSError as error:
        pass_over(error)
        return ()


@lru_cache(maxsize=8)
def _execution_traces(folder: Path, _changed_ns: int) -> tuple[_File, ...]:
    """The execution traces of the folder with their processes: searched once for all ranks of an analysis."""
    files = (path for path in sorted(folder.iterdir()) if path.name.endswith(_SUFFIXES) and path.is_file())
    return tuple(file for path in files if (file := _execution_trace(path)) is not None)


def look_again() -> None:
    """Forgets what was found: files may be written to and leave their folder as it is."""
    _execution_traces.cache_clear()


def _execution_trace(path: Path) -> _File | None:
    try:
        begin = next(iter(Source(path).blocks()), b"")[:_PEEKED_BYTES]
    except UserError as error:
        pass_over(error)
        return None
    pid = _PID.search(begin)
    return _File(path, int(pid[1])) if pid and _SCHEMA.search(begin) else None


def _matched(trace: Trace, operators: Any, file: Path) -> tuple[tuple[Recorded, ...], Ids | None]:
    """The shapes, and the index of each event's; None if the operators of the file do not match."""
    arguments = _arguments_of(file)
    numbers = dict(_numbers_of(Path(trace.path)))
    shapes: dict[Recorded, int] = {}
    shape = np.full(len(trace), ABSENT, np.int32)
    both = same = 0
    for row in operators.tolist():
        found = arguments.get(numbers.get(int(trace.external_id[row]), 0))
        if found is not None:
            both += 1
            if found[0] == trace.names[trace.name[row]]:
                same += 1
                shape[row] = shapes.setdefault(found[1], len(shapes))
    if not same or same < _BELONGS * both:
        return (), None
    return Arguments().decoded(shapes), shape


def _arguments_of(file: Path) -> Mapping[int, tuple[str, Recorded]]:
    """The name and arguments of each operator, by its number.

    Raises:
        UserError, ValueError: the file cannot be read, is too large, or is none.
    """
    text = bytearray()
    for block in Source(file).blocks():
        text += block
        if len(text) > _MOST_BYTES:
            raise ValueError("too large")
    found: dict[int, tuple[str, Recorded]] = {}
    for node in _decode(text).nodes:
        number = next((one.value for one in node.attrs if one.name == "rf_id"), 0)
        if isinstance(number, int) and number > 0:
            found[number] = (node.name, _as_recorded(node.inputs))
    return found


def _numbers_of(path: Path) -> Iterator[tuple[int, int]]:
    """The external id of each operator of a trace, with its number."""
    rest = b""
    for block in Source(path).blocks():
        text = rest + block
        cut = text.rfind(b"}") + 1
        for pair in _NUMBERS.finditer(text, 0, cut):
            yield int(pair[1]), int(pair[2])
        rest = text[cut:][-_LONGEST_BETWEEN:]


def _as_recorded(inputs: _Inputs) -> Recorded:
    """The arguments as a trace of torch.profiler has them."""
    types = [_type(one) for one in inputs.types]
    sized = zip(inputs.shapes, types, strict=False)
    sizes = [shape if kind not in ("", "Scalar", "ScalarList") else [] for shape, kind in sized]
    valued = zip(inputs.values, types, strict=False)
    values = [_text(value) if kind in ("Scalar", "ScalarList") else "" for value, kind in valued]
    return (msgspec.json.encode(sizes), msgspec.json.encode(types), msgspec.json.encode(values))


def _type(told: str) -> str:
    """The element type of a tensor, as float of "Tensor(float)", or the profiler's word for other values; else ""."""
    if told.startswith("Tensor("):
        return told[len("Tensor(") :].rstrip(")")
    if told.startswith("GenericList["):
        return "TensorList" if "Tensor" in told else "ScalarList"
    return "Scalar" if told in ("Int", "Double", "Bool") else ""


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return str(value) if isinstance(value, bool | int | float) else ""
