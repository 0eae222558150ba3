"""Kinds of what recorders leave: dumps of the flight recorder, snapshots of memory, step logs of armed runs."""

from __future__ import annotations

import io
import json
import pickle
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import kinds_of_hangs  # of tests/

from diagnose.probes.armed.step_log import StepLog

from .case import Case
from .damage import damaged
from .seeds import ROOT
from .tree import mutate, mutated
from .written import json_bytes

_HANGS = ("MISSING", "OTHER_ORDER", "OTHER_SIZE", "OTHER_TYPE", "OTHER_GROUP", "LEFT_THE_LOOP", "SLOW", "OLD")
_FORBIDDEN = (b"cos\nsystem\n(S'true'\ntR", b"\x8c\x02os\x8c\x06system\x93", b"(ios\nsystem\n", b"Pid\n", b"\x82\x01")
_NESTED = (b")" + b"\x85" * 300_000, b")" + b"q\x00h\x00\x86" * 60)  # tuples: 300,000 deep, and of 2 ** 60 parts
_MOST_HISTORY = 60  # calls of the allocator that are kept of a sample


def hang(seeded: random.Random) -> Case:
    """The dumps of a job that hangs: one of them mutated by its values, or all by their bytes."""
    dumps: dict[int, Any] = dict(getattr(kinds_of_hangs, seeded.choice(_HANGS)))
    for rank in seeded.sample(sorted(dumps), seeded.randint(1, len(dumps))):
        dumps[rank] = mutated(seeded, dumps[rank])
    files = {f"{_name(seeded)}{rank}": _dumped(seeded, content) for rank, content in dumps.items()}
    return Case("hang", ("hang", "@", *_form(seeded)), files)


def _name(seeded: random.Random) -> str:
    return seeded.choice(["nccl_trace_rank_"] * 4 + ["rank_", "", "a\nb", "\x1b[2J"])


def _dumped(seeded: random.Random, content: Any) -> bytes:
    text = json_bytes(content) if seeded.random() < 0.3 else _pickled(seeded, content)
    return damaged(seeded, text) if seeded.random() < 0.3 else text


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
    return Case("memory", ("memory", "@oom.pickle", *_form(seeded)), {"oom.pickle": _dumped(seeded, whole)})


@cache
def _step_log(slow: bool) -> bytes:
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
    command = seeded.choice([("series", "@", *_form(seeded)), ("analyze", "@")])
    return Case("armed", command, files)


def _log(seeded: random.Random) -> bytes:
    lines = _step_log(seeded.random() < 0.5).splitlines()
    for at in seeded.sample(range(len(lines)), min(len(lines), seeded.randint(1, 4))):
        try:
            lines[at] = json_bytes(mutated(seeded, json.loads(lines[at])))
        except ValueError:
            continue
    text = io.BytesIO(b"\n".join(lines)).getvalue()
    return damaged(seeded, text) if seeded.random() < 0.3 else text


def _form(seeded: random.Random) -> tuple[str, ...]:
    return ("--json",) if seeded.random() < 0.6 else ()
