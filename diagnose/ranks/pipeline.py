"""The stages of a pipeline beside each other: which has more work than the others, and the job with equal stages."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median_low

import msgspec
import numpy as np

from diagnose.arrays import Floats
from diagnose.facts import duration, spoken
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.joint import Joint
from diagnose.ranks.replay.pace import scaled
from diagnose.ranks.replay.rounds import Case
from diagnose.ranks.stages import Pipeline, Stage
from diagnose.ranks.stragglers.causes import accounts_for_it, ratios
from diagnose.ranks.stragglers.few_steps import own_steps

_LAYERS = "model.config.num_hidden_layers"
HEAVIER = 1.1  # times the usual stage's work: less is no stage to rearrange


class StageWork(msgspec.Struct, frozen=True):
    """What each stage of a pipeline works in a step, without communication; times in nanoseconds."""

    pipeline: Pipeline
    ns: tuple[float, ...]

    @property
    def usual(self) -> float:
        """The work of the usual stage."""
        return median_low(self.ns)

    @property
    def heavier(self) -> tuple[Stage, ...]:
        """The stages with clearly more work than the usual one, the heaviest first."""
        pairs = sorted(zip(self.ns, self.pipeline.stages, strict=True), reverse=True)
        return tuple(stage for ns, stage in pairs if ns > HEAVIER * self.usual)

    @property
    def longest_other(self) -> float:
        """The work of the longest of the other stages."""
        return max(ns for ns in self.ns if ns <= HEAVIER * self.usual)

    def of(self, stage: Stage) -> float:
        """The work of a stage."""
        return self.ns[self.pipeline.stages.index(stage)]


def stage_work_of(ranks: Sequence[RankDigest], pipeline: Pipeline, late: Collection[int]) -> StageWork:
    """The work of each stage, as the usual replica of the model does it.

    The stages of one replica get the same data, so that they are compared within it. A rank that is late by itself says
    nothing of its stage.
    """
    own = np.array([float(own_steps(rank).mean()) if rank.steps else 0.0 for rank in ranks])
    own[sorted(late)] = np.nan
    alone = [_median_low(own[list(stage)]) for stage in pipeline.stages]
    usual = _median_low(np.array(alone))
    parts = [own[list(replica)] / _median_low(own[list(replica)]) for replica in pipeline.replicas]
    beside = [_median_low(column) * usual for column in np.stack(parts).T] if parts else alone
    known = [first if np.isfinite(first) else second for first, second in zip(beside, alone, strict=True)]
    return StageWork(pipeline, tuple(ns if np.isfinite(ns) else usual for ns in known))


def _median_low(values: Floats) -> float:
    """The lower median of what is known; NaN if nothing is."""
    return median_low(values[np.isfinite(values)].tolist() or [np.nan])


def stage_words(ranks: Sequence[RankDigest], work: StageWork, heavier: Stage) -> str:
    """How much more work a stage has than the others, and what equal stages would move to them."""
    pipeline, own = work.pipeline, work.of(heavier)
    mean, others = (
        fmean(work.ns),
        fmean(ns for stage, ns in zip(pipeline.stages, work.ns, strict=True) if stage != heavier),
    )
    parts = pipeline.micro_batches or 1
    per = "micro-batch" if pipeline.micro_batches else "step"
    layers = dict(ranks[heavier[0]].settings).get(_LAYERS)
    count = layers * (own - mean) / sum(work.ns) if isinstance(layers, int) else 0.0
    moved = f"about {count:.0f} of {layers}" if count >= 1 else f"{spoken(1 - mean / own, 'share')} of its work"
    return (
        f"{pipeline.named(heavier, ranks)} is heavier: {duration((own - others) / parts)} more work per {per} than the"
        f" other stages ({own / max(others, 1.0):.2f} times); layers to move: {moved}"
    )


def has_more(ranks: Sequence[RankDigest], work: StageWork, heavier: Stage) -> bool:
    """Whether more or larger kernels account for what a stage works beyond the others: that can be moved to them."""
    others = [ranks[p] for stage in work.pipeline.stages if stage not in work.heavier for p in stage]
    return any(accounts_for_it(ratios(ranks[p], others)) for p in heavier)


def as_the_others(joint: Joint, work: StageWork, case: Case) -> Joint:
    """The job whose heavier stages work as long as the longest (worst) or the usual (best) of the others."""
    aim = work.longest_other if case == "worst" else work.usual
    return _with_stages(joint, {stage: aim / work.of(stage) for stage in work.heavier})


def with_equal_stages(joint: Joint, work: StageWork) -> Joint:
    """The job whose stages share their work evenly."""
    mean = fmean(work.ns)
    return _with_stages(joint, {stage: mean / work.of(stage) for stage in work.pipeline.stages if work.of(stage)})


def _with_stages(joint: Joint, factors: Mapping[Stage, float]) -> Joint:
    return joint.with_work({p: scaled(joint.work[p], factor) for stage, factor in factors.items() for p in stage})
