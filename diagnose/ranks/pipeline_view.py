"""A pipeline in numbers: its bubble, its heavier stages, and the gain of equal work."""

from collections.abc import Sequence
from statistics import fmean

import msgspec

from diagnose.diagnosis.postmortem import PipelineStage
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.pipeline import StageWork, stage_words
from diagnose.ranks.replay.changes import EQUAL_STAGES, EVEN_BATCHES, Changes
from diagnose.ranks.stages import Stage

WORTH_TELLING = 0.03  # of the step, which a heavier stage costs


class PipelineView(msgspec.Struct, frozen=True):
    """A pipeline in numbers.

    Attributes:
        stages: its stages in order; a heavier one says so only if that costs something.
        micro_batches: in how many a step comes; None if unknown.
        equal_stages_share: the least and the most of the step that is saved if the heavier stages work as the others
            do; the least if their surplus moves to the others, where they run more or larger kernels.
        even_batches_share: the part of the step that is saved if all micro-batches take equally long; None if the job
            could not be replayed.
        bubble_share: the part of the step for which a stage of usual work idles by the schedule; None if unknown.
    """

    stages: tuple[PipelineStage, ...]
    micro_batches: int | None
    equal_stages_share: tuple[float, float]
    even_batches_share: float | None
    bubble_share: float | None

    @property
    def heavier(self) -> str:
        """The heavier stages in words, "" if there are none."""
        return "; ".join(stage.heavier for stage in self.stages if stage.heavier)


def pipeline_view(ranks: Sequence[RankDigest], work: StageWork, changes: Changes) -> PipelineView:
    """The numbers of a pipeline, from the work of its stages and the joint replay."""
    parts = work.pipeline.micro_batches
    step_ns = fmean(rank.total_ns / max(rank.steps, 1) for rank in ranks)
    even = changes.saved(EVEN_BATCHES)
    equal = _equal_stages_share(work, changes, step_ns) if work.heavier else (0.0, 0.0)
    heavier = work.heavier if equal[1] >= WORTH_TELLING else ()
    return PipelineView(
        stages=tuple(_stage(ranks, work, stage, stage in heavier) for stage in work.pipeline.stages),
        micro_batches=parts,
        equal_stages_share=equal,
        even_batches_share=None if even is None else even[1],
        bubble_share=(len(work.ns) - 1) * fmean(work.ns) / parts / max(step_ns, 1.0) if parts else None,
    )


def _stage(ranks: Sequence[RankDigest], work: StageWork, stage: Stage, is_heavier: bool) -> PipelineStage:
    parts = work.pipeline.micro_batches
    return PipelineStage(
        stage=work.pipeline.stages.index(stage),
        ranks=tuple(ranks[p].rank for p in stage),
        work_ns=round(work.of(stage) / (parts or 1)),
        per="micro-batch" if parts else "step",
        heavier=stage_words(ranks, work, stage) if is_heavier else "",
    )


def _equal_stages_share(work: StageWork, changes: Changes, step_ns: float) -> tuple[float, float]:
    """The least and the most, by the joint replay; without it, by how much less the heaviest stage would work."""
    if (replayed := changes.saved(EQUAL_STAGES)) is not None:
        return replayed
    least = fmean(work.ns) if work.heavier[0] in work.more else work.longest_other
    low, high = ((max(work.ns) - ns) / max(step_ns, 1.0) for ns in (least, work.usual))
    return low, high
