"""The verdict of the last window: as kept in its folder, else by an analysis beside, at the lowest priority."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diagnose.commands.watch.view import WindowView
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.reading import diagnosis_in
from diagnose.errors import UserError
from diagnose.probes.protocol import DIAGNOSIS, DONE, TRACE
from diagnose.probes.reporting.analysis import WindowAnalysis
from diagnose.series.places import is_window
from diagnose.series.timing_log import TimingLog

_WITHOUT_FIRST = f"its folder holds no {TRACE.format(0)}"
_BEING_ANALYSED = "it is being analysed"


class LastWindow:
    """The windows of the run in `folder`. One is analysed at a time, and each once; nothing is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Diagnosis | str] = {}
        self._analysis: WindowAnalysis | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a window is being analysed."""
        return self._analysis is not None

    def look(self, logs: Sequence[TimingLog], is_over: bool) -> WindowView | None:
        """The last window that is diagnosed, else the last one; None if none has opened.

        Once the run `is_over`, no rank is waited for that has not written its part.
        """
        self._collect()
        told = _windows(logs)
        if not told:
            return None
        ranks = 0 if is_over else max(log.world_size for log in logs)
        diagnosed = [(one, self._of(one, ranks)) for one in told[-2:]]
        newest, is_known = diagnosed[-1]
        shown, found = next((each for each in diagnosed[::-1] if isinstance(each[1], Diagnosis)), (newest, is_known))
        return WindowView(
            first_step=shown["first"],
            why=str(shown.get("why", "")),
            diagnosis=found if isinstance(found, Diagnosis) else None,
            because=found if isinstance(found, str) else "",
            newer="" if shown is newest else f"step {newest['first']:,}: {is_known}",
        )

    def close(self) -> None:
        """End an analysis that runs."""
        if self._analysis is not None:
            self._analysis.give_up()

    def _of(self, told: dict[str, Any], ranks: int) -> Diagnosis | str:
        """Its diagnosis, or why there is none; an analysis that is due begins."""
        name = str(told.get("folder", ""))
        if told["what"] == "window":
            return "it is open" if ranks else "the run ended in it"
        if not is_window(name):
            return str(told.get("error") or "it left no files")
        if name not in self._known:
            kept = _kept(self._folder / name)
            if kept is None:
                return self._begun(self._folder / name, ranks)
            self._known[name] = kept
        return self._known[name]

    def _begun(self, folder: Path, ranks: int) -> str:
        """Begin its analysis if all ranks have written their part of it."""
        if not (folder / TRACE.format(0)).is_file():
            return _WITHOUT_FIRST
        if not all((folder / DONE.format(rank)).is_file() for rank in range(ranks)):
            return "not all ranks have written it"
        if self._analysis is None:
            try:
                self._analysis = WindowAnalysis(folder, ranks=0)
            except RuntimeError as error:
                return f"it cannot be analysed here: {error}"
        return _BEING_ANALYSED

    def _collect(self) -> None:
        """Take the result of an analysis that has ended."""
        ended = self._analysis
        if ended is None or not ended.ended:
            return
        self._analysis = None
        found: Diagnosis | str = ended.failure or _WITHOUT_FIRST
        if ended.diagnosis is not None:
            try:
                found = diagnosis_in(json.dumps(ended.diagnosis).encode(), ended.folder)
            except UserError as error:
                found = error.why
        self._known[ended.folder.name] = found


def _windows(logs: Sequence[TimingLog]) -> list[dict[str, Any]]:
    """The windows in order, each as the last event of it that the first rank that opened it has logged."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for log in logs:
        of_rank: dict[tuple[int, int], dict[str, Any]] = {}
        for one in log.told:
            if one["what"] in ("window", "closed") and isinstance(one.get("first"), int):
                key = one["loop"], one["first"]
                of_rank[key] = of_rank.get(key, {}) | one
        found = of_rank | found
    return [found[key] for key in sorted(found)]


def _kept(folder: Path) -> Diagnosis | None:
    """The diagnosis that is kept in the folder of the window; None if there is none that can be used."""
    path = folder / DIAGNOSIS
    try:
        return diagnosis_in(path.read_bytes(), path)
    except (OSError, UserError):
        return None
