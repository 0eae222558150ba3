"""Account of the GPU-hours of jobs: by cause, group and day, each adding up to the whole."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

from diagnose import formulas
from diagnose.attribution.causes import CAUSES, DISTORTED, GPU_ACTIVITY_MISSING, UNKNOWN_DEVICE, WAITING
from diagnose.commands.fleet.answer import Basis, FleetCause, FleetDay, FleetGroup, Spent
from diagnose.commands.fleet.jobs import DAY_H, JobWindows
from diagnose.diagnosis.terms import CauseClass

NOTABLE = 0.02  # of a job: less of a cause is everywhere
WORST = 3
_NOT_TOLD = (GPU_ACTIVITY_MISSING, UNKNOWN_DEVICE, DISTORTED)


def class_of(cause: str) -> CauseClass:
    """The class of a cause, "unexplained" of one that the table does not have."""
    return CAUSES[cause].class_ if cause in CAUSES else "unexplained"


def spent(cause: str) -> Spent:
    """The kind of the time: "work" if kernels compute, "lost" if none does, "unknown" if the cause shows neither."""
    if cause in _NOT_TOLD or cause not in CAUSES:
        return "unknown"
    return "work" if class_of(cause) in ("compute", "memory") and cause not in WAITING else "lost"


@dataclass(frozen=True)
class JobAccount:
    """A job with its GPU-hours on the basis of the fleet, and the GPU-hours of each cause."""

    job: JobWindows
    gpu_hours: float
    causes: Mapping[str, float]

    @property
    def lost(self) -> float:
        """GPU-hours in which no kernel computes."""
        return sum(hours for cause, hours in self.causes.items() if spent(cause) == "lost")

    @property
    def worst(self) -> str:
        """The cause that most lost GPU-hours went to, "" if none did."""
        lost = {cause: hours for cause, hours in self.causes.items() if spent(cause) == "lost" and hours > 0}
        return max(lost, key=lambda cause: lost[cause], default="")


def counted(job: JobWindows, basis: Basis) -> JobAccount | None:
    """The job with its GPU-hours; None if it has none, since it has no GPU or an unknown duration."""
    hours = job.gpus * DAY_H if basis == "day" else job.gpu_hours
    if hours is None or not job.has_gpu:
        return None
    return JobAccount(job, hours, {cause: hours * share for cause, share in job.share_of().items()})


def causes_of(jobs: Sequence[JobAccount]) -> tuple[FleetCause, ...]:
    """Every cause, the largest first."""
    whole = sum(each.gpu_hours for each in jobs)
    by_cause: dict[str, list[JobAccount]] = {}
    for each in jobs:
        for cause in each.causes:
            by_cause.setdefault(cause, []).append(each)
    found = (_cause(cause, own, whole) for cause, own in by_cause.items())
    return tuple(sorted(found, key=lambda row: (-row.gpu_hours, row.cause)))


def _cause(cause: str, jobs: Sequence[JobAccount], whole: float) -> FleetCause:
    hours = sum(each.causes[cause] for each in jobs)
    notable = [each for each in jobs if each.causes[cause] >= NOTABLE * each.gpu_hours > 0]
    worst = nlargest(WORST, notable, key=lambda each: each.causes[cause])
    return FleetCause(
        cause=cause,
        class_=class_of(cause),
        spent=spent(cause),
        gpu_hours=hours,
        share=part_of(hours, whole),
        price=priced((each.job.price, each.causes[cause]) for each in jobs),
        jobs=len(notable),
        worst=tuple(each.job.name for each in worst),
        first_day=min((each.job.day for each in notable if each.job.day), default=""),
    )


def part_of(part: float, whole: float) -> float:
    """The share, kept within its bounds despite rounding; 0 of nothing."""
    return min(max(formulas.share(part, whole) or 0.0, 0.0), 1.0)


def priced(hours: Iterable[tuple[float | None, float]]) -> float | None:
    """Money for (price, GPU-hours), as far as prices are known; None if none is."""
    known = [price * amount for price, amount in hours if price is not None]
    return sum(known) if known else None


@dataclass
class _Sum:
    """Sum of a group; `jobs` by the digest of their newest window, since names may repeat."""

    jobs: set[str] = field(default_factory=set)
    gpu_hours: float = 0.0
    lost: dict[str, float] = field(default_factory=dict)
    price: float | None = None

    def add(self, job: JobWindows, hours: float, lost: Iterable[tuple[str, float]]) -> None:
        """Adds a part of a job."""
        self.jobs.add(job.newest.digest)
        self.gpu_hours += hours
        for cause, amount in lost:
            self.lost[cause] = self.lost.get(cause, 0.0) + amount
            if job.price is not None:
                self.price = (self.price or 0.0) + job.price * amount


def groups_of(jobs: Iterable[JobAccount]) -> tuple[FleetGroup, ...]:
    """Groups by label, GPU type and host; within each kind, the largest loss first."""
    sums: dict[tuple[str, str], _Sum] = {}
    for each in jobs:
        lost = [(cause, hours) for cause, hours in each.causes.items() if spent(cause) == "lost"]
        sums.setdefault(("label", each.job.label), _Sum()).add(each.job, each.gpu_hours, lost)
        for window, part, share, shares in each.job.pieces():
            hours = share * each.gpu_hours
            told = zip(window.causes, (shares * hours).tolist(), strict=True)
            own = [(cause, amount) for cause, amount in told if spent(cause) == "lost"]
            for key in (("gpu", part.device), ("host", part.host)):
                sums.setdefault(key, _Sum()).add(each.job, hours, own)
    order = {"label": 0, "gpu": 1, "host": 2}
    found = [_group(kind, name, own) for (kind, name), own in sums.items()]
    return tuple(sorted(found, key=lambda row: (order[row.kind], -row.lost_gpu_hours, row.name)))


def _group(kind: str, name: str, own: _Sum) -> FleetGroup:
    lost = sum(own.lost.values())
    return FleetGroup(
        kind=kind,  # type: ignore[arg-type]
        name=name,
        jobs=len(own.jobs),
        gpu_hours=own.gpu_hours,
        lost_gpu_hours=lost,
        lost_share=part_of(lost, own.gpu_hours),
        price=own.price,
        cause=max(own.lost, key=lambda cause: own.lost[cause], default="") if lost else "",
    )


def days_of(jobs: Iterable[JobAccount]) -> tuple[FleetDay, ...]:
    """GPU-hours and share of each losing cause, by the day of the windows; windows without a date are left out."""
    whole: dict[str, float] = {}
    lost: dict[tuple[str, str], float] = {}
    for each in jobs:
        for day, hours, cause, amount in _by_day(each):
            whole[day] = whole.get(day, 0.0) + hours
            if cause and spent(cause) == "lost":
                lost[day, cause] = lost.get((day, cause), 0.0) + amount
    causes = sorted({cause for (_, cause), hours in lost.items() if hours > 0})
    taken = ((day, cause, lost.get((day, cause), 0.0)) for day in sorted(whole) for cause in causes)
    return tuple(
        FleetDay(day=day, cause=cause, gpu_hours=hours, share=part_of(hours, whole[day])) for day, cause, hours in taken
    )


def _by_day(each: JobAccount) -> Iterator[tuple[str, float, str, float]]:
    """For each window, its day and GPU-hours without a cause, then each cause with its GPU-hours."""
    for window, _, share, shares in each.job.pieces():
        if window.began:
            hours = share * each.gpu_hours
            yield window.day, hours, "", 0.0
            yield from (
                (window.day, 0.0, cause, amount)
                for cause, amount in zip(window.causes, (shares * hours).tolist(), strict=True)
            )
