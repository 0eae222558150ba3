"""Turn windows into jobs: each job once, with its GPU-hours, its label and its price."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diagnose.arrays import Floats
from diagnose.commands.fleet.accounting import Accounted
from diagnose.commands.fleet.answer import Basis, HoursFrom
from diagnose.commands.fleet.matching import rows_of
from diagnose.commands.fleet.window import NO_GPU, FleetWindow, HostRanks

DAY_H = 24.0


@dataclass(frozen=True)
class Terms:
    """Facts about jobs that captures do not hold.

    Attributes:
        accounting: by the name of a job.
        hours: that each job ran whose hours nothing else gives.
        price: of a GPU-hour, if the accounting has none.
        armed_h: hours of each armed run, by its folder.
    """

    accounting: Mapping[str, Accounted]
    hours: float | None = None
    price: float | None = None
    armed_h: Mapping[str, float] | None = None


@dataclass(frozen=True)
class JobWindows:
    """One job; its `windows` are in order of time, those of a single rank before those of the whole job.

    `gpu_hours` and `price`, of a GPU-hour, are None if unknown. `row` is its name in the accounting, "" if no row is of
    it.
    """

    name: str
    label: str
    windows: tuple[FleetWindow, ...]
    gpus: int
    gpu_hours: float | None
    hours_from: HoursFrom
    price: float | None
    row: str = ""

    @property
    def newest(self) -> FleetWindow:
        """The window that provides the verdict and the plan."""
        return self.windows[-1]

    @property
    def day(self) -> str:
        """Day of its first window with a date, "" if none has one."""
        return min((window.day for window in self.windows if window.began), default="")

    @property
    def has_gpu(self) -> bool:
        """Whether the job runs on GPUs."""
        return self.newest.has_gpu

    def pieces(self) -> Iterator[tuple[FleetWindow, HostRanks, float, Floats]]:
        """Each part of each window, its share of the job's GPU-hours, and the shares of its causes.

        Windows count alike. Ranks without a trace are a part of their own, on no known host, with the mean shares of
        those with one.
        """
        for window in self.windows:
            each = 1 / len(self.windows) / max(self.gpus, 1)
            for part, shares in zip(window.parts, window.shares, strict=True):
                yield window, part, part.ranks * each, shares
            unseen = self.gpus - window.ranks
            if unseen > 0:
                device = max(window.parts, key=lambda part: part.ranks).device
                yield window, HostRanks("", device, unseen), unseen * each, mean_shares(window)

    def share_of(self) -> dict[str, float]:
        """Each cause's share of the job's GPU-hours."""
        found: dict[str, float] = {}
        for window in self.windows:
            for cause, share in zip(window.causes, mean_shares(window).tolist(), strict=True):
                found[cause] = found.get(cause, 0.0) + share / len(self.windows)
        return found


def mean_shares(window: FleetWindow) -> Floats:
    """Share of each cause in the time of all seen ranks, shape (causes,)."""
    ranks = np.array([part.ranks for part in window.parts], float)
    return (ranks / ranks.sum()) @ window.shares


def preferred(one: FleetWindow, other: FleetWindow) -> FleetWindow:
    """The one to keep of two windows of the same trace: of the whole job, then of more steps, else the first."""
    return max(one, other, key=lambda window: (window.is_whole, window.steps))


def jobs_of(windows: Iterable[FleetWindow], terms: Terms) -> list[JobWindows]:
    """The jobs in the order of their names."""
    by_job: dict[str, list[FleetWindow]] = {}
    for window in windows:
        key = f"slurm {window.slurm_job}" if window.slurm_job else window.run or window.digest
        by_job.setdefault(key, []).append(window)
    rows = rows_of(by_job, terms.accounting)
    jobs = [
        _job(sorted(own, key=lambda window: (window.is_whole, window.began)), rows.get(key, ""), terms)
        for key, own in by_job.items()
    ]
    return sorted(_distinguished(jobs), key=lambda job: job.name)


def _distinguished(jobs: Sequence[JobWindows]) -> Iterator[JobWindows]:
    """The jobs; those that share a name get their source added to it."""
    times = Counter(job.name for job in jobs)
    for job in jobs:
        yield job if times[job.name] == 1 else replace(job, name=f"{job.name} ({job.newest.source})")


def basis_of(jobs: Sequence[JobWindows], terms: Terms) -> Basis:
    """The basis of GPU-hours: each job's length if the user states lengths or all are known, else a day of all jobs."""
    known = all(job.gpu_hours is not None for job in jobs if job.has_gpu)
    stated = terms.hours is not None or any(row.gpu_hours is not None for row in terms.accounting.values())
    return "run" if known or stated else "day"


def _job(windows: list[FleetWindow], named: str, terms: Terms) -> JobWindows:
    newest = windows[-1]
    name = newest.slurm_job or newest.name
    row = terms.accounting.get(named, Accounted())
    gpus = max(window.gpus for window in windows)
    gpu_hours, hours_from = _gpu_hours(windows, gpus, row, terms)
    stated = next((price for price in (row.price, terms.price, newest.price) if price is not None), None)
    return JobWindows(
        name=name,
        label=row.label or next((label for window in windows if (label := _folder(window.name))), ""),
        windows=tuple(windows),
        gpus=gpus,
        gpu_hours=gpu_hours,
        hours_from=hours_from,
        price=stated,
        row=named,
    )


def _gpu_hours(
    windows: Sequence[FleetWindow], gpus: int, row: Accounted, terms: Terms
) -> tuple[float | None, HoursFrom]:
    if row.gpu_hours is not None:
        return row.gpu_hours, "accounting"
    armed = next((h for window in windows if (h := (terms.armed_h or {}).get(window.run)) is not None), None)
    if armed is not None:
        return armed * gpus, "armed run"
    return (None, "") if terms.hours is None else (terms.hours * gpus, "option")


def _folder(name: str) -> str:
    """The first folder of the place, which is named by the user."""
    first, slash, _ = name.partition("/")
    return first if slash else ""


def devices_of(job: JobWindows) -> tuple[str, ...]:
    """The GPU types of the job, in order of their names."""
    return tuple(sorted({part.device for part in job.newest.parts if part.device != NO_GPU}))
