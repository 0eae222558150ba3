"""Kinds of what recorders leave: dumps of the flight recorder, snapshots of memory, step logs of armed runs, exports of
Nsight Systems, execution traces of torch.
"""

import contextlib
import json
import pickle
import random
import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import kinds_of_hangs  # of tests/
import nsys_exports

from diagnose.probes.timing.step_log import StepLog

from .case import Case
from .seeds import ROOT, drawn
from .tree import mutate, mutated
from .written import at_times_damaged, form, json_bytes, spoilt

_HANGS = ("MISSING", "OTHER_ORDER", "OTHER_SIZE", "OTHER_TYPE", "OTHER_GROUP", "LEFT_THE_LOOP", "SLOW", "OLD")
_FORBIDDEN = (b"cos\nsystem\n(S'true'\ntR", b"\x8c\x02os\x8c\x06system\x93", b"(ios\nsystem\n", b"Pid\n", b"\x82\x01")
_NESTED = (b")" + b"\x85" * 300_000, b")" + b"q\x00h\x00\x86" * 60)  # tuples: 300,000 deep, and of 2 ** 60 parts
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_MOST_HISTORY = 60  # calls of the allocator that are kept of a sample


def hang(seeded: random.Random) -> Case:
    """The dumps of a job that hangs: one of them mutated by its values, or all by their bytes."""
    dumps: dict[int, Any] = dict(getattr(kinds_of_hangs, seeded.choice(_HANGS)))
    for rank in seeded.sample(sorted(dumps), seeded.randint(1, len(dumps))):
        dumps[rank] = mutated(seeded, dumps[rank])
    files = {f"{_name(seeded)}{rank}": _dumped(seeded, content) for rank, content in dumps.items()}
    return Case("hang", ("hang", "@", *form(seeded)), files)


def _name(seeded: random.Random) -> str:
    return seeded.choice(["nccl_trace_rank_"] * 4 + ["rank_", "", "a\nb", "\x1b[2J"])


def _dumped(seeded: random.Random, content: Any) -> bytes:
    return at_times_damaged(seeded, json_bytes(content) if seeded.random() < 0.3 else _pickled(seeded, content))


def _pickled(seeded: random.Random, content: Any) -> bytes:
    """As any protocol writes it; now and then with what would run code, or what never ends to be walked through."""
    try:
        text = pickle.dumps(content, protocol=seeded.choice([2, 2, 3, 4, 5]))
    except (RecursionError, ValueError):
        return b"\x80\x02" + b"(" * 5000 + b"."
    if seeded.random() < 0.1:
        at = seeded.randint(2, len(text) - 1)
        text = text[:at] + seeded.choice(_FORBIDDEN) + text[at:]
    return text[:-1] + _nested_entry(seeded) + text[-1:] if seeded.random() < 0.1 else text


def _nested_entry(seeded: random.Random) -> bytes:
    """Opcodes that add an entry to a dictionary: nested tuples are its key, or in its value."""
    nested = seeded.choice(_NESTED)
    return seeded.choice([nested + b"Ns", b"X\x12\0\0\0allocator_settings}X\1\0\0\0a" + nested + b"ss"])


@cache
def _snapshot(name: str) -> bytes:
    """A sample of a snapshot, its history shortened."""
    with (ROOT / "sample_traces" / "dumps" / f"synthetic-memory-{name}.pickle").open("rb") as file:
        whole: dict[str, Any] = pickle.load(file)
    whole["device_traces"] = [calls[-_MOST_HISTORY:] for calls in whole["device_traces"]]
    whole["segments"] = whole["segments"][:8]
    return pickle.dumps(whole)


def memory(seeded: random.Random) -> Case:
    """A snapshot of the caching allocator."""
    whole = pickle.loads(_snapshot(seeded.choice(["oom", "healthy", "empty-cache"])))
    for _ in range(seeded.randint(1, 3)):
        mutate(seeded, whole)
    return Case("memory", ("memory", "@oom.pickle", *form(seeded)), {"oom.pickle": _dumped(seeded, whole)})


