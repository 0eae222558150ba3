"""Sentences on a job's ranks: late ranks and their cost, missing ranks, the collectives, the clocks."""

from collections.abc import Sequence

from diagnose.attribution.causes import LATENESS
from diagnose.diagnosis import Diagnosis, RankReport
from diagnose.diagnosis.postmortem import NO_STRAGGLER, JobChange, Postmortem, SlowGroup, Straggler, Traffic
from diagnose.facts import duration, spoken
from diagnose.formulas import share
from diagnose.report.views.breakdown import Basis
from diagnose.report.views.gains import speedup
from diagnose.report.views.plain import plain
from diagnose.report.views.words import cause_name, counted, spans

_HOST = {"more": "because it runs more host code", "slower": "because its host is slower"}
EXCESS_SHOWN = 4
SMALLEST_EXCESS = 0.01  # of the largest
HARDLY = 0.005  # of a step: a gain so small is not spelled out
MOST_OF_IT = 0.8  # of the waiting for a late rank: if more disappears with it, the rest is jitter
TRAFFIC_HEADS = (
    "collective",
    "size",
    "ranks",
    "per step",
    "transfer",
    "waiting",
    "exposed communication, of the step",
    "busbw",
    "expected",
)


def lateness(straggler: Straggler) -> str:
    """The cause of a late rank, in words that follow "is late"."""
    if straggler.cause == "host" and straggler.host_code in _HOST:
        return _HOST[straggler.host_code]
    return LATENESS[straggler.cause]


def is_late(straggler: Straggler, suspected: str = "suspected, ") -> str:
    """The predicate of a late rank: that it is late and why, or that it may be, and in how many steps it was seen."""
    if not straggler.suspected:
        return f"is late {lateness(straggler)}"
    return f"may be late {lateness(straggler)} ({suspected}from {counted(straggler.of_steps, 'step')})"


def straggler_line(straggler: Straggler, diagnosis: Diagnosis, of: Basis) -> str:
    """A sentence on a late rank: its cause, each other rank's wait for it, the cost, and the evidence."""
    others = [rank for rank in diagnosis.ranks if rank.rank != straggler.rank]
    each = waited_share(straggler, diagnosis) * _step_ns(others)
    share = spoken(waited_share(straggler, diagnosis), "share")
    late = f"{rank_and_host(straggler)} {is_late(straggler)}"
    waits = f"each other rank waits {duration(each)} per step for it ({share} of the {of.name.removeprefix('device ')})"
    costs = (waits_anyway(straggler, diagnosis), cost(straggler))
    why = (plain(straggler.because), plain(straggler.first_diverging))
    return "; ".join([late, waits, *filter(None, (*costs, *why))])


def _step_ns(ranks: Sequence[RankReport]) -> float:
    return sum(entry.ns for rank in ranks for entry in rank.ledger) / max(sum(rank.steps for rank in ranks), 1)


def waited_share(straggler: Straggler, diagnosis: Diagnosis) -> float:
    """Share of the other ranks' steps that they wait for this one; of the steps that were judged."""
    if straggler.share:
        return straggler.share
    others = [rank for rank in diagnosis.ranks if rank.rank != straggler.rank]
    return share(straggler.waiting_ns_caused, sum(entry.ns for rank in others for entry in rank.ledger)) or 0.0


def waits_anyway(straggler: Straggler, diagnosis: Diagnosis) -> str:
    """A clause on how much curing the late ranks saves, if that is less than the wait for one, else ""."""
    postmortem = diagnosis.postmortem
    if postmortem is None or postmortem.changes_error is None or postmortem.no_changes_because:
        return ""
    cure = next((change for change in postmortem.changes if change.change == NO_STRAGGLER), None)
    who = "it" if len(diagnosis.stragglers) == 1 else "the late ranks"
    if cure is None or cure.speedup is None:
        because = f": {plain(cure.because)}" if cure is not None else ""
        return f"how much of that wait ends without {who} is unknown{because}"
    saved = 1 - 1 / cure.speedup[1]
    if saved >= MOST_OF_IT * waited_share(straggler, diagnosis):
        return ""
    shorter = f"at best {spoken(saved, 'share')}" if saved >= HARDLY else f"less than {spoken(HARDLY, 'share')}"
    return f"part of that wait remains: without {who} the job's step is {shorter} shorter"


def rank_and_host(straggler: Straggler) -> str:
    """The rank with its host."""
    return f"rank {straggler.rank}" + (f" on {plain(straggler.host)}" if straggler.host else "")


def cost(straggler: Straggler) -> str:
    """A clause on the daily cost of the late rank to the job, "" if unknown."""
    if straggler.gpu_hours_per_day is None:
        return ""
    price = "" if straggler.cost_per_day is None else f", {money(straggler.cost_per_day)} at the stated price"
    return f"it costs the job {hours(straggler.gpu_hours_per_day)} GPU-hours per day{price}"


def hours(value: float | None) -> str:
    """GPU-hours."""
    return "unknown" if value is None else f"{value:,.1f}"


def money(value: float | None) -> str:
    """An amount in the currency of the stated price."""
    return "unknown" if value is None else f"{value:,.2f}"


def late_stage_lines(diagnosis: Diagnosis) -> list[str]:
    """A sentence for each stage of a pipeline with more work than the others."""
    stages = diagnosis.postmortem.stages if diagnosis.postmortem else ()
    return [plain(stage.heavier) for stage in stages if stage.heavier]


