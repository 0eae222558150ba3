"""The files of one rank in the bundle: each appears under its name only when complete, and none is overwritten."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from ..protocol import CLAIM, DONE, RECORD, RUN_TIME, TRACE, partial
from .claim import CLAIM_BYTES, has_marker_of, owner, parents_token, scratch_of, taken

MOST_FOLDERS = 100


class RankFiles:
    """The files that one rank writes into a bundle, whose folder is claimed for one window of this process.

    The folder is `out`, or `out`-2, -3, ... when this rank's files are already there, or when it is another job's.
    While the window is open there is a claim of this rank, which the parent (`diagnose run`) finds if the rank ended
    inside its window.

    Raises:
        OSError: the folder cannot be made or written.
    """

    def __init__(self, out: str, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self._token = parents_token(Path(out))
        self.folder = self._claimed(Path(out))
        self.trace = self.folder / TRACE.format(rank)
        self.record = self.folder / RECORD.format(rank)

    def write_record(self, facts: dict[str, object]) -> None:
        """Write capture-rank{R}.json."""
        _write(self.record, facts)

    def write_run_time(self, facts: dict[str, object]) -> None:
        """Write run-rank{R}.json."""
        write_run_time(self.folder, self.rank, facts)

    def finish(self, error: str | None, left_out: str = "") -> None:
        """Write the marker after which nothing more comes from this rank, and release the claim.

        `left_out` is the reason if it has no trace by choice.

        Raises:
            OSError: it cannot be written; then the claim stays and shows the error to the parent, if there is one.
        """
        marker: dict[str, object] = {
            "rank": self.rank,
            "world_size": self.world_size,
            "trace": self.trace.name if self.trace.exists() else None,
            "capture": self.record.name if self.record.exists() else None,
            "error": error,
        }
        if left_out and error is None:
            marker["left_out"] = left_out
        if self._token is not None:
            marker["token"] = self._token
        try:
            _write(self.folder / DONE.format(self.rank), marker)
        except OSError as failure:
            if self._token is None or self._claim.parent == self.folder:  # no parent sees it
                self._claim.unlink(missing_ok=True)
            else:
                self._note(error or f"the bundle cannot be written: {failure.strerror or failure}")
            raise
        self._claim.unlink(missing_ok=True)

    def _claimed(self, out: Path) -> Path:
        for number in range(1, MOST_FOLDERS):
            folder = out if number == 1 else out.with_name(f"{out.name}-{number}")
            folder.mkdir(parents=True, exist_ok=True)
            if not self._may_use(folder, first=number == 1):
                continue
            done = any((folder / name.format(self.rank)).exists() for name in (TRACE, DONE))
            scratch = scratch_of(folder)
            self._claim = (scratch or folder) / f"{'' if scratch else '.'}{CLAIM.format(self.rank)}"
            if not done and self._created():
                return folder
        raise OSError(f"{out}: {MOST_FOLDERS} bundles are there already")

    def _may_use(self, folder: Path, *, first: bool) -> bool:
        """Whether the folder is this job's.

        With a parent, `out` itself is, even if the claim is not visible (another host, or the parent is done); without
        one, any folder is that no other job has claimed.
        """
        claimed_by = owner(folder)
        if claimed_by is not None or self._token is None:
            return claimed_by == self._token
        return first or has_marker_of(folder, self._token) or taken(folder, self._token)

    def _created(self) -> bool:
        """Whether this call, and no other process, made the claim."""
        try:
            number = os.open(self._claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            return False
        with open(number, "wb") as file:
            file.write(self._claim_text(None))
        return True

    def _note(self, error: str) -> None:
        """Put `error` into the claim, for the parent: its bytes are there even on a full disk."""
        with suppress(OSError), self._claim.open("r+b") as file:
            file.write(self._claim_text(error))

    def _claim_text(self, error: str | None) -> bytes:
        claim = {"rank": self.rank, "world_size": self.world_size, "error": error and error[:100]}
        return json.dumps(claim).encode().ljust(CLAIM_BYTES)


def write_run_time(folder: Path, rank: int, facts: dict[str, object]) -> None:
    """Write run-rank{R}.json into the folder, in the place of that of an earlier process of the job."""
    _write(folder / RUN_TIME.format(rank), facts)


def _write(path: Path, content: dict[str, object]) -> None:
    incomplete = (scratch_of(path.parent) or path.parent) / partial(path.name)
    try:
        incomplete.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        incomplete.replace(path)
    finally:
        incomplete.unlink(missing_ok=True)
