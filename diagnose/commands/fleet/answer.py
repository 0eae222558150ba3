"""The answer of `diagnose fleet`: the use of GPU-hours, changes that return most, and hosts at fault."""

from typing import Literal

import msgspec

from diagnose.diagnosis.answer import Answer
from diagnose.diagnosis.terms import CauseClass, Share, Speedup

Basis = Literal["run", "day"]
Spent = Literal["lost", "work", "unknown"]
YesOrNo = Literal["yes", "no", "unknown"]
HostFault = Literal["late rank", "clock held down"]
HoursFrom = Literal["accounting", "armed run", "option", ""]


class FleetCause(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a cause of the ledgers, over all jobs that are counted.

    Attributes:
        cause: as ledgers spell it.
        spent: "lost" if no kernel computes: the GPU idles, copies, or waits in a collective; "work" if one does;
            "unknown" if the capture does not show it.
        gpu_hours: of all jobs together, on the basis of the fleet.
        share: of all GPU-hours.
        price: of these GPU-hours as far as their price is known; null if that of none is.
        jobs: the number in which it takes 2 % of the GPU-hours or more.
        worst: jobs in which it takes most, at most three.
        first_day: the first day on which it takes 2 % of a job, in UTC; "" if no such job has a date.
    """

    cause: str
    class_: CauseClass = msgspec.field(name="class")
    spent: Spent
    gpu_hours: float
    share: Share
    price: float | None = None
    jobs: int = 0
    worst: tuple[str, ...] = ()
    first_day: str = ""


class FleetGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a label, the ranks on a GPU type, or those on a host; the name "" collects those without one.

    `lost_share` is of the group's own GPU-hours, `price` of what it lost; `cause` is the one that most of that went to.
    """

    kind: Literal["label", "gpu", "host"]
    name: str
    jobs: int
    gpu_hours: float
    lost_gpu_hours: float
    lost_share: Share
    price: float | None = None
    cause: str = ""


class FleetChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change in the plans of some jobs, with its return over all of them.

    `gpu_hours` is [low, high], each job counted once by its own plan: the time that the change takes off after those
    before it, in the worst case and in the best. High is null if the best case of a job is not known. `action` are the
    words of the job that it returns most to, `worst` the jobs that it returns most to, at most three.
    """

    rule: str
    action: str
    effort: str
    numerics: bool
    jobs: int
    gpu_hours: Speedup
    price: Speedup | None = None
    worst: tuple[str, ...] = ()


class FleetHost(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a host has a fault in more jobs than chance explains.

    Attributes:
        host: its name.
        fault: "late rank": the rank that the others wait for is on it; "clock held down": heat or the power supply
            holds a GPU of it down.
        answer: "yes" if chance alone would do so less than once in a hundred fleets like this; "unknown" if so few jobs
            could not have shown it.
        because: the answer in a sentence.
        jobs: in which it ran, and which can show the fault.
        times: of these, those with the fault.
        expected: the number that chance would give it.
        p_value: of so many or more by chance, times the hosts that are tested; null if that is unknown.
        reasons: what makes it late or holds it down, the most frequent first.
        gpu_hours: that other ranks waited for it; null for a clock.
        first_day: with the fault, and
        last_day: likewise, in UTC; "" if nothing dates the jobs.
        worst: jobs with the fault, the latest first, at most three.
    """

    host: str
    fault: HostFault
    answer: YesOrNo
    because: str
    jobs: int
    times: int
    expected: float
    p_value: float | None = None
    reasons: tuple[str, ...] = ()
    gpu_hours: float | None = None
    first_day: str = ""
    last_day: str = ""
    worst: tuple[str, ...] = ()


class FleetTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a cause takes another share of the jobs since some day.

    `before_share` and `after_share` are of the GPU-hours of the jobs before and since `since_day`; null without one.
    `p_value` is that of Pettitt's test over the jobs in order of time, times the causes that are tested.
    """

    cause: str
    answer: YesOrNo
    because: str
    jobs: int
    since_day: str = ""
    before_share: float | None = None
    after_share: float | None = None
    p_value: float | None = None


class FleetDay(msgspec.Struct, frozen=True, kw_only=True):
    """Time of a cause in the jobs of a day, in UTC; `share` is of the GPU-hours of that day's jobs."""

    day: str
    cause: str
    gpu_hours: float
    share: Share


class FleetHostDay(msgspec.Struct, frozen=True, kw_only=True):
    """A host that others wait for in some job, on a day on which it ran, in UTC.

    `gpu_hours` are those of its own ranks, `waited_gpu_hours` those that other ranks waited for it.
    """

    host: str
    day: str
    gpu_hours: float
    waited_gpu_hours: float


class FleetJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job.

    Attributes:
        name: its number in Slurm, else the place of its files below the folder.
        label: that of the accounting, else the first folder of the place.
        gpus: its ranks, those without a trace included.
        devices: the GPU types.
        hosts: the number of known ones.
        windows: different captures of it.
        began: of the first of them, in UTC; "" if unknown.
        hours: that it ran; null if unknown.
        hours_from: the source of `hours`; "option" is --hours.
        gpu_hours: on the basis of the fleet; null of a job that is not counted, for the reason in `because`.
        lost_share: of them, null if the capture does not show it.
        cause: the one that most of that went to.
        price: of the GPU-hours; null if it is not known.
        verdict: what bounds its step, by the newest capture.
        next: what to do next, by that.
        returned: GPU-hours that its whole plan returns, [low, high]; null if nothing is predicted.
        source: the file that it is from.
    """

    name: str
    label: str = ""
    gpus: int
    devices: tuple[str, ...]
    hosts: int
    windows: int
    began: str = ""
    hours: float | None = None
    hours_from: HoursFrom = ""
    gpu_hours: float | None = None
    because: str = ""
    lost_share: float | None = None
    cause: str = ""
    price: float | None = None
    verdict: str
    next: str = ""
    returned: Speedup | None = None
    source: str


class FleetUnread(msgspec.Struct, frozen=True, kw_only=True):
    """A file or run that cannot be used, and why."""

    file: str
    why: str


class Fleet(Answer, frozen=True, kw_only=True):
    """The content of a report of many jobs.

    Attributes:
        source: the folder.
        basis: the time that GPU-hours are counted over: "run", as long as each job ran, or "day", a day in which all
            jobs run.
        diagnoses: files that hold one.
        analysed: runs that were analysed for it.
        repeats: duplicates of both: the same steps, or steps of the same trace.
        jobs: all of them, most lost GPU-hours first.
        counted: the number of jobs with GPU-hours.
        gpus: of these jobs.
        gpu_hours: of these jobs: the whole of every share.
        lost_gpu_hours: GPU-hours in which no kernel computes.
        unknown_gpu_hours: GPU-hours that captures do not attribute.
        price: of what is lost, as far as prices are known; null if none is.
        priced_share: of the GPU-hours, those with a price.
        causes: add up to the GPU-hours, the largest first.
        groups: by label, GPU type and host, each adding up to the GPU-hours.
        changes: the largest return first, by the worst case.
        all_changes: GPU-hours that all plans return together, [low, high]; null if none predicts anything.
        hosts: those with a fault in some job.
        hosts_tested: the number of hosts that were tested, by fault.
        trends: of the causes that lose most.
        days: in order.
        host_days: of the hosts that are waited for in some job, by host and day.
        unread: files that cannot be used.
        notes: further notes for the reader.
    """

    schema_version: int = 1
    source: str
    basis: Basis
    diagnoses: int
    analysed: int
    repeats: int
    jobs: tuple[FleetJob, ...]
    counted: int
    gpus: int
    gpu_hours: float
    lost_gpu_hours: float
    unknown_gpu_hours: float
    price: float | None = None
    priced_share: Share = 0.0
    causes: tuple[FleetCause, ...] = ()
    groups: tuple[FleetGroup, ...] = ()
    changes: tuple[FleetChange, ...] = ()
    all_changes: Speedup | None = None
    hosts: tuple[FleetHost, ...] = ()
    hosts_tested: dict[str, int] = msgspec.field(default_factory=dict)
    trends: tuple[FleetTrend, ...] = ()
    days: tuple[FleetDay, ...] = ()
    host_days: tuple[FleetHostDay, ...] = ()
    unread: tuple[FleetUnread, ...] = ()
    notes: tuple[str, ...] = ()
