"""What surrounds a command: names with large numbers beside its input, odd variables, and limits of the system."""

import contextlib
import errno
import json
import os
import random
import resource
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from . import beside, seeds
from .case import Case
from .recorders import step_log
from .written import csv_bytes, json_bytes

ABOUT = "environment.json"
_NUMBERS = (
    "7", "007", "131072", "9999999", "999999999", "9999999999", "18446744073709551616", "9" * 150, "-1", "\u0663",
)  # fmt: skip
_NAMES = (
    "rank{}.json", "trace-rank{}.json", "host.{}.pt.trace.json", "rank{}.steps", "capture-rank{}.json", "rank{}.csv",
    "step-{}/rank0.json", "run-{}/rank{}.json", "checkpoint-{}/trainer_state.json", "nccl_trace_rank_{}", "{}",
    "stacks-rank{}.txt", "memory-rank{}.pickle", "execution-rank{}.json", "rank{}.done", "worker.{}.log",
)  # fmt: skip
_ODD = (
    "", " ", "0", "-1", "9" * 11, "x", "/dev/null", "/nowhere/at/all", ".", "a\nb", "\udcff", "a" * 5000, "%s{}", "~",
)  # fmt: skip
_VARIABLES = (
    "COLUMNS", "LINES", "TERM", "LANG", "LC_ALL", "HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "RANK",
    "WORLD_SIZE", "SLURM_PROCID", "DIAGNOSE_CACHE_DIR", "DIAGNOSE_DATA_DIR", "DIAGNOSE_READER", "DIAGNOSE_REPLAY",
    "OMP_NUM_THREADS", "PWD", "SOURCE_DATE_EPOCH",
)  # fmt: skip
_COMMANDS = (
    ("analyze", "@", "--json"), ("analyze", "@"), ("series", "@"), ("hang", "@"), ("fleet", "@"), ("scaling", "@"),
    ("compare", "@", "@"),
)  # fmt: skip


def names(seeded: random.Random) -> Case:
    """A sound job, with files beside it whose names hold large numbers and whose content is anything."""
    ranks = [json_bytes(document) for document in seeds.ranks(seeded)]
    files = {f"rank{rank}.json": text for rank, text in enumerate(ranks)} if seeded.random() < 0.6 else {}
    for _ in range(seeded.randint(1, 4)):
        name = seeded.choice(_NAMES).replace("{}", seeded.choice(_NUMBERS))
        files[name[:250]] = _content(seeded, name, ranks)
    command = seeded.choice(_COMMANDS)
    armed = any(name.endswith(".steps") for name in files)  # of which the answer is no diagnosis
    return Case("names", command[:2] if armed and "--json" in command else command, files)


def _content(seeded: random.Random, name: str, ranks: list[bytes]) -> bytes:
    if seeded.random() < 0.1:
        return seeded.choice([b"", b"{}", b"[]", b"x", bytes(64)])
    if name.startswith("capture"):
        return json_bytes(beside.record(seeded))
    if name.endswith(".steps"):
        return step_log(seeded.random() < 0.5)
    if name.endswith(".csv"):
        return csv_bytes(beside.steps_table(seeded))
    if name.endswith("trainer_state.json"):
        return json_bytes(beside.trainer_state(seeded))
    if name.endswith(".json"):
        return seeded.choice(ranks)
    return b'{"version": "2.5", "entries": []}'


def environment(seeded: random.Random) -> Case:
    """A sound job, read with odd variables, or where the system gives few descriptors, no threads or no processes."""
    files = {f"rank{rank}.json": json_bytes(document) for rank, document in enumerate(seeds.ranks(seeded))}
    about: dict[str, Any] = {"variables": {}}
    for name in seeded.sample(_VARIABLES, seeded.randint(0, 3)):
        about["variables"][name] = seeded.choice(_ODD)
    if seeded.random() < 0.5:
        about["descriptors"] = seeded.choice([0, 1, 2, 3, 4, 5, 6, 8, 12, 20])
    about["threads"], about["processes"] = seeded.random() < 0.6, seeded.random() < 0.5
    command = (*seeded.choice([one for one in _COMMANDS if one[0] in ("analyze", "series", "fleet")]),)
    jobs = ("--jobs", "2") if command[0] == "analyze" and (not about["processes"] or seeded.random() < 0.1) else ()
    return Case("environment", (*command, *jobs), files | {ABOUT: json.dumps(about).encode()}, "limited")


@contextlib.contextmanager
def limited(place: Path) -> Iterator[None]:
    """The environment that the case asks for."""
    about = json.loads((place / ABOUT).read_text(encoding="utf-8"))
    (place / ABOUT).unlink()
    with contextlib.ExitStack() as held:
        held.enter_context(mock.patch.dict(os.environ, about.get("variables", {})))
        held.enter_context(mock.patch.object(tempfile, "tempdir", None))
        if not about.get("threads", True):
            held.enter_context(mock.patch.object(threading.Thread, "start", _no_thread))
        if not about.get("processes", True):
            held.enter_context(mock.patch("subprocess.Popen", _no_process))
        if (most := about.get("descriptors")) is not None:
            held.enter_context(_descriptors(most))
        yield


@contextlib.contextmanager
def _descriptors(more: int) -> Iterator[None]:
    """So many may be opened beside those that are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(highest + more, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _no_thread(_: threading.Thread) -> NoReturn:
    raise RuntimeError("can't start new thread")


def _no_process(*_: Any, **__: Any) -> NoReturn:
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
