"""The runs of all readers on one trace, in turn, and what a trace holds that makes reading it more or less work."""

import gzip
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import ROOT, Outcome, Timed, Untimed, free_bytes, timed

from .readers import AGAIN, FROM_CACHE, Reader, fitting

SETTLED_AFTER_S = 4  # of a file that was written just now no answer is kept
_BLOCK_BYTES = 1 << 20
Runs = Mapping[str, Sequence[Outcome]]
_EVENT = re.compile(rb'"ph"\s*:')
_HOLDS = {
    "operators' shapes": re.compile(rb'"Input [Dd]ims"'),
    "Python functions": re.compile(rb'"cat"\s*:\s*"python_function"'),
    "compiled regions": re.compile(rb'"name"\s*:\s*"(?:CompiledFunction|Torch-Compiled Region)'),
    "Triton kernels": re.compile(rb'"kernel"\s*,\s*"name"\s*:\s*"triton_'),
}


@dataclass(frozen=True)
class Source:
    """A trace by the name of its file, its events and the bytes of its text, and how many events have each extra."""

    name: str
    text_bytes: int
    events: int
    holding: tuple[tuple[str, int], ...]

    @property
    def shape(self) -> str:
        """As a phrase: "40,573 events in 9.8 MB of text, no Python functions, 3,158 with ..."."""
        extras = [f"{count:,} with {extra}" if count else f"none with {extra}" for extra, count in self.holding]
        return f"{self.events:,} events in {self.text_bytes / 1e6:.1f} MB of text: {', '.join(extras)}"


def source_of(path: Path) -> Source:
    """What a trace holds, as its text says."""
    text = path.read_bytes()
    text = gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text
    holding = tuple((extra, _count(pattern, text)) for extra, pattern in _HOLDS.items())
    return Source(path.name, len(text), _count(_EVENT, text), holding)


def _count(pattern: re.Pattern[bytes], text: bytes) -> int:
    return sum(1 for _ in pattern.finditer(text))


@dataclass(frozen=True)
class Measured:
    """What each reader took for a text of so many bytes, made of a source, by reader and round."""

    source: Source
    text_bytes: int
    runs: Runs


def compared(
    readers: Sequence[Reader], path: Path, rounds: int, limit_s: float, left_out: Mapping[str, str]
) -> dict[str, list[Outcome]]:
    """The runs of each reader, in turn; the cache is filled before. None of a reader follows one that did not end.

    Args:
        readers: those to run, or to name with why they are not run.
        path: a trace.
        rounds: runs of each.
        limit_s: seconds that each may take.
        left_out: readers that are not to be run, with the reason.
    """
    text_bytes = path.stat().st_size
    readers = fitting(readers, text_bytes)
    runs: dict[str, list[Outcome]] = {reader.name: [] for reader in readers}
    with tempfile.TemporaryDirectory() as cache:
        env = _environment(cache)
        why_not = {**left_out, **_without_cache(readers, path, env, limit_s, left_out)}
        for number in range(1, rounds + 1):
            for reader in readers:
                if runs[reader.name] and isinstance(runs[reader.name][-1], Untimed):
                    continue
                why = why_not.get(reader.name) or reader.too_large(text_bytes, free_bytes())
                outcome = Untimed(why) if why else _timed_from_memory(reader.on(path, number), path, env, limit_s)
                runs[reader.name].append(outcome)
                sys.stderr.write(f"{reader.name}: {outcome}\n")
    return runs


def _timed_from_memory(command: Sequence[str], path: Path, env: Mapping[str, str], limit_s: float) -> Outcome:
    """One run, for which the system holds the text in memory: what ran before may have taken that for itself."""
    with path.open("rb", buffering=0) as file:
        while file.read(_BLOCK_BYTES):
            pass
    return timed(command, env, limit_s)


def never_again(runs: Runs) -> dict[str, str]:
    """The readers that were tried and did not end well, with why they are not tried on a larger text of the source."""
    lasts = {name: outcomes[-1] for name, outcomes in runs.items() if outcomes}
    return {
        name: f"not run, of less text: {last.why}"
        for name, last in lasts.items()
        if isinstance(last, Untimed) and not last.why.startswith("not run")
    }


def _environment(cache: str) -> dict[str, str]:
    """Bytecode is kept, as an installation holds it, and apart, so that no version finds another's."""
    env = os.environ | {"DIAGNOSE_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    env["PYTHONPYCACHEPREFIX"] = f"{cache}/bytecode"
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def _without_cache(
    readers: Sequence[Reader], path: Path, env: Mapping[str, str], limit_s: float, left_out: Mapping[str, str]
) -> dict[str, str]:
    """Fills the cache; why that failed, for each reader that reads from it."""
    os.sync()  # else the first readers share the machine with the disk that a trace made just now is written to
    time.sleep(SETTLED_AFTER_S)
    (again,) = (reader for reader in readers if reader.name == AGAIN)
    if again.name in left_out:
        return {}
    filled = timed(again.on(path, 0), env, limit_s)
    return {} if isinstance(filled, Timed) else dict.fromkeys((AGAIN, FROM_CACHE), f"not run, no cache: {filled.why}")
