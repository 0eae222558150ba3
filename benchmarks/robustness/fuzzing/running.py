"""Thousands of tries in one process or several: what they end in, how long the longest takes, how memory grows."""

import json
import random
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measuring import rules_read_once

from .case import Case, saved
from .kinds import built
from .minimise import MOST_RUNS, minimised
from .outcome import Outcome, outcome_of

MOST_GROWTH_MIB = 256
VALIDATED_EACH = 8  # tries; all are decoded by the types that the schema is generated from
_LONGEST_MINIMISING_S = 300.0  # of processor time: each try of a slow case is slow
_ROOM_BYTES = 6 << 30  # address space; what needs more for a small file ends as out of memory


@dataclass
class Tally:
    """What the tries came to.

    Attributes:
        outcomes: tries by kind and outcome.
        longest_s: processor time of the longest try.
        growth_mib: by how much the peak of the memory grew behind the first tenth of the tries; the worst process.
        defects: try and outcome of each defect.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    longest_s: float = 0.0
    growth_mib: int = 0
    defects: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, case: Case, end: Outcome) -> None:
        """Counts one try."""
        self.outcomes[case.kind, "DEFECT" if end.is_defect else end.name] += 1
        self.longest_s = max(self.longest_s, end.cpu_s)
        if end.is_defect:
            self.defects.append((number, end.name))

    @property
    def failed(self) -> bool:
        """Whether anything happened that must not."""
        return bool(self.defects) or self.growth_mib > MOST_GROWTH_MIB

    def to_json(self) -> dict[str, Any]:
        """As one process tells another."""
        outcomes = [[kind, end, count] for (kind, end), count in sorted(self.outcomes.items())]
        return {"outcomes": outcomes, "longest_s": round(self.longest_s, 2), "growth_mib": self.growth_mib,
                "defects": self.defects}  # fmt: skip


def joined(tallies: Iterable[dict[str, Any]]) -> Tally:
    """The tallies of several processes as one."""
    whole = Tally()
    for tally in tallies:
        for kind, end, count in tally["outcomes"]:
            whole.outcomes[kind, end] += count
        whole.longest_s = max(whole.longest_s, tally["longest_s"])
        whole.growth_mib = max(whole.growth_mib, tally["growth_mib"])
        whole.defects += [(number, name) for number, name in tally["defects"]]
    return whole


def case_of(seed: int, number: int, *kinds: str) -> Case:
    """The case of a try: the same seed, number and kinds make the same."""
    return built(random.Random(f"{seed}-{number}"), *kinds)


def fuzz(
    numbers: range, seed: int, kinds: Sequence[str] = (), kept: Path | None = None, log: Path | None = None
) -> Tally:
    """The tries of these numbers, in this process.

    Args:
        numbers: of the tries.
        seed: of all tries.
        kinds: of input to be mutated; all where none is named.
        kept: folder for the cases that end in a defect, made small, one of each name.
        log: file that holds the number of the try under way, for the case that the process dies.
    """
    tally, before = Tally(), 0.0
    with tempfile.TemporaryDirectory() as place, rules_read_once():
        for count, number in enumerate(numbers):
            if log is not None:
                log.write_text(str(number))
            case = case_of(seed, number, *kinds)
            end = outcome_of(case, Path(place), thorough=number % VALIDATED_EACH == 0)
            tally.add(number, case, end)
            if count == len(numbers) // 10:
                before = _peak_mib()
            if end.is_defect and kept is not None:
                keep(case, end, kept, Path(place))
    tally.growth_mib = round(_peak_mib() - before)
    return tally


def keep(case: Case, end: Outcome, kept: Path, place: Path) -> None:
    """Saves the case, made small, unless one of this name is there."""
    folder = kept / named(end)
    if folder.exists():
        return
    saved(case, folder, end.name)
    runs = round(min(MOST_RUNS, _LONGEST_MINIMISING_S / max(end.cpu_s, 0.01)))
    small = minimised(case, lambda other: outcome_of(other, place).signature == end.signature, runs)
    saved(small, folder, end.name)


def named(end: Outcome) -> str:
    """A name for the folder of a case, by what it ended in."""
    words = re.sub(r"[^a-z0-9]+", "-", end.signature.removeprefix("DEFECT ").lower())
    return words.strip("-")[:80].strip("-")


def fuzz_by_processes(script: Path, tries: int, seed: int, jobs: int, options: list[str]) -> Tally:
    """The tries shared by several processes, each of `script`; one that dies is a defect of the try under way."""
    with tempfile.TemporaryDirectory() as place:
        logs = [Path(place) / str(share) for share in range(jobs)]
        words = [sys.executable, str(script), "--tries", str(tries), "--seed", str(seed), *options]
        workers = [
            subprocess.Popen(
                [*words, "--share", f"{share}/{jobs}", "--log", str(log)], stdout=subprocess.PIPE, text=True
            )
            for share, log in enumerate(logs)
        ]
        return joined(_told(worker, log) for worker, log in zip(workers, logs, strict=True))


def _told(worker: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    out = worker.communicate()[0]
    try:
        found: dict[str, Any] = json.loads(out)
    except ValueError:
        number = int(log.read_text()) if log.exists() else -1
        end = f"DEFECT the process ended with {worker.returncode}"
        return Tally(defects=[(number, end)]).to_json()
    return found


@contextmanager
def bounded_room() -> Iterator[None]:
    """This process has so much address space, and no more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_ROOM_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
