"""The corpus: one row for each job, from the tables of faults."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from simulator import CAUSES, Clocks, Fault, Job, WholeJob
from simulator.job import PARALLELISMS

from .changed import changed
from .truth import step_ms

HERE = Path(__file__).parent
Severity = Literal["none", "mild", "medium", "severe"]
SEVERITIES: tuple[Severity, ...] = ("mild", "medium", "severe")
Half = Literal["tuned on", "scored on", "blind"]
RANKS, NODE = 8, 4
SCORED_SEEDS = range(1, 2)
SKEW = Clocks(offset_ms=3, drift_ppm=50)


@dataclass(frozen=True)
class Case:
    """A job and what is wrong with it.

    Attributes:
        name: of the fault; "healthy" where nothing is wrong.
        source: the base that it is injected into.
        severity: how much of it.
        seed: of the job's noise; rules may be tuned on even seeds.
        job: as it runs.
        rules: of which one has to be the first advice; empty where nothing is wrong.
        late: the rank to be named, and its cause; empty where none is late.
        may_be_late: further ranks that are rightly named, such as those of a node whose link is slow.
        kept: part of the GPU's events that the trace keeps.
    """

    name: str
    source: str
    severity: Severity
    seed: int
    job: Job
    rules: tuple[str, ...] = ()
    late: tuple[tuple[int, str], ...] = ()
    may_be_late: tuple[tuple[int, str], ...] = ()
    kept: float = 1.0

    @property
    def half(self) -> Half:
        """Which half it belongs to; "blind" are further seeds of the scored half, whose misses nobody has looked at."""
        return "tuned on" if self.seed % 2 == 0 else "scored on" if self.seed in SCORED_SEEDS else "blind"

    @property
    def label(self) -> str:
        """The row's name."""
        return f"{self.name}, {self.severity}, {self.source}, seed {self.seed}"


@cache
def tables() -> Mapping[str, Any]:
    """`faults.toml`."""
    return tomllib.loads((HERE / "faults.toml").read_text(encoding="utf-8"))


def corpus(seeds: Iterable[int], severities: tuple[Severity, ...] = SEVERITIES) -> Iterator[Case]:
    """Every fault in every severity, and jobs without one, for each seed."""
    for seed in seeds:
        yield from _healthy(seed)
        for severity in severities:
            yield from _whole(seed, severity)
            yield from _late(seed, severity)
            yield from _blinded(seed, severity)


def _base(name: str, seed: int) -> WholeJob:
    return changed(WholeJob(seed=seed), tables()["bases"][name])


def _healthy(seed: int) -> Iterator[Case]:
    for name in tables()["bases"]:
        yield Case("healthy", name, "none", seed, _base(name, seed))
        reads = changed(_base(name, seed), {"reads_loss": True})
        yield Case("healthy, reads each loss", name, "none", seed, reads)
    for parallelism in PARALLELISMS:
        job = Job(RANKS, NODE, seed=seed, parallelism=parallelism, clocks=SKEW)
        yield Case("healthy", f"{RANKS} ranks, {parallelism}", "none", seed, job)


def healthy(seeds: Iterable[int]) -> Iterator[Case]:
    """Jobs in which nothing is wrong: each shape of the table on each of its GPUs, for each seed."""
    for seed in seeds:
        for name, shape in tables()["healthy"].items():
            for base in shape.get("on", list(tables()["bases"])):
                job = changed(_base(base, seed), shape["set"])
                yield Case(f"healthy, {name}", base, "none", seed, job)


def drawn(seeds: Iterable[int], severities: tuple[Severity, ...] = SEVERITIES) -> Iterator[Case]:
    """The faults of whole jobs on machines whose kernels reach, and whose changes gain, what is drawn for each job."""
    for seed in seeds:
        for severity in severities:
            for number, case in enumerate(_whole(seed, severity), 1):
                if isinstance(case.job, WholeJob):
                    yield replace(case, job=replace(case.job, drawn=1000 * seed + number))


def further(seeds: Iterable[int], severities: tuple[Severity, ...] = SEVERITIES) -> Iterator[Case]:
    """The faults that no base is stated for, on an AMD GPU, and in captures of few steps."""
    for kind, stated in tables()["further"].items():
        for seed in seeds:
            for severity in severities:
                for case in _whole(seed, severity, stated):
                    yield replace(case, name=f"{case.name}, {kind}")


def _whole(seed: int, severity: Severity, further: Mapping[str, Any] | None = None) -> Iterator[Case]:
    """The faults of whole jobs; `further` names one base for all of them, what to set of it, and what no fault sets."""
    at = SEVERITIES.index(severity)
    for number, fault in enumerate(tables()["fault"]):
        bases = fault.get("on", list(tables()["bases"]))
        if further and not _is_for(fault, further):
            continue
        name = further["base"] if further else bases[(seed + number) % len(bases)]
        base = changed(_base(name, seed), further["set"] if further else {})
        fields = {key: value[at] if isinstance(value, list) else value for key, value in fault["set"].items()}
        yield Case(fault["name"], name, severity, seed, changed(base, fields, step_ms(base)), tuple(fault["rules"]))


def _is_for(fault: Mapping[str, Any], further: Mapping[str, Any]) -> bool:
    """Whether the fault has no base of its own, and sets and is cured by what jobs of this kind have."""
    without, not_rules = further["without"], further.get("not_rules", ())
    return "on" not in fault and fault["set"].keys().isdisjoint(without) and not {*fault["rules"]} & {*not_rules}


def _late(seed: int, severity: Severity) -> Iterator[Case]:
    at = SEVERITIES.index(severity)
    for number, (kind, stated) in enumerate(tables()["late"].items()):
        parallelism = PARALLELISMS[(seed + number + at) % len(PARALLELISMS)]
        rank = 0 if kind == "checkpoint" else (5 * seed + number) % RANKS
        ranks = tuple(range(rank // NODE * NODE, rank // NODE * NODE + NODE)) if kind == "slow_link" else (rank,)
        fault = Fault(kind, ranks, stated["sizes"][at])
        job = Job(RANKS, NODE, seed=seed, parallelism=parallelism, clocks=SKEW, faults=(fault,))
        blamed = tuple((one, CAUSES[kind]) for one in ranks) if CAUSES[kind] else ()
        named = ((), blamed) if kind == "slow_link" else (blamed, ())
        source = f"{RANKS} ranks, {parallelism}"
        yield Case(f"rank: {kind}", source, severity, seed, job, tuple(stated["rules"]), *named)


def _blinded(seed: int, severity: Severity) -> Iterator[Case]:
    name = "decoder-a100"
    for what, kept in tables()["blinded"].items():
        yield Case(what, name, severity, seed, _base(name, seed), kept=kept[SEVERITIES.index(severity)])
