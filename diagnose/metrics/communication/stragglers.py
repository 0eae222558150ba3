"""Late ranks: their cost, the gain of their cure, and their causes."""

from collections.abc import Mapping

from diagnose.attribution.causes import BEGINNING, LATE_BY, WAITING, waiting_for
from diagnose.facts import STEP, Unknown, Value, another_run, capture_setting, nothing_helps, spoken
from diagnose.metrics.communication.job_size import world_size
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES

NOWHERE = Unknown(
    "no function, range or operator of a late rank accounts for what makes it late",
    capture_setting(
        "with_stack=True in a run of its own", another_run("name parts of the step with diagnose.probes.range")
    ),
)

ONE_RANK = 0.8  # of the waiting: above it, a single rank counts as the cause
_TURNS: Mapping[str, str] = {
    waiting_for("data"): "data",
    waiting_for("host"): "host code",
    waiting_for("compute"): "more or slower kernels",
    waiting_for("memory"): "more or slower kernels",
    waiting_for("communication"): "communication elsewhere",
    waiting_for("unexplained"): "no known reason",
    waiting_for(BEGINNING): "beginning the step later",
}


@metric("share", STEP, needs_gpu=False)
def straggler_share(m: Measured) -> Value:
    """Exposed time that the others wait for the late ranks, of their steps; 0 when no rank stands out."""
    if m.device_unseen:
        return m.device_unseen
    if _single_process(m):
        return 0.0
    return _unless_too_few_steps(m, m.job.straggler_share)


@metric("share", STEP, needs_gpu=False)
def straggler_cure_share(m: Measured) -> Value:
    """Share of the step saved if the late ranks ran at the median speed of the others, by replaying all ranks together.
    This is less than the others wait for them if further ranks are nearly as late, and in a pipeline, whose stages wait
    anyway. If the replay does not show it, it is at most the others' wait for them, or one late rank's own lag if that
    is more, since waiting hides behind other work.
    """
    if m.device_unseen:
        return m.device_unseen
    if _single_process(m):
        return 0.0
    return _unless_too_few_steps(m, m.job.straggler_cure_share[1])


@metric("text", needs_gpu=False)
def straggler_cost(m: Measured) -> Value:
    """The share of the step that the late ranks cost, in words: replayed, or at most the wait for them where the replay
    does not show it.
    """
    cost = straggler_cure_share(m)
    if isinstance(cost, Unknown):
        return cost
    return f"{'at most ' if m.job.cure_untold else ''}{spoken(cost, 'share')}"


@metric("flag", needs_gpu=False)
def straggler_suspected(m: Measured) -> Value:
    """Whether the late ranks are only suspected: one or two counted steps do not show what comes in every step."""
    return m.job.suspected_from_steps > 0


@metric("text", needs_gpu=False)
def late_ranks(m: Measured) -> Value:
    """The late ranks as the subject of a sentence, which says so if they are only suspected."""
    steps = m.job.suspected_from_steps
    noun = "step" if steps == 1 else "steps"
    return f"Ranks that may be late (suspected, from {steps} {noun})" if steps else "Late ranks"


@metric("share", STEP, needs_gpu=False)
def least_straggler_cure_share(m: Measured) -> Value:
    """Share of the step saved if the late ranks ran at the speed of the slowest of the others, by replaying all ranks
    together. If the replay does not show it, it is their own lag behind the slowest of the others, as far as
    the others are seen waiting for them; 0 in a pipeline.
    """
    return _unless_too_few_steps(m, m.job.straggler_cure_share[0])


@metric("flag", needs_gpu=False)
def late_rank_may_be_missing(m: Measured) -> Value:
    """Whether the ranks wait in collectives for a time that no analysed rank accounts for, and ranks are missing."""
    return m.job.late_rank_missing is not None


def _unless_too_few_steps(m: Measured, share: float) -> Value:
    """The share, unless the ranks were not matched, one is missing, or the steps are too few to name a late one."""
    return m.job.undivided or m.job.too_few_steps or share


def _single_process(m: Measured) -> bool:
    size = world_size(m)
    return m.job.ranks == 1 and (isinstance(size, Unknown) or int(size) == 1)


@metric("text", needs_gpu=False)
def straggler_cause(m: Measured) -> Value:
    """The cause that makes the worst rank late: data, host, slower_kernels, more_work, gc, checkpoint, link, unknown or
    none.
    """
    if _single_process(m):
        return "none"
    return m.job.undivided or m.job.straggler_cause


