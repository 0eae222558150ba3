"""A diagnosis reduced to what a fleet needs: kilobytes, so that thousands fit where one diagnosis does."""

import hashlib
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from diagnose.arrays import Floats
from diagnose.attribution.causes import LATENESS
from diagnose.diagnosis import Diagnosis, PlanStep, RankReport, Speedup
from diagnose.diagnosis.postmortem import Straggler
from diagnose.predict.run_of_diagnosis import gpus_of

NO_GPU = "CPU"
NOT_THE_HOSTS = ("more_work",)  # what the job itself gives a rank to do
_LONGEST = 200
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_LEAST_FACTOR, _MOST_FACTOR = 1e-6, 1e6


@dataclass(frozen=True, slots=True)
class HostRanks:
    """The ranks on one host with one type of GPU; `host` is "" if it is unknown."""

    host: str
    device: str
    ranks: int


@dataclass(frozen=True, slots=True)
class Late:
    """The rank that the others wait for most: its host, the reason, and the share of their steps that they wait."""

    host: str
    why: str
    share: float


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A step of the plan; `cumulative` is the speed with it and all steps before it."""

    rule: str
    action: str
    effort: str
    numerics: bool
    cumulative: Speedup


@dataclass(frozen=True, slots=True)
class FleetWindow:
    """One capture.

    Attributes:
        source: its file or folder, as it may be shown.
        name: of its job, by the place.
        run: the folder of the armed run that it is a window of, "" if it is none.
        digest: the same for all windows of the same steps of the same ranks.
        trace: the same for all windows of the same files, whichever steps they cover.
        steps: that it covers, of the rank with most.
        is_whole: of the job, and not of one rank.
        began: in UTC, "" if unknown.
        slurm_job: the job's number, likewise.
        gpus: ranks of the job, those without a trace included.
        parts: its ranks by host and GPU.
        causes: of the ledgers.
        shares: of the time of each part's ranks, shape (parts, causes); a row adds up to 1.
        late: None if no rank is late, or its cause is not the host.
        held: by host with readings, the reasons that hold the clocks of its GPUs down.
        plan: changes with a prediction, in order.
        verdict: the class that bounds the step.
        next: what to do.
        price: of a GPU-hour, as it was stated to the analysis.
    """

    source: str
    name: str
    run: str
    digest: str
    trace: str
    steps: int
    is_whole: bool
    began: str
    slurm_job: str
    gpus: int
    parts: tuple[HostRanks, ...]
    causes: tuple[str, ...]
    shares: Floats
    late: Late | None
    held: Mapping[str, tuple[str, ...]]
    plan: tuple[PlannedChange, ...]
    verdict: str
    next: str
    price: float | None

    @property
    def day(self) -> str:
        """Day of its first step."""
        return self.began[:10]

    @property
    def ranks(self) -> int:
        """Number of its ranks that were seen."""
        return sum(part.ranks for part in self.parts)

    @property
    def has_gpu(self) -> bool:
        """Whether any rank has a GPU."""
        return any(part.device != NO_GPU for part in self.parts)


def window_of(diagnosis: Diagnosis, source: str, name: str, run: str = "") -> FleetWindow | None:
    """The window of a diagnosis; None if no rank has a step."""
    ranks = [rank for rank in diagnosis.ranks if rank.steps and any(entry.ns for entry in rank.ledger)]
    if not ranks:
        return None
    parts = _by_part(ranks)
    causes = tuple(dict.fromkeys(sys.intern(entry.cause) for rank in ranks for entry in rank.ledger))
    cost, answer = diagnosis.cost, diagnosis.next
    return FleetWindow(
        source=source,
        name=name,
        run=run,
        digest=_digest(ranks),
        trace=_trace(diagnosis),
        steps=max(rank.steps for rank in ranks),
        is_whole=diagnosis.rank is None,
        began=diagnosis.origin.began if _TIME.fullmatch(diagnosis.origin.began) else "",
        slurm_job=diagnosis.origin.slurm_job if _NUMBER.fullmatch(diagnosis.origin.slurm_job) else "",
        gpus=gpus_of(diagnosis),
        parts=tuple(HostRanks(*of, len(own)) for of, own in parts.items()),
        causes=causes,
        shares=np.array([_shares(own, causes) for own in parts.values()]),
        late=_late(diagnosis, ranks),
        held=_held(ranks),
        plan=tuple(_plan(diagnosis)),
        verdict=diagnosis.verdict.class_,
        next=(answer.action or answer.rule if answer.kind == "change" else answer.says)[:_LONGEST],
        price=cost.gpu_hour_price if cost is not None and _is_factor(cost.gpu_hour_price) else None,
    )


def _by_part(ranks: list[RankReport]) -> dict[tuple[str, str], list[RankReport]]:
    parts: dict[tuple[str, str], list[RankReport]] = {}
    for rank in ranks:
        parts.setdefault((sys.intern(rank.host[:_LONGEST]), sys.intern(rank.device[:_LONGEST])), []).append(rank)
    return parts


def _shares(ranks: list[RankReport], causes: tuple[str, ...]) -> list[float]:
    """Mean over the ranks of each cause's share of the rank's own time."""
    shares = dict.fromkeys(causes, 0.0)
    for rank in ranks:
        whole = sum(entry.ns for entry in rank.ledger)
        for entry in rank.ledger:
            shares[entry.cause] += entry.ns / whole / len(ranks)
    return list(shares.values())


def _digest(ranks: list[RankReport]) -> str:
    """A hash of the nanoseconds of each rank by cause, which no two captures share."""
    told = sorted((rank.rank, rank.steps, sorted((entry.cause, entry.ns) for entry in rank.ledger)) for rank in ranks)
    return _hashed(told)


def _trace(diagnosis: Diagnosis) -> str:
    """A hash of the trace: the names of its files, its begin and job, and its size."""
    origin, trace = diagnosis.origin, diagnosis.trace
    names = sorted(PurePosixPath(file).name for file in trace.files)
    return _hashed((names, origin.began, origin.slurm_job, trace.bytes, trace.events))


def _hashed(told: object) -> str:
    return hashlib.sha256(repr(told).encode()).hexdigest()[:24]


def _late(diagnosis: Diagnosis, ranks: list[RankReport]) -> Late | None:
    """The rank that causes most waiting, if its host may be the cause; else None."""
    hosts = {rank.rank: rank.host for rank in ranks}
    found: list[Straggler] = [one for one in diagnosis.stragglers if one.persistence != "suspected"]
    worst = max(found, key=lambda one: one.waiting_ns_caused, default=None)
    if worst is None or worst.cause in NOT_THE_HOSTS:
        return None
    host = (worst.host or hosts.get(worst.rank, ""))[:_LONGEST]
    share = worst.share if 0 <= worst.share <= 1 else 0.0
    return Late(sys.intern(host), LATENESS[worst.cause], share) if host else None


def _held(ranks: list[RankReport]) -> dict[str, tuple[str, ...]]:
    held: dict[str, list[str]] = {}
    for rank in ranks:
        if rank.host and rank.clock_held_by is not None:
            held.setdefault(rank.host[:_LONGEST], []).extend(rank.clock_held_by[:8])
    return {host: tuple(dict.fromkeys(reasons)) for host, reasons in held.items()}


def _plan(diagnosis: Diagnosis) -> Iterator[PlannedChange]:
    """The steps of the plan that have a prediction, up to the first with an impossible one."""
    actions = {finding.rule: finding.action or finding.rule for finding in diagnosis.findings}
    for step in diagnosis.plan:
        if step.cumulative_speedup is None:
            continue
        if not _is_range(step):
            return
        action = actions.get(step.rule, step.rule)[:_LONGEST]
        yield PlannedChange(
            step.rule[:_LONGEST], action, step.effort[:_LONGEST], step.numerics, step.cumulative_speedup
        )


def _is_range(step: PlanStep) -> bool:
    low, high = step.cumulative_speedup or (0.0, None)
    return _is_factor(low) and (high is None or (_is_factor(high) and high >= low))


def _is_factor(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and _LEAST_FACTOR < value < _MOST_FACTOR
