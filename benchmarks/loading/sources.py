"""The small traces that large ones are made of, named by what makes reading them more or less work."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

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
