"""The folder that TORCH_TRACE fills: torch.compile's own account of each compilation, one line of JSON each."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose.errors import UserError, shown_path
from diagnose.probes.facts.compiled import row_of
from diagnose.trace.record import CaptureRecord
from diagnose.trace.record_fields import COMPILED

_KEY = '"compilation_metrics"'
_LONGEST_LINE = 4 << 20
_MOST = 4096  # compilations of one rank
_RANK_IN_NAME = re.compile(r"rank_(\d{1,6})")
_DO = "name the folder that TORCH_TRACE was set to, or one file of it"


@dataclass(frozen=True)
class TorchTraces:
    """The compilations of each rank, in the order of time; those of files that name no rank are rank 0's."""

    compiled: Mapping[int, tuple[Mapping[str, Any], ...]]

    def beside(self, record: CaptureRecord, rank: int) -> CaptureRecord:
        """The record with all compilations of the rank, in the place of the last ones, which the capture kept."""
        rows = self.compiled.get(rank)
        if not rows:
            return record
        decoded = COMPILED({"compiled": list(rows)}, "compilations", lambda path: None)
        return CaptureRecord({**record.values, "compilations": decoded}, record.lost)


def torch_traces(path: Path) -> TorchTraces:
    """Read the folder, or a file of it.

    Raises:
        UserError: it cannot be read, or holds no compilation.
    """
    files = sorted(file for file in path.glob("*.log") if file.is_file()) if path.is_dir() else [path]
    compiled: dict[int, list[Mapping[str, Any]]] = {}
    try:
        for file in files:
            for rank, row in _rows(file):
                if len(compiled.setdefault(rank, [])) < _MOST:
                    compiled[rank].append(row)
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError("cannot read TORCH_TRACE", where=shown_path(path), why=why, do=_DO) from error
    if not compiled:
        raise UserError("no compilation in TORCH_TRACE", where=shown_path(path), do=_DO)
    return TorchTraces({rank: tuple(rows) for rank, rows in compiled.items()})


def _rows(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    named = _RANK_IN_NAME.search(file.name)
    with file.open(encoding="utf-8", errors="replace") as lines:
        while line := lines.readline(_LONGEST_LINE):
            told = _object_in(line) if _KEY in line else None
            row = row_of(told["compilation_metrics"], here="") if told else None
            if told and row:
                rank = told.get("rank")
                yield rank if isinstance(rank, int) and rank >= 0 else int(named[1]) if named else 0, row


def _object_in(line: str) -> dict[str, Any] | None:
    """The object at the end of a line, behind time and place."""
    try:
        told = json.loads(line[line.index("{") :])
    except (ValueError, RecursionError):
        return None
    metrics = told.get("compilation_metrics") if isinstance(told, dict) else None
    return told if isinstance(metrics, dict) else None
