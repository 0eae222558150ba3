"""The stages of a pipeline: which has more work than the others, how uneven micro-batches are, and the bubble."""

from diagnose.facts import STEP, Unknown, Value, analysis_option, spoken
from diagnose.metrics.communication.collectives import waiting_share
from diagnose.metrics.communication.stragglers import late_in_turn, shared_data_waiting_share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

REMOVED_OF_MEASURED, REMOVED_OF_REPLAYED = 0.4, 0.7
_ALL_RANKS = analysis_option("the traces of all ranks")
NO_SCHEDULE = Unknown("the messages between stages do not show in how many micro-batches a step comes", _ALL_RANKS)
NOT_REPLAYED = Unknown("the ranks could not be replayed together", _ALL_RANKS)


@metric("text", needs_gpu=False)
def heavier_stage(m: Measured) -> Value:
    """The stages of a pipeline whose ranks work longer than those of the others, by how much per micro-batch, and what
    equal stages would move; "none" if there is none.
    """
    if m.job.ranks == 1:
        return "none"
    return m.job.undivided or (m.job.pipeline.heavier if m.job.pipeline else "") or "none"


@metric("share", STEP, needs_gpu=False)
def equal_stages_share(m: Measured) -> Value:
    """Share of the step saved if the heavier stages of a pipeline worked as long as the usual one, by replaying all
    ranks together; 0 without one.
    """
    return _equal_stages_share(m)[1]


@metric("share", STEP, needs_gpu=False)
def least_equal_stages_share(m: Measured) -> Value:
    """Share of the step saved if the heavier stages of a pipeline worked as long as the longest of the others; if they
    run more or larger kernels than those, if that surplus moved to the others.
    """
    return _equal_stages_share(m)[0]


def _equal_stages_share(m: Measured) -> tuple[Value, Value]:
    if m.job.ranks == 1:
        return 0.0, 0.0
    if m.job.undivided:
        return m.job.undivided, m.job.undivided
    return m.job.pipeline.equal_stages_share if m.job.pipeline else (0.0, 0.0)


@metric("share", STEP, needs_gpu=False)
def waiting_in_turn_share(m: Measured) -> Value:
    """Exposed waiting in collectives, apart from waits for data that faster loading cures. In a pipeline, whose stages
    wait anyway, the share of the step saved if all micro-batches took each stage equally long, by replaying all ranks
    together.
    """
    if m.job.pipeline is not None:
        return m.job.undivided or (
            NOT_REPLAYED if m.job.pipeline.even_batches_share is None else m.job.pipeline.even_batches_share
        )
    waiting, shared = waiting_share(m), shared_data_waiting_share(m)
    if isinstance(waiting, Unknown) or isinstance(shared, Unknown):
        return waiting if isinstance(waiting, Unknown) else shared
    return float(waiting) - float(shared)


@metric("share", STEP, needs_gpu=False)
def least_waiting_in_turn_share(m: Measured) -> Value:
    """The part of `waiting_in_turn_share` that equal work removes at worst, an estimate: 40 % of measured waiting,
    70 % of what a replay with equal micro-batches saves.
    """
    share = waiting_in_turn_share(m)
    if isinstance(share, Unknown):
        return share
    return float(share) * (REMOVED_OF_REPLAYED if m.job.pipeline is not None else REMOVED_OF_MEASURED)


@metric("text", needs_gpu=False)
def waits_in_turn(m: Measured) -> Value:
    """The reason why the ranks wait for each other if none is always late, as a sentence."""
    share = waiting_in_turn_share(m)
    if isinstance(share, Unknown):
        return share
    if m.job.pipeline is not None:
        part = f"{spoken(float(share), 'share')} of the step"
        return f"Micro-batches take unequally long, and stages wait for the long ones: equal ones would save {part}."
    turn, waiting = late_in_turn(m), waiting_share(m)
    if isinstance(turn, Unknown) or isinstance(waiting, Unknown):
        return turn
    part = f"{spoken(float(waiting), 'share')} of the step"
    return f"Ranks wait for a later one for {part}, but none is always late: {turn}."


@metric("share", STEP, needs_gpu=False)
def bubble_share(m: Measured) -> Value:
    """Time for which a stage of usual work idles by the schedule of its pipeline: p stages for the work of p - 1
    micro-batches; 0 without a pipeline.
    """
    if m.job.pipeline is None:
        return m.job.undivided or 0.0
    return NO_SCHEDULE if m.job.pipeline.bubble_share is None else m.job.pipeline.bubble_share


@metric("text", needs_gpu=False)
def pipeline_schedule(m: Measured) -> Value:
    """The stages and micro-batches of a pipeline in words, with the idle part of a step of that many and of twice as
    many; "none" without a pipeline.
    """
    of = m.job.pipeline
    if of is None:
        return "none"
    if of.micro_batches is None:
        return NO_SCHEDULE
    count, parts = len(of.stages), of.micro_batches
    idle = [spoken((count - 1) / (times * parts + count - 1), "share") for times in (1, 2)]
    return (
        f"{count} stages with {parts} micro-batches idle for {idle[0]} of a step, with"
        f" {2 * parts} of half the size, or two interleaved parts of each stage, for {idle[1]}"
    )
