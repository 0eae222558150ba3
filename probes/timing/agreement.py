"""Let the ranks of a run open a window together, by small files in the folder of the run and without a collective.

Rank 0 announces each window by the step that it begins with, so far ahead that every rank has read it before. The
others read, and ask for one when they see slow steps that rank 0 does not. `protocol` names the files.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from ..bundle.claim import json_object
from ..protocol import ANNOUNCED, ASK, TRIGGER, partial, rank_in
from .triggers import Wanted

_TOLD = 8  # the last windows that were announced
_ANNOUNCEMENT_BYTES = 4096
_MOST_ASKS = 16


class Agreement:
    """The announcements and requests of one rank, as files; `folder` is the run's scratch folder, seen by all ranks."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.rank = rank
        self.leads = rank == 0
        self._folder = folder
        self._told: list[dict[str, object]] = []

    def begins(self) -> None:
        """Clear, on rank 0, the announcements of an earlier process of the job.

        Raises:
            OSError: the folder cannot be written.
        """
        if self.leads:
            self._tell([])

    def announce(self, step: int, why: str) -> None:
        """Announce, on rank 0, a window whose first recorded step is `step`.

        Raises:
            OSError: the folder cannot be written.
        """
        told = [*self._told, {"step": step, "why": why[:200]}][-_TOLD:]
        self._tell(told)
        self._told = told

    def announced(self) -> dict[int, str]:
        """Reasons of the announced windows, by their first recorded step; empty while the file is being written."""
        told = (json_object(self._folder / ANNOUNCED) or {}).get("windows")
        entries = [entry for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []
        steps = ((entry.get("step"), entry.get("why")) for entry in entries)
        return {step: str(why)[:200] for step, why in steps if type(step) is int}

    def ask(self, wanted: Wanted) -> None:
        """Ask rank 0 for a window.

        Raises:
            OSError: the folder cannot be written.
        """
        name = ASK.format(self.rank)
        incomplete = self._folder / partial(name)
        incomplete.write_text(json.dumps(asdict(wanted)), encoding="utf-8")
        incomplete.replace(self._folder / name)

    def asks(self) -> list[Wanted]:
        """The requests of other ranks and of the user, each once; for rank 0."""
        found = []
        for name in self._asking():
            path = self._folder / name
            given = json_object(path)
            path.unlink(missing_ok=True)
            if name == TRIGGER:
                found.append(Wanted("asked for by diagnose trigger"))
            elif given is not None:
                found.append(Wanted.of(given))
        return found

    def _asking(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return [name for name in names if name == TRIGGER or rank_in(name, ASK) is not None][:_MOST_ASKS]

    def _tell(self, windows: list[dict[str, object]]) -> None:
        """Write over the file in place: a network file system looks again at a file that it opens, not at a name."""
        text = json.dumps({"windows": windows}).encode().ljust(_ANNOUNCEMENT_BYTES)
        file = os.open(self._folder / ANNOUNCED, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            os.pwrite(file, text, 0)
        finally:
            os.close(file)
