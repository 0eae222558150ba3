"""What reads the trace: diagnose in several ways, the least that any reader has to do, other tools in their Pythons."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from msgspec import Raw
from msgspec.structs import fields

from diagnose.trace.events import Args

Kind = Literal["ours", "floor", "other"]
PATH, ROUND = "{path}", "{round}"  # words of a command, for the trace and the number of the round
OURS, AGAIN, FROM_CACHE = "diagnose", "diagnose, again", "diagnose, columns from the cache"
FLOOR = "floor: msgspec, the fields in use"


@dataclass(frozen=True)
class Reader:
    """A command line with `PATH` and `ROUND` in it.

    It is run on texts of at least `from_bytes`, and where memory is free for `times_text` sizes of the text, which is
    about what it takes at its peak.
    """

    name: str
    kind: Kind
    command: tuple[str, ...]
    from_bytes: int = 0
    times_text: float = 0.0

    def on(self, path: Path, number: int) -> list[str]:
        """The command line for a trace in the round of that number."""
        words = {PATH: str(path), ROUND: str(number)}
        return [words.get(word, word) for word in self.command]

    def too_large(self, text_bytes: int, free_bytes: int) -> str:
        """Why a text is not read, empty where it is."""
        takes = self.times_text * text_bytes
        if takes <= free_bytes:
            return ""
        return f"not run, too large: takes up to {takes / 1e9:.0f} GB of memory, {free_bytes / 1e9:.0f} GB are free"


_ANALYZE = ("-m", "diagnose", "analyze", PATH)
_LOAD = "import sys; from pathlib import Path; from diagnose.trace import load; print(len(load(Path(sys.argv[1]))))"
_BY_REFERENCE = "import os; os.environ['DIAGNOSE_READER'] = 'reference'; "
_NEW = """
import os, sys, tempfile
from diagnose.cli import main
with tempfile.TemporaryDirectory(dir=os.environ["DIAGNOSE_CACHE_DIR"]) as folder:
    os.environ["DIAGNOSE_CACHE_DIR"] = folder
    main(["analyze", sys.argv[1]])
"""
_BYTES = """
import sys
buffer = bytearray(1 << 20)
with open(sys.argv[1], "rb", buffering=0) as file:
    while file.readinto(buffer):
        pass
"""
_FIELDS = """
import sys, typing, msgspec
names, texts = ARGUMENTS, TEXTS
of = [(f"field{at}", msgspec.Raw if name in texts else typing.Any, msgspec.field(default=msgspec.UNSET, name=name))
      for at, name in enumerate(names)]
Args = msgspec.defstruct("Args", of, gc=False)
held = [*((name, typing.Any, None) for name in ("cat", "name", "pid", "tid", "ts", "dur")), ("args", Args | None, None)]
Event = msgspec.defstruct("Event", held, gc=False, tag_field="ph", tag="X")
skipped = [msgspec.defstruct(f"Phase{at}", [], gc=False, tag_field="ph", tag=phase)
           for at, phase in enumerate("iBECbneOANDMPSTFpstfRcVv()")]
Trace = msgspec.defstruct("Trace", [("traceEvents", list[typing.Union[(Event, *skipped)]])])
with open(sys.argv[1], "rb") as file:
    msgspec.json.decode(file.read(), type=Trace)
"""
_OBJECTS = """
import json, sys
with open(sys.argv[1], "rb") as file:
    json.loads(file.read())
"""
_HTA = """
import logging, os, sys, warnings
warnings.filterwarnings("ignore"); logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
path = os.path.abspath(sys.argv[1])
found = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))
found.get_temporal_breakdown(visualize=False)
found.get_idle_time_breakdown(ranks=[0], visualize=False)
found.get_gpu_kernel_breakdown(visualize=False)
found.get_comm_comp_overlap(visualize=False)
"""
_FRAME = """
import sys, pandas, MODULE
with open(sys.argv[1], "rb") as file:
    pandas.DataFrame(MODULE.loads(file.read())["traceEvents"])
