"""Traces whose fields are usual or odd, and what both readers make of them.

    python tests/scanned_texts.py 10000 --seed 1 --module build/_scanner.so

tries as many, and ends with 1 and the text where the readers differ. `--module` is another build of the compiled one,
which gets each text in memory of its own, so that a sanitizer sees what is read beyond it.
"""

import argparse
import math
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from compiled_builds import module_at

from diagnose.errors import UserError
from diagnose.trace import Collectives, Trace, read, scanning, source

VARIABLE = "DIAGNOSE_READER"
_NUMBERS = (
    "0 -0 -1 1 7 12345 10.5 -1.0 -0.0004 0.0005 0.0015 0.0025 12.3456 1e3 1.5E-3 2E+2 1e400 1e22 1. 01 - .5 NaN "
    "Infinity -Infinity 2629566610050.123 1712195495519689.047 1712195495519689.5 1712195495519689.0475 "
    "1623142623606115 8796093022208 8796093022207.999 8796093022207.9996 8796093022208.0004 -8796093022208.5 "
    "4611686018427387.903 4611686018427387.904 4611686018427387903 4611686018427387904 999999999999999999 "
    "9223372036854775807 9223372036854775808 -9223372036854775808 18446744073709551616 9007199254740993 "
    "9007199254740993.0 123456789012345678901 0.1234567890123456789012345 1.7e18 2251799813685248.0001220703125 "
    f"{'1' * 70} {'1' * 4400} 0.{'0' * 30}1 5e-324 1{'0' * 22}.5"
).split()
_TEXTS = [
    b'"stream 7"', b'"7"', b'""', b'" 7 "', b'"-1"', b'"+5"', b'"1_0"', b'"1e3"', b'"nan"',
    b'"Trace PyTorch Profiler"',
    b'"9007199254740993 "', b'"-9223372036854775808"', b'"12345678901234567890"', b'"\\u0037"', b'"\xc3\xa9"',
    b'"\xd9\xa7"',
    b'"\\ud83d\\ude00"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\q"', b'"\\u12"', b'"\xff"', b'"a\x01"',
    b'"a\x7f\\/\\b"',
    b'"' + b"x" * 4097 + b'"', b'"' + b"x" * 4096 + b'y"', b'"},{\\"ph\\":\\"X\\"},{"',
    b'"[memory]"', b'"[memor\\u0079]"',
]  # fmt: skip
_OTHERS = [
    b"null", b"true", b"false", b"nul", b"[]", b"{}", b"[1,[2,{}]]", b'{"a":{"b":[]},"a":1}', b"[1,]", b"[1 2]",
    b'{"a"}',
    b"[" * 60 + b"]" * 60, b"[" * 70 + b"]" * 70, b'["c10::BFloat16", ""]', b"[[4, 8], [ 8,2 ]]", b'["\xff"]', b"",
]  # fmt: skip
_ODD = [*(number.encode() for number in _NUMBERS), *_TEXTS, *_OTHERS]
_PHASES = [b'"X"'] * 12 + [b'"i"', b'"M"', b'"s"', b'"f"', b'"C"', b'"B"']
_NAMES = [b'"aten::mm"', b'"gemm"', b'"void f<int, (bool)1>(T*)"', b'"[memory]"', b'"a \\"b\\""', b'"\xe2\x80\x94"']
_CATS = [b'"kernel"', b'"cpu_op"', b'"user_annotation"']
_INTEGERS = [b"0", b"7", b"4000", b"2629", b"-1", b"140241234567890"]
_US = [b"2629566610050.123", b"10", b"3.5", b"0.004", b"12.123456", b"1712195495519689.047", b"1623142623606115"]
_RATES = [b"8.0", b"0.25", b"50", b"1.0625"]
_LISTS = [b"[[4, 8], []]", b'["float", ""]', b"[]", b'["", "[1, 2]"]']
_KINDS = {
    "integer": _INTEGERS,
    "rate": _RATES,
    "list": _LISTS,
    "cat": _CATS,
    "text": _NAMES,
    "us": _US,
    "phase": _PHASES,
}
_FIELDS = {"ph": "phase", "cat": "cat", "name": "text", "pid": "integer", "tid": "integer", "ts": "us", "dur": "us"}
_ARGUMENTS = {
    "External id": "integer", "external id": "integer", "correlation": "integer",
    "stream": "integer", "bytes": "integer",
    "device": "integer", "blocks per SM": "rate", "warps per SM": "rate", "est. achieved occupancy %": "rate",
    "Input Dims": "list", "Input dims": "list", "Input type": "list", "Concrete Inputs": "list", "grid": "list",
    "Collective name": "text", "Process Group Name": "text", "dtype": "text", "Process Group Ranks": "text",
    "In msg nelems": "integer", "Out msg nelems": "integer", "Group size": "integer", "Seq": "integer",
    "Dst Rank": "integer", "Src Rank": "integer", "Total Reserved": "integer", "Total Allocated": "integer",
    "Device Id": "integer", "Device Type": "integer", "cbid": "integer", "name": "text",
    "\\u0070h": "text", "": "rate", "\u00e9": "integer",
}  # fmt: skip