def excess(straggler: Straggler) -> list[tuple[str, str]]:
    """The causes on which the rank spent most beyond the others, each with its time per step."""
    least = SMALLEST_EXCESS * straggler.excess[0].ns if straggler.excess else 0
    telling = [part for part in straggler.excess if part.ns >= least]
    return [(cause_name(part.cause), duration(part.ns)) for part in telling[:EXCESS_SHOWN]]


def beyond(straggler: Straggler) -> str:
    """The late rank's time beyond the others and the explained part of its lateness, "" if nothing is known."""
    spent = ", ".join(f"{cause} {time}" for cause, time in excess(straggler))
    explained = straggler.explained_share
    parts = [
        f"{spent} beyond the other ranks per step" if spent else "",
        "" if explained is None else f"{spoken(explained, 'share')} of its lateness explained",
    ]
    listed = "; ".join(filter(None, parts))
    return f"rank {straggler.rank}: {listed}" if listed else ""


def passing_line(straggler: Straggler) -> str:
    """A sentence on a rank that delayed single steps and is not named as a straggler."""
    held = f"{rank_and_host(straggler)} held up {counted(straggler.steps_late, 'step')} {lateness(straggler)}"
    return "; ".join(filter(None, (held, plain(straggler.because))))


def suspected_line(straggler: Straggler) -> str:
    """A sentence on a rank that causes most of the waiting in too few steps, with the numbers, and how to decide."""
    lines = [
        f"{rank_and_host(straggler)} {is_late(straggler)}",
        f"last at {straggler.last_at:,} of {counted(straggler.of_collectives, 'collective')}",
        "" if straggler.waiting_share is None else f"causes {spoken(straggler.waiting_share, 'share')} of the waiting",
        plain(straggler.because),
        f"{straggler.untold} to name it: more steps would tell (--steps {straggler.steps_to_tell})",
    ]
    return "; ".join(filter(None, lines))


def slow_link_line(link: SlowGroup) -> str:
    """A sentence on a process group with a slow link that makes no rank late."""
    return f"ranks {spans(link.ranks)} lose {duration(link.ns_per_step)} per step by it: {plain(link.because)}"


def missing_line(diagnosis: Diagnosis) -> str:
    """The ranks of a joined job without a trace, "" if all are there."""
    missing = diagnosis.trace.missing_ranks
    if not missing or diagnosis.postmortem is None:
        return ""
    of_all = len(missing) + len(diagnosis.ranks)
    return f"no trace of rank {spans(missing)} of {of_all:,}; the late rank may be among them"


def change_line(change: JobChange) -> str:
    """The assumption of a change of the whole job, and its saving if that is known."""
    saved = change.gpu_hours_per_day
    saves = "" if saved is None else f"; saves at least {hours(saved)} GPU-hours per day"
    unknown = f"; not predicted, because {plain(change.because)}" if change.because else ""
    return f"{plain(change.says)}{saves}{unknown}"


def change_gain(change: JobChange) -> str:
    """How much faster the job is by a change, or that it is unknown."""
    return speedup(change.speedup) or "unknown"


def replay_line(postmortem: Postmortem) -> str:
    """The basis of the predicted changes, or why nothing is predicted; "" if there is neither."""
    if postmortem.no_changes_because:
        return f"nothing is predicted: {plain(postmortem.no_changes_because)}"
    if postmortem.changes_error is None:
        return ""
    error = spoken(postmortem.changes_error, "share")
    return f"by a replay of all ranks together; unchanged, it is at most {error} off the measured step of a rank"


def traffic_cells(traffic: Traffic) -> tuple[str, ...]:
    """The figures under `TRAFFIC_HEADS`, medians per collective; unknown ones are marked so."""
    return (
        plain(traffic.kind),
        spoken(traffic.bytes, "bytes"),
        f"{traffic.ranks:,}",
        f"{traffic.count_per_step:,.3g}",
        duration(traffic.transfer_ns),
        duration(traffic.waiting_ns),
        exposed_parts(traffic),
        rate(traffic.busbw_gbs),
        rate(traffic.expected_busbw_gbs),
    )


def exposed_parts(traffic: Traffic, of: str = "") -> str:
    """The share of exposed communication, with its transfer and waiting if they are known."""
    whole, waiting = spoken(traffic.exposed_share, "share") + of, traffic.exposed_waiting_share
    if waiting is None:
        return whole
    return f"{whole} (transfer {spoken(traffic.exposed_share - waiting, 'share')}, waiting {spoken(waiting, 'share')})"


def rate(gbs: float | None) -> str:
    """A bandwidth given in GB/s."""
    return spoken(None if gbs is None else 1e9 * gbs, "bytes_per_s")


def clocks_line(postmortem: Postmortem) -> str:
    """A sentence on the clocks' distance, how well they could be aligned, and what that means; "" if none could."""
    known = [clock for clock in postmortem.clocks if clock.offset_ns is not None and clock.residual_ns is not None]
    if not known:
        return ""
    apart = max(abs(clock.offset_ns or 0) for clock in known)
    residual = max(clock.residual_ns or 0 for clock in known)
    alike = "alike" if postmortem.clocks_agree else "otherwise"
    agree = "" if postmortem.clocks_agree is None else f", and by start times {alike}"
    text = f"{counted(len(known), 'rank')} aligned: up to {duration(apart)} apart, residual {duration(residual)}"
    return f"{text}; waiting is measured by durations, which need no clock{agree}"
