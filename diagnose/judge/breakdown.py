"""The breakdowns of ranks added up, and what the verdict over them rests on."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Ints
from diagnose.attribution.causes import GPU_ACTIVITY_MISSING, UNKNOWN_DEVICE, class_of
from diagnose.diagnosis import LedgerEntry, LightPart, RankReport, Steps, Verdict
from diagnose.facts import Facts, Unknown, spoken
from diagnose.judge.case import Case
from diagnose.judge.verdict import Grounds, verdict_of
from diagnose.metrics import Measured
from diagnose.metrics.run.core_wait import OTHERS
from diagnose.ranks import Job, RankDigest
from diagnose.ranks.distorted import undistorted_ns
from diagnose.trace.light_steps import host_step_ns, range_shares
from diagnose.trace.record import unprofiled_ns
from diagnose.trace.vocabulary import STEP_MARKS

DEVICE_STEP, HOST_STEP = "the device step", "the host step"


def breakdown_of(job: Job, positions: Sequence[int]) -> tuple[LedgerEntry, ...]:
    """Causes of the ranks at the positions added up, largest first; an absent cause has no entry."""
    if any(job.ranks[p].capture_failed for p in positions):
        total = sum(job.ranks[p].host_ns for p in positions)
        unknown = any(job.ranks[p].unknown_device for p in positions)
        return (_entry(UNKNOWN_DEVICE if unknown else GPU_ACTIVITY_MISSING, total, 1.0),)
    sums = job.together(positions)
    total = max(sum(sums.values()), 1)
    ordered = sorted(((cause, ns) for cause, ns in sums.items() if ns), key=lambda part: (-part[1], part[0]))
    return tuple(_entry(cause, ns, ns / total) for cause, ns in ordered)


def divided_by_step(breakdown: tuple[LedgerEntry, ...], job: Job, positions: Sequence[int]) -> tuple[LedgerEntry, ...]:
    """The breakdown of the ranks at the positions, with each cause's part of every step if all count the same steps."""
    if not _in_step([job.ranks[p] for p in positions]):
        return breakdown
    sums: dict[str, Ints] = {}
    for position in positions:
        for cause, ns in job.breakdown_by_step(position).items():
            sums[cause] = sums[cause] + ns if cause in sums else ns
    divided = tuple(
        replace(entry, by_step_ns=tuple(sums[entry.cause].tolist()))
        for entry in breakdown
        if entry.cause in sums and int(sums[entry.cause].sum()) == entry.ns
    )
    return divided if len(divided) == len(breakdown) else breakdown


def _in_step(ranks: Sequence[RankDigest]) -> bool:
    return len({rank.numbers for rank in ranks}) == 1 and len({rank.steps for rank in ranks}) == 1


def _entry(cause: str, ns: int, share: float) -> LedgerEntry:
    return LedgerEntry(cause=cause, class_=class_of(cause), ns=ns, share=share)


def steps_of(ranks: Sequence[RankDigest], measured: Sequence[Measured]) -> Steps:
    """The counted steps of the ranks: totals in nanoseconds, and the steps that the measured ranks timed unprofiled.

    If the profiler distorts the steps, the totals are those of as many steps without it.
    """
    distortion = measured[0].job.distortion
    each = [rank.windows[:, 1] - rank.windows[:, 0] for rank in ranks] if _in_step(ranks) and not distortion else []
    undistorted = sum(undistorted_ns(rank, distortion) for rank in ranks) if distortion is not None else None
    on_gpu = all(rank.has_gpu for rank in ranks)
    return Steps(
        source=ranks[0].step_source,
        count=sum(rank.steps for rank in ranks),
        time_ns=sum(rank.host_ns for rank in ranks) if undistorted is None else undistorted,
        device_time_ns=(sum(r.device_ns for r in ranks) if undistorted is None else undistorted) if on_gpu else None,
        numbers=tuple(sorted({n for rank in ranks if rank.step_source in STEP_MARKS for n in rank.numbers})),
        uncounted_ns=sum(rank.uncounted_ns for rank in ranks),
        each_ns=tuple(np.mean(each, axis=0).round().astype(int).tolist()) if each else (),
        unprofiled_ns=_unprofiled_ns(measured),
        light_parts=_light_parts(measured),
        distortion=distortion,
    )