"""
_TRACELENS = """
import sys
from TraceLens import TreePerfAnalyzer
TreePerfAnalyzer.from_file(sys.argv[1]).get_df_gpu_timeline()
"""


@dataclass(frozen=True)
class Other:
    """Another tool: its code, what has to import for it, the distributions to name, and `Reader.times_text`.

    `comes_from` is said where it is not installed and its name alone does not find it.
    """

    code: str
    imports: str
    distributions: tuple[str, ...]
    times_text: float
    comes_from: str = ""


OTHERS: Mapping[str, Other] = {
    "hta": Other(_HTA, "import hta.trace_analysis", ("HolisticTraceAnalysis", "traceinsight", "pandas"), 6),
    "tracelens": Other(
        _TRACELENS,
        "from TraceLens import TreePerfAnalyzer",
        ("TraceLens", "pandas"),
        10,
        "from github.com/AMD-AGI/TraceLens; the tracelens of PyPI is another project",
    ),
    "json": Other(_FRAME.replace("MODULE", "json"), "import pandas", ("pandas",), 6),
    "orjson": Other(_FRAME.replace("MODULE", "orjson"), "import orjson, pandas", ("orjson", "pandas"), 6),
}


def ours() -> list[Reader]:
    """Those of diagnose, then the floors."""
    analyze: Mapping[str, tuple[str, ...]] = {
        OURS: (*_ANALYZE, "--no-cache"),
        "diagnose --jobs 1": (*_ANALYZE, "--no-cache", "--jobs", "1"),
        "diagnose --jobs 2": (*_ANALYZE, "--no-cache", "--jobs", "2"),
        "diagnose, hashed and kept": ("-c", _NEW, PATH),
        FROM_CACHE: (*_ANALYZE, "--tokens-per-step", ROUND),
        AGAIN: _ANALYZE,
        "diagnose, load alone": ("-c", _LOAD, PATH),
        "diagnose, load alone, reference reader": ("-c", _BY_REFERENCE + _LOAD, PATH),
    }
    low = (*_ANALYZE, "--no-cache", "--low-memory", "2G")
    return [
        *(Reader(name, "ours", (sys.executable, *words)) for name, words in analyze.items()),
        Reader("diagnose --low-memory 2G", "ours", (sys.executable, *low), from_bytes=1 << 30),
        Reader("floor: the bytes alone", "floor", (sys.executable, "-c", _BYTES, PATH)),
        Reader(FLOOR, "floor", (sys.executable, "-c", fields_in_use(), PATH), times_text=3.5),
        Reader("floor: json.loads", "floor", (sys.executable, "-c", _OBJECTS, PATH), times_text=5),
    ]


def fields_in_use() -> str:
    """The code of the floor: events as structs with the arguments that diagnose reads, by msgspec alone."""
    names = [field.encode_name for field in fields(Args)]
    texts = [field.encode_name for field in fields(Args) if field.type is Raw]
    return _FIELDS.replace("ARGUMENTS", repr(names)).replace("TEXTS", repr(texts))


def other(what: str, python: str, name: str) -> Reader:
    """Another tool in an interpreter, which is named where there are several."""
    tool = OTHERS[what]
    return Reader(
        f"{what} ({name})" if name else what, "other", (python, "-c", tool.code, PATH), times_text=tool.times_text
    )


def fitting(readers: Sequence[Reader], text_bytes: int) -> list[Reader]:
    """Those that texts of that size are for."""
    return [reader for reader in readers if text_bytes >= reader.from_bytes]


_VERSIONS = """
import platform, sys
from importlib.metadata import PackageNotFoundError, version
print("Python", platform.python_version())
for name in sys.argv[1:]:
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python, by its path, and a name for the report, empty where it is the only one."""

    name: str
    path: str


@dataclass
class Found:
    """The readers of the interpreters, what versions they are of, and why others are left out; both by their names."""

    readers: list[Reader] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def interpreter(stated: str) -> Interpreter:
    """That of "NAME=PATH" or of a path."""
    name, _, path = stated.rpartition("=")
    return Interpreter(name.strip(), path)


def found(tools: Sequence[str], interpreters: Sequence[Interpreter]) -> Found:
    """Every tool in every interpreter that has it."""
    all_of = Found()
    for what in tools:
        for python in interpreters:
            reader = other(what, python.path, python.name)
            done = _asked(python.path, OTHERS[what].imports)
            if done.returncode:
                lines = done.stderr.strip().splitlines() or ["it does not start"]
                whence = OTHERS[what].comes_from
                all_of.skipped[reader.name] = lines[-1] + f" ({whence})" * bool(whence)
                continue
            told = _asked(python.path, _VERSIONS, *OTHERS[what].distributions).stdout.splitlines()
            all_of.readers.append(reader)
            all_of.versions[reader.name] = ", ".join(told)
    return all_of


def _asked(python: str, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run([python, "-c", code, *words], capture_output=True, text=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess([], 1, "", error.strerror or "it does not start")
