"""The stages of a pipeline: which ranks make up one, which stage has more work, and the job with equal stages."""

from collections.abc import Iterable, Sequence
from statistics import fmean, median_low

from msgspec.structs import replace

from diagnose.facts import spoken
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.joint import Joint
from diagnose.ranks.replay.rank_work import RankWork
from diagnose.ranks.replay.rounds import Case
from diagnose.ranks.stragglers.causes import RankLateness
from diagnose.ranks.stragglers.few_steps import own_steps
from diagnose.ranks.stragglers.lateness import is_point_to_point

Stage = tuple[int, ...]  # positions of its ranks
_LAYERS = "model.config.num_hidden_layers"
HEAVIER = 1.1  # times the usual rank's work: less is no stage to rearrange
_SLOWER = "slower_kernels"


def stages_of(ranks: Sequence[RankDigest], matched: Match) -> tuple[Stage, ...]:
    """The stages of a pipeline; none without messages between single ranks.

    Messages join the stages of one replica of the model. A group of at most one rank of each replica is of one stage:
    others, such as that of a shared embedding, are not.
    """
    messages = [group.members.tolist() for group in matched if is_point_to_point(ranks, group)]
    if not messages:
        return ()
    replica = {p: number for number, of in enumerate(_joined(len(ranks), messages)) for p in of}
    others = [group.members.tolist() for group in matched if not is_point_to_point(ranks, group)]
    return _joined(len(ranks), [of for of in others if len({replica[p] for p in of}) == len(of)])


def _joined(count: int, groups: Iterable[Sequence[int]]) -> tuple[Stage, ...]:
    """The ranks that groups join, directly or by others."""
    first = list(range(count))
    for group in groups:
        joined = {first[p] for p in group}
        first = [min(joined) if at in joined else at for at in first]
    return tuple(tuple(p for p in range(count) if first[p] == at) for at in sorted(set(first)))


def heavier_stages(ranks: Sequence[RankDigest], stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages of several ranks all of which work longer than the usual rank: that is no fault of one of them."""
    own = [float(own_steps(rank).mean()) for rank in ranks]
    return tuple(stage for stage in stages if len(stage) > 1 and min(own[p] for p in stage) > HEAVIER * median_low(own))


def stage_words(ranks: Sequence[RankDigest], stages: Sequence[Stage], heavier: Stage) -> str:
    """How much longer a stage works than the others, and what equal stages would move to them."""
    work = {stage: fmean(float(own_steps(ranks[p]).mean()) for p in stage) for stage in stages}
    others, mean = fmean(work[stage] for stage in stages if stage != heavier), fmean(work.values())
    layers = dict(ranks[heavier[0]].settings).get(_LAYERS)
    count = layers * (work[heavier] - mean) / sum(work.values()) if isinstance(layers, int) else 0
    moved = f", about {count:.0f} of {layers} layers" if count >= 1 else ""
    return (
        f"the ranks of one pipeline stage ({', '.join(str(ranks[p].rank) for p in heavier)}) all work"
        f" {work[heavier] / max(others, 1.0):.2f} times as long as the other stages; equal stages would move"
        f" {spoken(1 - mean / work[heavier], 'share')} of its work{moved}"
    )


def by_stage(
    late: RankLateness, ranks: Sequence[RankDigest], stages: Sequence[Stage], heavier: Sequence[Stage]
) -> RankLateness:
    """The late rank, as one of a stage with more work if its kernels take longer on all ranks of the stage."""
    mine = next((stage for stage in heavier if late.rank in [ranks[p].rank for p in stage]), None)
    if mine is None or late.cause != _SLOWER:
        return late
    return replace(late, cause="more_work", because=stage_words(ranks, stages, mine))


def with_equal_stages(joint: Joint, stages: Sequence[Stage], case: Case) -> Joint:
    """The job whose stages share their work evenly (worst), or none of which has more than the usual one (best)."""
    work = {stage: fmean(joint.work[p].own_ns for p in stage) for stage in stages}
    mean, usual = fmean(work.values()), median_low(work.values())
    aim = {stage: mean if case == "worst" else min(own_ns, usual) for stage, own_ns in work.items()}
    factor = {stage: aim[stage] / own_ns if own_ns else 1.0 for stage, own_ns in work.items()}
    return joint.with_work({p: _scaled(joint.work[p], factor[stage]) for stage in stages for p in stage})


def _scaled(work: RankWork, factor: float) -> RankWork:
    return replace(
        work,
        at=work.at * factor,
        ready=work.ready * factor,
        block_at=work.block_at * factor,
        own_ns=work.own_ns * factor,
    )