def _unprofiled_ns(measured: Sequence[Measured]) -> tuple[int, ...]:
    """Unprofiled step times: the mean over the ranks if all timed equally many, else those of the first that has
    any.
    """
    return tuple(round(ns) for ns in mean_of_ranks([unprofiled_ns(m.record) for m in measured]))


def mean_of_ranks(times: Sequence[Sequence[float]]) -> list[float]:
    """Each step as the mean of the ranks, if all timed equally many; else the steps of the first that timed any."""
    timed = [each for each in times if each]
    alike = timed if len({len(each) for each in timed}) == 1 else timed[:1]
    return np.mean(alike, axis=0).tolist() if alike else []


def _light_parts(measured: Sequence[Measured]) -> tuple[LightPart, ...]:
    """The host's time by range in the mean step without the profiler, over the ranks that timed their ranges."""
    timed = [(ns, range_shares(m.record)) for m in measured if (ns := host_step_ns(m.record)) is not None]
    sums: dict[str, float] = {}
    for ns, shares in timed:
        for name, share in {**shares, "": max(1 - sum(shares.values()), 0.0)}.items():
            sums[name] = sums.get(name, 0.0) + ns * share
    total = sum(ns for ns, _ in timed)
    if not any(shares for _, shares in timed):
        return ()
    ordered = sorted(sums.items(), key=lambda part: (not part[0], -part[1]))
    return tuple(LightPart(range=name, ns=round(ns / len(timed)), share=ns / total) for name, ns in ordered)


def grounds_of(case: Case, ranks: Sequence[RankDigest]) -> Grounds:
    """The grounds for the verdict over the ranks' breakdown."""
    facts, rules = case.facts, case.rules
    size = facts["world_size"].value
    has_gpu = all(rank.has_gpu for rank in ranks)
    return Grounds(
        of=DEVICE_STEP if has_gpu else HOST_STEP,
        has_gpu=has_gpu,
        capture_failed=any(rank.capture_failed for rank in ranks),
        is_empty=all(rank.is_empty for rank in ranks),
        lost_share=sum(rank.lost_share for rank in ranks) / len(ranks),
        sized_share=sum(rank.sized_share for rank in ranks) / len(ranks),
        alone_of_many=len(ranks) == 1 and not isinstance(size, Unknown) and float(size) > 1,
        late_rank_missing=facts["late_rank_may_be_missing"].value is True,
        waiting_apart=facts["transfer_share"].known,
        unknown_device=_unknown_device(ranks),
        distortion=case.job.view.distortion,
        profiler_factor=_known(facts, "profiler_overhead_factor", 1.0),
        cores_held=_cores_held(facts),
        gaps_recur=facts["operator_gap_recurs"].value is True,
        doubts=tuple(filter(None, (rule.doubting(facts) for rule in rules))),
    )


def _known(facts: Facts, name: str, otherwise: float) -> float:
    value = facts[name].value
    return otherwise if isinstance(value, Unknown) else float(value)


def _cores_held(facts: Facts) -> str:
    """A clause on what holds the cores that the job's threads wait for; "" if it is not known."""
    others, demand = facts["others_cpu_share"].value, facts["core_demand"].value
    if facts["crowded_by"].value == OTHERS and not isinstance(others, Unknown):
        return f"other processes take {spoken(others, 'share')} of the cores"
    return demand if isinstance(demand, str) else ""


def _unknown_device(ranks: Sequence[RankDigest]) -> str:
    """Events of unknown devices by category, such as "813 events of hpu_op"; "" if every device is known."""
    events: Counter[str] = Counter()
    for rank in ranks:
        events.update(rank.unknown_device)
    return " and ".join(f"{number:,} events of {category}" for category, number in events.most_common())


def rank_report(case: Case, position: int) -> RankReport:
    """Verdict and breakdown of the rank at the position."""
    rank, breakdown = case.job.ranks[position], breakdown_of(case.job, [position])
    verdict: Verdict = verdict_of(breakdown, grounds_of(case, [rank]))
    return RankReport(
        rank=rank.rank,
        host=rank.host,
        device=rank.device or "unknown device",
        clock_held_by=None if rank.clock is None else rank.clock.held_by,
        steps=rank.steps,
        verdict=verdict,
        ledger=breakdown,
    )
