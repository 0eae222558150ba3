"""Hosts with a fault in more jobs than chance explains: the test, its reference, and when the jobs are too few."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from diagnose.commands.fleet.account import WORST, JobAccount
from diagnose.commands.fleet.answer import FleetHost, FleetHostDay, HostFault, YesOrNo
from diagnose.commands.fleet.jobs import JobWindows
from diagnose.commands.fleet.window import FleetWindow, Late
from diagnose.formulas.statistics import hypergeometric_tail, poisson_binomial_tail

HELD_BY_THE_MACHINE = ("heat", "the power supply", "heat or the power supply")  # a power limit is usual, and no fault

ALPHA = 0.01  # chance of one accusation, or of one trend, in a fleet in which nothing is wrong


@dataclass(frozen=True)
class HostInJob:
    """A host in a job that can show the fault: whether it has it, why, and how long others waited for it."""

    job: JobWindows
    has: bool
    reasons: tuple[str, ...] = ()
    gpu_hours: float = 0.0


@dataclass(frozen=True)
class _Host:
    """A host in all jobs that can show the fault.

    Attributes:
        seen: each of them.
        expected: the number of faults that chance would give it.
        p_value: probability of so many faults or more by chance.
        least: the same if it had the fault in all of them.
    """

    seen: Sequence[HostInJob]
    expected: float
    p_value: float
    least: float

    @property
    def faults(self) -> list[HostInJob]:
        return [one for one in self.seen if one.has]


def hosts_of(jobs: Sequence[JobAccount]) -> tuple[tuple[FleetHost, ...], dict[str, int]]:
    """Hosts with a fault in some job, the least likely by chance first, and the number of hosts tested by fault."""
    found: list[FleetHost] = []
    tested: dict[str, int] = {}
    kinds: dict[HostFault, Callable[[Iterable[JobAccount]], dict[str, _Host]]] = {
        "late rank": _late,
        "clock held down": _held,
    }
    for fault, told in kinds.items():
        hosts = told(jobs)
        tested[fault] = len(hosts) if len(hosts) > 1 else 0
        found += [_judged(name, fault, host, len(hosts)) for name, host in hosts.items() if host.faults]
    order = {"yes": 0, "unknown": 1, "no": 2}
    found.sort(key=lambda row: (order[row.answer], 1.0 if row.p_value is None else row.p_value, -row.times, row.host))
    return tuple(found), tested


def _late(jobs: Iterable[JobAccount]) -> dict[str, _Host]:
    """Hosts by late ranks, in jobs on several hosts; by chance each rank is equally likely to be the late one."""
    seen: dict[str, list[HostInJob]] = {}
    chances: dict[str, list[float]] = {}
    for each in jobs:
        late, of_host = _late_host(each.job)
        if late is None:
            continue
        waits = list(_waits(each, late))
        why, waited = tuple(dict.fromkeys(window_late.why for _, window_late, _ in waits)), sum(h for *_, h in waits)
        for host, ranks in of_host.items():
            has = host == late
            seen.setdefault(host, []).append(HostInJob(each.job, has, why if has else (), waited if has else 0.0))
            chances.setdefault(host, []).append(ranks / of_host.total())
    return {
        host: _Host(own, sum(of), poisson_binomial_tail(sum(one.has for one in own), of), prod(of))
        for (host, own), of in zip(seen.items(), chances.values(), strict=True)
    }


def _late_host(job: JobWindows) -> tuple[str | None, Counter[str]]:
    """The host that is late in most windows of a job on several known hosts, if any is; the ranks by host."""
    windows = [window for window in job.windows if window.late is not None]
    named = Counter(window.late.host for window in windows if window.late is not None)
    of_host: Counter[str] = Counter()
    for part in windows[-1].parts if windows else ():
        of_host[part.host] += part.ranks
    worst = named.most_common(1)[0][0] if named else ""
    return (worst if len(of_host) > 1 and "" not in of_host and worst in of_host else None), of_host


def _waits(each: JobAccount, host: str) -> Iterator[tuple[FleetWindow, Late, float]]:
    """The windows of a job in which a host is late, and the GPU-hours that others waited for it."""
    others = (each.job.gpus - 1) / max(each.job.gpus, 1)
    for window in each.job.windows:
        if window.late is not None and window.late.host == host:
            yield window, window.late, each.gpu_hours * others * window.late.share / len(each.job.windows)


def host_days_of(jobs: Sequence[JobAccount]) -> tuple[FleetHostDay, ...]:
    """Each host that is waited for in some job, on each day on which it ran; windows without a date are left out."""
    ran: defaultdict[tuple[str, str], float] = defaultdict(float)
    waited: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each in jobs:
        for window, part, share, _ in each.job.pieces():
            ran[part.host, window.day] += share * each.gpu_hours
        late, _ = _late_host(each.job)
        if late is not None:
            for window, _, hours in _waits(each, late):
                waited[late, window.day] += hours
    hosts = {host for host, _ in waited}
    return tuple(
        FleetHostDay(host=host, day=day, gpu_hours=ran[host, day], waited_gpu_hours=waited[host, day])
        for host, day in sorted(ran)
        if host in hosts and day
    )


def _held(jobs: Iterable[JobAccount]) -> dict[str, _Host]:
    """Hosts by clocks that are held down, in jobs with readings; by chance the fault is spread blindly over hosts."""
    seen: dict[str, list[HostInJob]] = {}
    for each in jobs:
        for host, job, reasons in _readings(each.job):
            seen.setdefault(host, []).append(HostInJob(job, bool(reasons), reasons))
    whole = sum(map(len, seen.values()))
    marked = sum(one.has for own in seen.values() for one in own)
    hosts: dict[str, _Host] = {}
    for host, own in seen.items():
        times, ran = sum(one.has for one in own), len(own)
        p_value = hypergeometric_tail(times, ran, marked, whole)
        least = hypergeometric_tail(ran, ran, marked - times + ran, whole)
        hosts[host] = _Host(own, ran * marked / whole, p_value, least)
    return hosts


def _readings(job: JobWindows) -> Iterator[tuple[str, JobWindows, tuple[str, ...]]]:
    found: dict[str, dict[str, None]] = {}
    for window in job.windows:
        for host, reasons in window.held.items():
            found.setdefault(host, {}).update((why, None) for why in reasons if why in HELD_BY_THE_MACHINE)
    yield from ((host, job, tuple(reasons)) for host, reasons in found.items())


def _judged(name: str, fault: HostFault, host: _Host, hosts: int) -> FleetHost:
    seen, faults = host.seen, host.faults
    p_value, least = min(1.0, host.p_value * hosts), min(1.0, host.least * hosts)
    answer: YesOrNo = "unknown" if least >= ALPHA else "yes" if p_value < ALPHA else "no"
    days = sorted(one.job.day for one in faults if one.job.day)
    reasons = Counter(why for one in faults for why in one.reasons)
    latest = sorted(faults, key=lambda one: one.job.day, reverse=True)[:WORST]
    return FleetHost(
        host=name,
        fault=fault,
        answer=answer,
        because=_because(answer, fault, len(faults), len(seen), host.expected, hosts),
        jobs=len(seen),
        times=len(faults),
        expected=host.expected,
        p_value=None if answer == "unknown" else p_value,
        reasons=tuple(why for why, _ in reasons.most_common()),
        gpu_hours=sum(one.gpu_hours for one in faults) if fault == "late rank" else None,
        first_day=days[0] if days else "",
        last_day=days[-1] if days else "",
        worst=tuple(one.job.name for one in latest),
    )


def _because(answer: YesOrNo, fault: HostFault, times: int, jobs: int, expected: float, hosts: int) -> str:
    what = "the late rank is on it" if fault == "late rank" else "heat or the power supply holds a clock of it down"
    text = f"in {times} of {jobs} {'job' if jobs == 1 else 'jobs'} {what}"
    if hosts == 1:
        return f"{text}, and no other host has readings to compare it with"
    text += f"; chance would give {expected:.1f}"
    among = f" among {hosts} hosts"
    if answer == "unknown":
        return f"{text}, and so few jobs cannot tell{among}"
    return f"{text}, {'more than chance explains' if answer == 'yes' else 'which chance explains'}{among}"
