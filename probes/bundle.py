"""The files of one rank in the bundle: each appears under its name only when complete, and none is overwritten."""

from __future__ import annotations

import json
import os
from pathlib import Path

MOST_FOLDERS = 100


class Bundle:
    """A rank's place in the bundle folder, claimed for one window of this process.

    The folder is `out`, or `out`-2, -3, ... when this rank's files are already there.

    Raises:
        OSError: the folder cannot be made or written.
    """

    def __init__(self, out: str, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self.folder = self._claimed(Path(out))
        self.trace = self.folder / f"rank{rank}.json.gz"
        self.capture = self.folder / f"capture-rank{rank}.json"

    def write_capture(self, facts: dict[str, object]) -> None:
        """Write capture-rank{R}.json."""
        self._write(self.capture, facts)

    def finish(self, error: str | None) -> None:
        """Write the marker that says that nothing more comes from this rank, and give the claim back."""
        marker: dict[str, object] = {
            "rank": self.rank,
            "world_size": self.world_size,
            "trace": self.trace.name if self.trace.exists() else None,
            "capture": self.capture.name if self.capture.exists() else None,
            "error": error,
        }
        try:
            self._write(self.folder / f"rank{self.rank}.done", marker)
        finally:
            self._claim.unlink(missing_ok=True)

    def _claimed(self, out: Path) -> Path:
        for number in range(1, MOST_FOLDERS):
            folder = out if number == 1 else out.with_name(f"{out.name}-{number}")
            folder.mkdir(parents=True, exist_ok=True)
            taken = any((folder / f"rank{self.rank}{end}").exists() for end in (".json.gz", ".done"))
            self._claim = folder / f".rank{self.rank}.claim"
            if not taken and _created(self._claim):
                return folder
        raise OSError(f"{out}: {MOST_FOLDERS} bundles are there already")

    def _write(self, path: Path, content: dict[str, object]) -> None:
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            partial.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _created(path: Path) -> bool:
    """Whether this call, and no other process, made the file."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True
