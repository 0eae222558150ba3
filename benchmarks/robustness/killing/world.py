"""The folder in which a command runs: what it reads, where it writes, its cache, its promises, its temporary files."""

import gzip
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .commands import Command

_ROOMS = ("in", "out", "tmp", "cache", "data")


class World:
    """A folder for one try, made anew or as a copy of another.

    Args:
        place: the folder, which is not there yet.
        command: whose inputs are made.
        like: the world to begin with.
    """

    def __init__(self, place: Path, command: Command, like: "World | None" = None) -> None:
        self.place = place
        if like is not None:
            shutil.copytree(like.place, place, symlinks=True)
            return
        for room in _ROOMS:
            (place / room).mkdir(parents=True, mode=0o700)
        command.inputs(place / "in")

    @property
    def environment(self) -> Mapping[str, str]:
        """What a command is told of the world."""
        return {
            "TMPDIR": str(self.place / "tmp"),
            "DIAGNOSE_CACHE_DIR": str(self.place / "cache"),
            "DIAGNOSE_DATA_DIR": str(self.place / "data"),
            "DIAGNOSE_LEDGER": "on",
            "COLUMNS": "100",
            "DIAGNOSE_TRY": str(self.place),
        }

    def files(self) -> set[str]:
        """What lies there, but for what is read."""
        found = (path.relative_to(self.place) for path in self.place.rglob("*"))
        return {str(path) for path in found if path.parts[0] != "in" and str(path) not in _ROOMS}

    def finished_runs(self) -> list[Any]:
        """The runs of a tune that are told to be finished, each as it was told."""
        state = self.place / "out" / "tune" / "tune.json"
        runs: list[Any] = json.loads(state.read_text(encoding="utf-8"))["rungs"] if state.exists() else []
        return runs

    def torn(self) -> list[str]:
        """Files that are there and not whole; temporary ones need not be."""
        paths = (self.place / name for name in sorted(self.files()) if not name.startswith("tmp/"))
        return [path.name for path in paths if path.is_file() and not _is_whole(path)]


def _is_whole(path: Path) -> bool:
    """As its name says that it has to be; a hidden file has not got its name yet."""
    content = path.read_bytes()
    if path.name.startswith("."):
        return True
    try:
        if path.name.endswith(".gz"):
            content = gzip.decompress(content)
        if ".json" in path.suffixes and path.suffix != ".jsonl":
            json.loads(content)
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in content.splitlines()] != []
        return path.suffix != ".html" or content.rstrip().endswith(b"</html>")
    except (ValueError, OSError, EOFError):
        return False


def emptied(folder: Path) -> None:
    """Removes a world that is no longer needed."""
    shutil.rmtree(folder, ignore_errors=True)


def working_folder() -> tempfile.TemporaryDirectory[str]:
    """Where the worlds of a run of tries lie."""
    return tempfile.TemporaryDirectory(prefix="kills-")
