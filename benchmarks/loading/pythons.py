"""The interpreters that hold other tools: which of them each has, and in what versions."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from .readers import OTHERS, Reader, other

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