def odd_trace(draw: random.Random) -> bytes:
    """The text of a trace; most of its fields are as exporters write them."""
    oddness = draw.choice([0, 0, 0.003, 0.03])
    events = [_event(draw, oddness) for _ in range(draw.choice([1, 2, 5, 40]))]
    text = b'{"traceEvents": [' + draw.choice([b",", b", ", b",\n  ", b" ,\t"]).join(events) + b'], "traceName": "t"}'
    for _ in range(draw.choice([0, 0, 0, 1, 3])):
        at = draw.randrange(len(text))
        text = text[:at] + draw.choice([b"", b'"', b"\\", b"}", b",", b"\x00", b"\xff", b"9"]) + text[at + 1 :]
    return text[: draw.randrange(len(text))] if draw.random() < 0.05 else text


def _event(draw: random.Random, oddness: float) -> bytes:
    usual = {key: kind for key, kind in _FIELDS.items() if key == "ph" or draw.random() < 0.97}
    pairs = [(key, _value(draw, kind, oddness)) for key, kind in usual.items()]
    wanted = draw.sample([*_ARGUMENTS], draw.choice([0, 3, 8, len(_ARGUMENTS)]))
    plain = [key for key in wanted if draw.random() < oddness or (key.isascii() and "\\" not in key)]
    args = _object(draw, [(key, _value(draw, _ARGUMENTS[key], oddness)) for key in plain], oddness)
    pairs.insert(draw.randrange(len(pairs) + 1), ("args", draw.choice(_ODD) if draw.random() < oddness else args))
    if draw.random() < 0.5:  # so that each kind of value stands at the end of a text, too
        draw.shuffle(pairs)
    return _object(draw, pairs, oddness)


def _value(draw: random.Random, kind: str, oddness: float) -> bytes:
    return draw.choice(_ODD) if draw.random() < oddness else draw.choice(_KINDS[kind])


def _object(draw: random.Random, pairs: Sequence[tuple[str, bytes]], oddness: float) -> bytes:
    if draw.random() < oddness:
        pairs = [*pairs, *pairs[:2]]
    space = draw.choice([b"", b" ", b"\n    "])
    return b"{" + b",".join(b'%b"%b":%b%b' % (space, key.encode(), space, value) for key, value in pairs) + space + b"}"


def outcome(path: Path, reader: str, left_out: frozenset[str] = frozenset(), ahead: bool = False) -> Trace | str:
    """What the reader makes of the file: "compiled" or "reference"; where it refuses it the message.

    Of the categories left out no event is kept; `ahead`, another thread scans.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = reader
    try:
        return read(path, left_out=left_out, ahead=ahead)
    except UserError as error:
        return str(error)
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def differences(one: Trace | str, other: Trace | str) -> list[str]:
    """The fields in which they are not the same bit for bit; those of the collectives too."""
    if isinstance(one, str) or isinstance(other, str):
        return [] if one is other or one == other else [f"{one!r:.200} and {other!r:.200}"]
    return [*_different(one, other, Trace), *_different(one.collectives, other.collectives, Collectives)]


def _different(one: Any, other: Any, kind: Any) -> Iterator[str]:
    for field in fields(kind):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name != "collectives" and _bits(ours) != _bits(theirs):
            yield f"{field.name}: {ours!r:.300} and {theirs!r:.300}"


def _bits(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(key, _bits(entry)) for key, entry in value.items()]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def use(module: Path) -> None:
    """Reads by that build of the compiled module."""
    scanning._scanner = module_at(module)
    scanned = scanning.Scanning.scanned
    scanning.Scanning.scanned = lambda own, first, text: scanned(
        own, np.frombuffer(first, np.uint8).copy().data, np.frombuffer(text, np.uint8).copy().data
    )


def main() -> int:
    """The exit code: 1 where the readers differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tries", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("error")
    if given.module:
        use(given.module)
    with tempfile.TemporaryDirectory() as folder:
        path, read_by_both = Path(folder) / "trace.json", 0
        for number in range(given.tries):
            draw = random.Random(f"{given.seed} {number}")
            path.write_bytes(odd_trace(draw))
            source.BLOCK_BYTES = draw.choice([300, 3000, 1 << 20])
            left_out = draw.choice([frozenset(), frozenset({"cpu_op"}), frozenset({"cpu_op", "kernel"})])
            reference = outcome(path, "reference", left_out)
            if found := differences(outcome(path, "compiled", left_out, draw.random() < 0.5), reference):
                print(f"try {number}: {found}\n{path.read_bytes()!r}")
                return 1
            read_by_both += isinstance(reference, Trace)
    print(f"{given.tries} tries, {read_by_both} of them read, the others refused: both readers agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
