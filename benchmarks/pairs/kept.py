"""What was measured before: a line for each kind of job, so that a run of an hour can be interrupted and go on.

A line counts only for the state of the project that it was measured with: the packages that are diagnosed with, the
rules, and the jobs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import msgspec
from advice_jobs.kinds import Kind

from .score import Outcome, Told

ROOT = Path(__file__).parents[2]
JUDGING = ("diagnose", "probes", "rules", "benchmarks/advice_jobs", "benchmarks/pairs")
_READ = (".py", ".toml", ".csv", ".json")


class Line(msgspec.Struct, frozen=True):
    """The outcome of a kind, the state of the project, and how many repeats were asked for."""

    kind: str
    state: str
    repeats: int
    told: Told
    speedups: tuple[float, ...]
    typed: str
    samples: bool | None
    failures: tuple[str, ...]


def state_of(root: Path = ROOT) -> str:
    """A digest of all that a diagnosis and the jobs are made by."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(path for folder in JUDGING for path in (root / folder).rglob("*") if path.suffix in _READ):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def keep(file: Path, outcome: Outcome, state: str, repeats: int) -> None:
    """Append the outcome; one that was withheld is measured again the next time."""
    if outcome.withheld:
        return
    told = {each.name: getattr(outcome, each.name) for each in fields(outcome) if each.name in Line.__struct_fields__}
    line = Line(**{**told, "kind": outcome.kind.name}, state=state, repeats=repeats)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as opened:
        opened.write(msgspec.json.encode(line) + b"\n")


def kept(file: Path, kinds: Mapping[str, Kind], state: str, repeats: int) -> Iterator[Outcome]:
    """The outcomes of this state and of as many repeats; a line that was cut is measured again."""
    for text in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            line = msgspec.json.decode(text, type=Line)
        except msgspec.DecodeError:
            continue
        if line.kind in kinds and (line.state, line.repeats) == (state, repeats):
            yield Outcome(kinds[line.kind], line.told, line.speedups, line.typed, line.samples, line.failures)
