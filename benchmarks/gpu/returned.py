"""What comes back of a call: at most eight files of its own, each below 16 MiB."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

MOST_BYTES = 15_500_000  # of a file
FILES = 8
ASSUMED_RATIO = 8  # by which text becomes smaller
LONGEST_JSON = 3_000_000
CACHES = ("hf", "triton", "inductor", "xdg", "cache", "tmp")
SMALL = ("*.json", "*.log", "*.md", "*.csv", "*.steps")
HEAVY = ("*.json.gz", "*.pickle.gz", "*.sqlite.gz", "*.nsys-rep")


def pack(out: Path, work: Path, number: str, new: Callable[[Path], bool]) -> None:
    """Results and logs, small traces, and the bundles that still fit."""
    bundle(out / f"results-call{number}.tar.gz", [*results(work, new)], work, "w:gz")
    reduced = [path for path in sorted((work / "reduced").glob("*")) if new(path)]
    bundle(out / f"traces-call{number}.tar", reduced, work, "w")
    heavy = [path for pattern in HEAVY for path in below(work, pattern) if new(path) and "reduced" not in path.parts]
    for count in range(max(FILES - len(list(out.glob(f"*-call{number}*"))), 0)):
        taken = filled(heavy)
        if not taken:
            break
        bundle(out / f"bundles-call{number}-{count}.tar", taken, work, "w")
        heavy = [path for path in heavy if path not in taken]
    if heavy:
        names = ", ".join(str(path.relative_to(work)) for path in heavy[:20])
        print(f"left behind, too much to come back: {names}")


def below(work: Path, pattern: str) -> Iterator[Path]:
    """The files of a kind that are no cache, the oldest first."""
    found = [path for path in work.rglob(pattern) if path.relative_to(work).parts[0] not in CACHES]
    yield from sorted((path for path in found if path.is_file()), key=lambda path: path.stat().st_mtime)


def results(work: Path, new: Callable[[Path], bool]) -> Iterator[Path]:
    """What is small and tells something."""
    for pattern in SMALL:
        yield from (path for path in below(work, pattern) if new(path) and path.stat().st_size < LONGEST_JSON)


def filled(heavy: Sequence[Path]) -> list[Path]:
    """As many as one file holds."""
    taken: list[Path] = []
    for path in heavy:
        if sum(each.stat().st_size for each in (*taken, path)) < MOST_BYTES - 100_000:
            taken.append(path)
    return taken


def bundle(target: Path, paths: Sequence[Path], root: Path, mode: str) -> None:
    """An archive with its name only when complete; what would make it too large is left out."""
    if not paths:
        return
    part, size = target.with_suffix(".part"), 0
    with tarfile.open(part, mode) as archive:
        for path in sorted(paths, key=lambda each: each.stat().st_size):
            size += path.stat().st_size // (ASSUMED_RATIO if mode == "w:gz" and path.suffix != ".gz" else 1)
            if size < MOST_BYTES:
                archive.add(path, str(path.relative_to(root)))
    os.replace(part, target)