@cache
def step_log(slow: bool) -> bytes:
    """What an armed run of 300 steps logs, whose window opens at a slow one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.steps"
        log = StepLog(str(path), {"rank": 0, "world_size": 1, "done": 0, "host": "node-a"})
        for step in range(1, 301):
            log.add(step, 900_000_000 if slow and step % 60 == 0 else 100_000_000, profiled=step in range(241, 245))
            if step == 240:
                log.tell("window", first=241, why="a slow step comes every 60 steps", folder="step-241")
        log.write(to_the_end=True)
        log.close()
        return path.read_bytes()


def armed(seeded: random.Random) -> Case:
    """The folder of an armed run, of one rank or two, read as a run and as a series."""
    files = {f"rank{rank}.steps": _log(seeded) for rank in range(seeded.choice([1, 1, 2]))}
    command = seeded.choice([("series", "@", *form(seeded)), ("analyze", "@")])
    return Case("armed", command, files)


def _log(seeded: random.Random) -> bytes:
    lines = step_log(seeded.random() < 0.5).splitlines()
    for at in seeded.sample(range(len(lines)), min(len(lines), seeded.randint(1, 4))):
        try:
            lines[at] = json_bytes(mutated(seeded, json.loads(lines[at])))
        except ValueError:
            continue
    return at_times_damaged(seeded, b"\n".join(lines))


@cache
def _export(processes: int, steps: int) -> bytes:
    """The tables of an export as JSON, by their names."""
    with tempfile.TemporaryDirectory() as folder:
        path = nsys_exports.training_export(Path(folder) / "a.sqlite", steps, range(10, 10 + processes))
        with contextlib.closing(sqlite3.connect(path)) as opened:
            opened.row_factory = sqlite3.Row
            names = [row[0] for row in opened.execute("SELECT name FROM sqlite_master")]
            tables = {name: [dict(row) for row in opened.execute(f'SELECT * FROM "{name}"')] for name in names}
    return json.dumps(tables).encode()


def nsight(seeded: random.Random) -> Case:
    """An export of Nsight Systems: its tables, columns and values mutated, or its bytes."""
    tables = json.loads(_export(seeded.choice([1, 2]), seeded.choice([2, 5, 40])))
    text = at_times_damaged(seeded, _database(mutated(seeded, tables, 4) if seeded.random() < 0.8 else tables))
    shown = seeded.choice([("--json",), ("--json",), ("--details",), ("--json", "--step-range", "iteration")])
    return Case("nsight", ("analyze", "@export.sqlite", *shown), {"export.sqlite": text})


def misspelt(seeded: random.Random) -> Case:
    """An export of which a byte of the statements that make the tables, or of a text, is another, perhaps no UTF-8."""
    text = _misspelt(seeded, _database(json.loads(_export(1, 2))))
    return Case("misspelt", ("analyze", "@export.sqlite", "--json"), {"export.sqlite": text})


def _misspelt(seeded: random.Random, text: bytes) -> bytes:
    spoken = [at for at in range(len(text)) if text[at] in _LETTERS]
    broken = bytearray(text)
    for at in seeded.sample(spoken, min(len(spoken), seeded.randint(1, 3))):
        broken[at] = seeded.choice([0xFF, 0xC3, 0x80, 0x00, 0x22, 0x27, seeded.randrange(256)])
    return bytes(broken)


def _database(tables: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as made:
            for name, rows in tables.items() if isinstance(tables, dict) else ():
                with contextlib.suppress(sqlite3.Error, ValueError):  # what no database can hold is left out
                    _fill(made, name, [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else [])
            made.commit()
        return path.read_bytes()


def _fill(made: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row)) or ["id"]
    named = ", ".join(map(_quoted, columns))
    made.execute(f"CREATE TABLE {_quoted(table)} ({named})")
    marks = ", ".join("?" * len(columns))
    for row in rows:
        with contextlib.suppress(sqlite3.Error, ValueError):
            made.execute(f"INSERT INTO {_quoted(table)} VALUES ({marks})", [_cell(row.get(key)) for key in columns])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cell(value: Any) -> Any:
    """As SQLite holds it; a text that is no UTF-8 stands for one with halves of characters."""
    if isinstance(value, list | dict):
        return json_bytes(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)[:400] if abs(value) < 10**400 else "9" * 400
    return value


def execution(seeded: random.Random) -> Case:
    """A trace without the shapes of its operators, which are in an execution trace beside it."""
    trace = drawn(seeded)
    operators = [event for event in trace["traceEvents"] if "Input Dims" in event.get("args", ())]
    nodes = [_node(event, number) for number, event in enumerate(operators, 1000)]
    found = {"schema": "1.1.1-chakra.0.0.4", "pid": operators[0]["pid"], "nodes": nodes}
    text = spoilt(seeded, found, 4)
    if seeded.random() < 0.3:
        mutate(seeded, trace)
    files = {"trace.json": json_bytes(trace), "execution.json": text}
    return Case("execution", ("analyze", "@trace.json", "--json"), files)


def _node(event: dict[str, Any], number: int) -> dict[str, Any]:
    """The operator as torch's observer writes it; its shapes leave the event."""
    event["args"]["Record function id"] = number
    shapes = event["args"].pop("Input Dims")
    types = ["Tensor(float)" if shape else "Double" for shape in shapes]
    inputs = {"values": [1.0] * len(shapes), "shapes": shapes, "types": types}
    return {"name": event["name"], "inputs": inputs, "attrs": [{"name": "rf_id", "value": number}]}
