"""By which jobs each kind of trouble is shown: simulated ones, jobs that run for real on a CPU, or faults on a GPU."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from advice_jobs.kinds import KINDS as CPU
from gpu.fault_table import FAULTS as GPU
from reporting import table
from simulator.faults import KINDS as RANKS

from .corpus import tables

STATED = Path(__file__).parent / "shown.toml"
BY = {"simulated": "simulated", "ranks": "simulated, jobs of ranks", "cpu": "run on a CPU", "gpu": "run on a GPU"}
NOTHING = "nothing but the examples of its rules"


@cache
def jobs() -> Mapping[str, frozenset[str]]:
    """The names of all jobs, by how they show their kind."""
    stated = tables()
    simulated = {*(fault["name"] for fault in stated["fault"]), *stated["further"], *stated["blinded"]}
    names = {"simulated": simulated, "ranks": {*RANKS}, "cpu": {kind.name for kind in CPU}, "gpu": {*GPU}}
    return {by: frozenset(each) for by, each in names.items()}


def stated() -> Sequence[Mapping[str, object]]:
    """The kinds, as `shown.toml` has them.

    Raises:
        ValueError: a kind names a job that is not there.
    """
    kinds: Sequence[Mapping[str, object]] = tomllib.loads(STATED.read_text(encoding="utf-8"))["kind"]
    for kind in kinds:
        unknown = [name for by in BY for name in _names(kind, by) if name not in jobs()[by]]
        if unknown:
            raise ValueError(f"{STATED}: no job is called {unknown[0]!r}")
    return kinds


def shown() -> str:
    """The table."""
    rows = []
    for kind in stated():
        each = [f"{words}: {'; '.join(names)}" for by, words in BY.items() if (names := _names(kind, by))]
        rows.append((str(kind["name"]), ". ".join(each) or NOTHING))
    return table(("kind of trouble", "shown by"), rows)


def _names(kind: Mapping[str, object], by: str) -> Sequence[str]:
    names = kind.get(by, ())
    return [str(name) for name in names] if isinstance(names, list) else []
