"""Real traces with an expert's label, which are not part of this project: DIAGNOSE_REAL_TRACES names their folder."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measuring import rules_read_once

from diagnose.analysis import analyze

VARIABLE, LABELS = "DIAGNOSE_REAL_TRACES", "LABELS.md"
_ROW = re.compile(
    r"^\| `(?P<folder>[\w-]+)/` \| (?P<class>[^|]+) \| (?P<accept>[^|]+) \| (?P<confidence>\w+) \|", re.MULTILINE
)
_LATE = re.compile(r"straggler rank (\d+)")


@dataclass(frozen=True)
class Labelled:
    """A trace: the classes that its expert would accept, the late rank or None, and what was said of it."""

    folder: str
    accepted: tuple[str, ...]
    late: int | None
    class_: str
    named: tuple[int, ...]

    @property
    def right(self) -> bool:
        """Whether the class is one of the accepted, and the late rank named where there is one."""
        return self.class_ in self.accepted and (self.late is None or self.late in self.named)


def real_outcomes() -> list[Labelled]:
    """Every labelled trace; none where the folder is not there."""
    folder = Path(os.environ.get(VARIABLE, ""))
    if VARIABLE not in os.environ or not (folder / LABELS).is_file():
        return []
    with rules_read_once():
        return list(_judged(folder))


def _judged(folder: Path) -> Iterator[Labelled]:
    for row in _ROW.finditer((folder / LABELS).read_text(encoding="utf-8")):
        for run in _runs(folder / row["folder"]):
            answer = analyze(run)
            late = _LATE.search(row["class"])
            accepted = tuple(one.strip() for one in row["accept"].split(","))
            named = tuple(straggler.rank for straggler in answer.stragglers)
            name = row["folder"] if run.is_dir() else f"{row['folder']}, {run.name}"
            yield Labelled(name, accepted, int(late[1]) if late else None, answer.verdict.class_, named)


def _runs(folder: Path) -> list[Path]:
    """The folder as one run, or each of its files where it holds a pair of runs."""
    files = sorted(file for file in folder.iterdir() if ".json" in file.name)
    return files if "pair" in folder.name else [folder]
