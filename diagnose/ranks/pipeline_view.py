"""What rules need to know of a pipeline: its bubble, its heavier stages, and what equal work would save."""

from collections.abc import Sequence
from statistics import fmean

import msgspec

from diagnose.diagnosis.postmortem import PipelineStage
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.pipeline import StageWork, has_more, stage_words
from diagnose.ranks.replay.changes import EQUAL_STAGES, EVEN_BATCHES, MOVED_LAYERS, Changes


class PipelineView(msgspec.Struct, frozen=True):
    """A pipeline in numbers.

    Attributes:
        stages: how many it has.
        micro_batches: in how many a step comes; None if unknown.
        heavier: its heavier stages in words, "" if there are none.
        equal_stages_share: the least and the most of the step that is saved if the heavier stages work as the others
            do; the least if their surplus moves to the others, where they run more or larger kernels.
        even_batches_share: the part of the step that is saved if all micro-batches take equally long; None if the job
            could not be replayed.
        bubble_share: the part of the step for which a stage of usual work idles by the schedule; None if unknown.
    """

    stages: int
    micro_batches: int | None
    heavier: str
    equal_stages_share: tuple[float, float]
    even_batches_share: float | None
    bubble_share: float | None


def stages_of(ranks: Sequence[RankDigest], work: StageWork) -> tuple[PipelineStage, ...]:
    """The stages as the Diagnosis holds them."""
    parts = work.pipeline.micro_batches
    return tuple(
        PipelineStage(
            stage=number,
            ranks=tuple(ranks[p].rank for p in stage),
            work_ns=round(ns / (parts or 1)),
            per="micro-batch" if parts else "step",
            heavier=stage_words(ranks, work, stage) if stage in work.heavier else "",
        )
        for number, (stage, ns) in enumerate(zip(work.pipeline.stages, work.ns, strict=True))
    )


def pipeline_view(ranks: Sequence[RankDigest], work: StageWork, changes: Changes) -> PipelineView:
    """The numbers of a pipeline, from the work of its stages and the joint replay."""
    count, parts = len(work.ns), work.pipeline.micro_batches
    step_ns = fmean(rank.total_ns / max(rank.steps, 1) for rank in ranks)
    even = changes.saved(EVEN_BATCHES)
    return PipelineView(
        stages=count,
        micro_batches=parts,
        heavier="; ".join(stage_words(ranks, work, stage) for stage in work.heavier),
        equal_stages_share=_equal_stages_share(ranks, work, changes, step_ns) if work.heavier else (0.0, 0.0),
        even_batches_share=None if even is None else even[1],
        bubble_share=(count - 1) * fmean(work.ns) / parts / max(step_ns, 1.0) if parts else None,
    )


def _equal_stages_share(
    ranks: Sequence[RankDigest], work: StageWork, changes: Changes, step_ns: float
) -> tuple[float, float]:
    """By the joint replay; without it, a pipeline is as fast as its heaviest stage: that works so much less."""
    moves = has_more(ranks, work, work.heavier[0])
    replayed, moved = changes.saved(EQUAL_STAGES), changes.saved(MOVED_LAYERS)
    if replayed is None or moved is None:
        heaviest, mean = max(work.ns), fmean(work.ns)
        low, high = ((heaviest - ns) / max(step_ns, 1.0) for ns in (mean if moves else work.longest_other, work.usual))
        return low, high
    return (min(moved[0], replayed[0]) if moves else replayed[0]), replayed[1]
