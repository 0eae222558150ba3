"""Sides of a comparison by hand, and the traces whose pairs are compared."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from diagnose.commands.compare.command import side_at
from diagnose.commands.compare.side import Side, SideCause, SideKernel

MS = 1_000_000
SAMPLES = Path(__file__).parent.parent / "sample_traces"
REAL = Path(os.environ.get("DIAGNOSE_REAL_TRACES", ""))


def run(*each_ms: float, **changes: Any) -> Side:
    """A run on a GPU with these device steps, of which half is matrix products and the rest waits for data."""
    each = tuple(round(ms * MS) for ms in each_ms)
    halves = tuple(ns // 2 for ns in each)
    rest = tuple(ns - half for ns, half in zip(each, halves, strict=True))
    causes = (
        SideCause(cause="gemm", class_="compute", ns=sum(halves), by_step_ns=halves),
        SideCause(cause="data-wait", class_="data", ns=sum(rest), by_step_ns=rest),
    )
    made = {"source": "run", "kind": "diagnosis", "device": "H100", "step": "device step", "each_ns": each}
    return Side(**(made | {"counted": len(each), "ranks": 1, "causes": causes} | changes))


def log(*each_ms: float, **changes: Any) -> Side:
    """A run of which a log tells these steps."""
    each = tuple(round(ms * MS) for ms in each_ms)
    return Side(**({"source": "steps.csv", "kind": "log", "unprofiled_ns": each} | changes))


def kernel(name: str, ms: float, count: float = 1.0) -> SideKernel:
    return SideKernel(name=name, count=count, ns=round(ms * MS))


def traces() -> list[Path]:
    """The samples, and the real traces where they are here."""
    paths = [path for path in sorted(SAMPLES.iterdir()) if path.name != "dumps"]
    found = [path for path in paths if path.is_dir() or path.name.endswith(".json.gz")]
    if "DIAGNOSE_REAL_TRACES" in os.environ:
        folders = [path for path in sorted(REAL.iterdir()) if path.is_dir() and path.name != "damaged"]
        found += [path for folder in folders for path in _runs_of(folder)]
    return [path for path in found if path.name != "__pycache__"]


def _runs_of(folder: Path) -> list[Path]:
    """The folder, or its files where each is a run of its own."""
    return sorted(folder.glob("*.json.gz")) if folder.name.endswith("-pair") else [folder]


@cache
def side(path: Path) -> Side:
    return side_at(str(path))
