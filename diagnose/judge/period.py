"""Steps over the period of a job: with the slow step in several, which a short window holds too often or not at all."""

from collections.abc import Sequence

from msgspec.structs import replace

from diagnose.attribution.causes import CAUSES, SLOW_PHASE
from diagnose.diagnosis import LedgerEntry, Mfu, Period, Steps
from diagnose.judge.case import Case
from diagnose.judge.slow_steps import WHAT, cause_of
from diagnose.judge.waterfall import MatrixTime
from diagnose.probes.protocol import PHASE_SHARE
from diagnose.series.phase import SlowPhase

_OVER_TIME = ("value", "executed_value", "goodput_value", "own_value", "reached_value", "tokens_per_s")


def period_of(case: Case) -> Period | None:
    """The period that the ranks agree on, if its slow steps take a part of the time and none of them is counted."""
    at_work = [m for m in case.measured if not m.waits_in_phase]
    measured, phase = at_work[0], at_work[0].slow_phase
    if not isinstance(phase, SlowPhase) or phase.run_share < PHASE_SHARE or not _agreed(case, phase):
        return None
    if any(phase.holds(number) for number in measured.timeline.steps.numbers):
        return None
    cause = cause_of(phase.grew) if phase.grew else "data-wait" if _loads(case) else SLOW_PHASE
    seen = case.phase
    return Period(
        every_steps=phase.every,
        more_ns=round(phase.more_ns),
        mean_ns=round(phase.others_mean_ns / (1 - phase.run_share)),
        share=phase.run_share,
        cause=cause,
        what=WHAT.get(phase.grew, "a late batch" if phase.irregular else ""),
        regular=not phase.irregular,
        rank=measured.timeline.rank if len(at_work) == 1 < len(case.measured) else None,
        recorded_step=seen.step if seen is not None else None,
        window=seen.window if seen is not None else "",
        cause_shares=dict(seen.shares) if seen is not None and cause == SLOW_PHASE else {cause: 1.0},
    )


def _agreed(case: Case, phase: SlowPhase) -> bool:
    """Whether all ranks are slow at the same distance."""
    phases = [m.slow_phase for m in case.measured]
    return all(isinstance(each, SlowPhase) and each.every == phase.every for each in phases)


def _loads(case: Case) -> bool:
    return case.facts["slow_phase_doing"].value == "loading"


def steps_over(steps: Steps, period: Period) -> Steps:
    """The steps with the mean time of a whole period, without the profiler."""
    whole = round(steps.count * period.mean_ns)
    return replace(steps, time_ns=whole, device_time_ns=None if steps.device_time_ns is None else whole)


def over_period(
    period: Period, steps: Steps, ledger: tuple[LedgerEntry, ...], work: MatrixTime | None, mfu: Mfu
) -> tuple[Steps, tuple[LedgerEntry, ...], MatrixTime | None, Mfu]:
    """All of these over a whole period, so that the parts still add up to the step, and the peak's to MFU."""
    whole = steps_over(steps, period)
    of_run = work and work.scaled(of_usual(ledger, whole.time_ns, period))
    return whole, ledger_over(ledger, whole.time_ns, period), of_run, mfu_over(mfu, period)


def of_usual(ledger: Sequence[LedgerEntry], whole_ns: int, period: Period) -> float:
    """The time of the usual steps in `whole_ns` of the period over that of the ledger, which is of counted steps."""
    return (1 - period.share) * whole_ns / max(sum(entry.ns for entry in ledger), 1)


def mfu_over(mfu: Mfu, period: Period) -> Mfu:
    """MFU over a whole period: its slow step does not compute in what it takes beyond the others."""
    values = {name: getattr(mfu, name) for name in _OVER_TIME}
    usual = 1 - period.share
    return replace(mfu, **{name: None if value is None else usual * value for name, value in values.items()})


def ledger_over(ledger: Sequence[LedgerEntry], whole_ns: int, period: Period) -> tuple[LedgerEntry, ...]:
    """The ledger of `whole_ns` over a whole period: what its slow step takes beyond the others counts for its cause, or
    for those that a window recorded of it if its cause is not known.
    """
    rest = of_usual(ledger, whole_ns, period)
    ns = {entry.cause: round(rest * entry.ns) for entry in ledger}
    beyond = whole_ns - sum(ns.values())
    for cause, share in period.cause_shares.items():
        ns[cause] = ns.get(cause, 0) + round(share * beyond)
    largest = max(period.cause_shares, key=lambda cause: period.cause_shares[cause])
    ns[largest] += whole_ns - sum(ns.values())
    return tuple(
        LedgerEntry(cause=cause, class_=CAUSES[cause].class_, ns=each, share=each / max(whole_ns, 1))
        for cause, each in ns.items()
        if each
    )
