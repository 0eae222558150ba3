"""The stages of a pipeline beside each other: which has more work than the others, and the job with equal stages."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median_low

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Floats
from diagnose.facts import duration, spoken
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.joint import Joint
from diagnose.ranks.replay.pace import scaled
from diagnose.ranks.replay.rounds import Case
from diagnose.ranks.stages import Pipeline, Stage
from diagnose.ranks.stragglers.causes import accounts_for_it, ratios, weighted
from diagnose.ranks.stragglers.few_steps import own_steps

_LAYERS = "model.config.num_hidden_layers"
HEAVIER = 1.1  # times the usual stage's work: less is no stage to rearrange
BESIDE = 1 / 3  # of the heaviest stage's surplus: less hardly matters beside it


class StageWork(msgspec.Struct, frozen=True):
    """The work of each stage of a pipeline in a step, without communication.

    Attributes:
        pipeline: the stages.
        ns: nanoseconds of each stage.
        more: the stages whose number or size of kernels accounts for what they work beyond the others.
        larger: how many times as much work the kernels of other heavier stages are as those of the other stages.
    """

    pipeline: Pipeline
    ns: tuple[float, ...]
    more: tuple[Stage, ...] = ()
    larger: Mapping[Stage, float] = msgspec.field(default_factory=dict)

    @property
    def usual(self) -> float:
        """The work of the usual stage."""
        return median_low(self.ns)

    @property
    def heavier(self) -> tuple[Stage, ...]:
        """The stages with clearly more work than the usual one, the heaviest first; little beside it is left out."""
        pairs = sorted(zip(self.ns, self.pipeline.stages, strict=True), reverse=True)
        return tuple(stage for ns, stage in pairs if self._is_heavier(ns))

    @property
    def longest_other(self) -> float:
        """The work of the longest of the other stages."""
        return max(ns for ns in self.ns if not self._is_heavier(ns))

    def _is_heavier(self, ns: float) -> bool:
        surplus = ns - self.usual
        return surplus > max((HEAVIER - 1) * self.usual, BESIDE * (max(self.ns) - self.usual))

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
    return _compared(ranks, StageWork(pipeline, tuple(ns if np.isfinite(ns) else usual for ns in known)))


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


def _compared(ranks: Sequence[RankDigest], work: StageWork) -> StageWork:
    """The work, with what the kernels of the heavier stages say of it."""
    others = [ranks[p] for stage in work.pipeline.stages if stage not in work.heavier for p in stage]
    ratio = {stage: ratios(ranks[stage[0]], others) for stage in work.heavier}
    more = tuple(stage for stage, each in ratio.items() if each and accounts_for_it(each))
    larger = {stage: max(weighted(each, "work"), 1.0) for stage, each in ratio.items() if stage not in more}
    return replace(work, more=more, larger=larger)


def with_equal_stages(joint: Joint, work: StageWork, case: Case) -> Joint:
    """The job whose heavier stages work as long as the usual one (best), or as the longest of the others (worst).

    At worst kernels that are larger, but not by so much, keep their size; where more or larger kernels are what makes
    the heaviest stage work longer, that surplus moves to the others.
    """
    stages = work.pipeline.stages
    if case == "worst" and work.heavier[0] in work.more:
        aim = dict.fromkeys(stages, fmean(work.ns))
    elif case == "worst":
        aim = {stage: max(work.longest_other, work.usual * work.larger.get(stage, 1.0)) for stage in work.heavier}
        aim = {stage: min(ns, work.of(stage)) for stage, ns in aim.items()}
    else:
        aim = dict.fromkeys(work.heavier, work.usual)
    factor = {stage: ns / work.of(stage) if work.of(stage) else 1.0 for stage, ns in aim.items()}
    return joint.with_work({p: scaled(joint.work[p], factor[stage]) for stage in factor for p in stage})