@metric("share", STEP, needs_gpu=False)
def straggler_own_cure_share(m: Measured) -> Value:
    """`straggler_cure_share` unless another change also brings it: 0 if every rank waits for data, since that cure is
    the late ranks' too.
    """
    if m.job.cured_by_data:
        return 0.0
    return straggler_cure_share(m)


@metric("share", STEP, needs_gpu=False)
def shared_data_wait_share(m: Measured) -> Value:
    """Share of the step saved, apart from the rank's own wait for data, if no rank waited for data, by replaying all
    ranks together: the waits for ranks whose data comes later. 0 if these are late ranks with a fault of their own.
    """
    return m.job.shared_data_wait_share


@metric("share", STEP, needs_gpu=False)
def waiting_for_data_share(m: Measured) -> Value:
    """Exposed waiting in collectives for ranks that are late for data."""
    return m.share(waiting_for("data"))


@metric("share", STEP, needs_gpu=False)
def shared_data_waiting_share(m: Measured) -> Value:
    """`waiting_for_data_share` if faster loading on all ranks cures it: most of them wait for data, or half do and no
    rank is named as late; else 0.
    """
    return waiting_for_data_share(m) if m.job.data_waits_shared else 0.0


@metric("share", STEP, needs_gpu=False)
def waiting_for_host_share(m: Measured) -> Value:
    """Exposed waiting in collectives for ranks that are late by what their hosts do, data left out."""
    return m.job.undivided or m.share(waiting_for("host"))


@metric("share", "the waiting in collectives", needs_gpu=False)
def most_waited_rank_share(m: Measured) -> Value:
    """Share of the waiting in collectives caused by the rank that causes most of it, whether always late or now and
    then.
    """
    if m.job.undivided:
        return m.job.undivided
    if m.job.most_waited_for is None:
        return Unknown("no rank waits for another", nothing_helps("the ranks come together"))
    return m.job.most_waited_for[1]


@metric("share", STEP, needs_gpu=False)
def uneven_work_share(m: Measured) -> Value:
    """Share of a step that the mean rank waits for the one with most work in it, by the FLOPs of their operators, or by
    the elements of their tensors, if time grows with these. 0 if every rank gets as much.
    """
    if _single_process(m):
        return 0.0
    if m.job.undivided:
        return m.job.undivided
    return NO_SHAPES if m.job.uneven_work_share is None else m.job.uneven_work_share


@metric("text", needs_gpu=False)
def late_in_turn(m: Measured) -> Value:
    """The rank that others wait for if no rank is always late, and what makes it late, in words."""
    share = most_waited_rank_share(m)
    if isinstance(share, Unknown) or m.job.most_waited_for is None:
        return share
    by = _TURNS[max(WAITING, key=m.share)]
    if float(share) < ONE_RANK:
        return f"they come late in turn, most of all by {by}"
    return f"rank {m.job.most_waited_for[0]} causes {spoken(share, 'share')} of the waiting, most of it by {by}"


@metric("text", needs_gpu=False)
def straggler_reason(m: Measured) -> Value:
    """The cause that makes the worst rank late, in words, with what decides the cure."""
    cause = straggler_cause(m)
    if m.job.cured_by_data:
        return "its data, for which the other ranks wait, too (cured by data-wait)"
    more = {"more": ", of which it runs more than the others", "slower": ", the same as the others', but slower"}
    if isinstance(cause, Unknown):
        return cause
    told = LATE_BY.get(m.job.straggler_cause, "none")
    return f"{told}{more.get(m.job.straggler_host_code, '')}" if cause == "host" else told


@metric("text", needs_gpu=False)
def straggler_host_code(m: Measured) -> Value:
    """Whether the worst rank, if its host makes it late, runs "more" code than the others or the same code "slower";
    "unknown" if the operators to compare are missing, "none" if its host is not the reason.
    """
    if _single_process(m):
        return "none"
    return m.job.undivided or m.job.straggler_host_code


@metric("text", needs_gpu=False)
def straggler_settings(m: Measured) -> Value:
    """The recorded settings and surroundings of the worst rank that most of the others have otherwise; "none" if there
    are none, or no rank is late.
    """
    if _single_process(m):
        return "none"
    return m.job.undivided or m.job.straggler_settings or "none"


@metric("text", needs_gpu=False)
def straggler_alone(m: Measured) -> Value:
    """Work that the worst rank does and none of the others, who wait for it: "saving", "evaluating" or "none".
    Without a late rank, the work of one that delays single steps.
    """
    if _single_process(m):
        return "none"
    return m.job.undivided or m.job.straggler_alone


@metric("text", needs_gpu=False)
def straggler_where(m: Measured) -> Value:
    """The function, range or operator in which the worst rank spends most of what makes it late."""
    return m.job.straggler_where or NOWHERE
