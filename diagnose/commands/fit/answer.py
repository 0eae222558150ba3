"""The answer of `diagnose fit`: the forecast as plain values; seconds, bytes and shares as their names say."""

from collections.abc import Iterator
from typing import Any

import msgspec

from diagnose.commands.fit.advice import Sharded
from diagnose.commands.fit.bill import Bill, BillQuestion
from diagnose.commands.fit.bill_answer import ChosenGpus, PlannedBill, chosen_gpus, planned_bill
from diagnose.commands.fit.forecast import SHOWN, Forecast
from diagnose.commands.fit.headline import next_step
from diagnose.commands.fit.launch import is_for_trainer, launch_file, model_kwargs, training_arguments
from diagnose.commands.fit.search import Search
from diagnose.commands.fit.step_time import PredictedStep
from diagnose.commands.fit.textbook import Textbook, textbook_of
from diagnose.diagnosis.answer import Answer
from diagnose.predict.memory.adapters import Adapters
from diagnose.predict.memory.fits import FitsAnswer
from diagnose.predict.memory.job import JobPlan, Sharding


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job that is planned; `global_batch` counts sequences of an optimizer step."""

    name: str
    gpus: int
    nodes: int
    seq_len: int
    micro_batch: int
    accumulation: int
    dtype: str
    optimizer: str
    attention: str
    checkpointing: str
    liger: bool
    compiled: bool
    fp8: bool
    expert_products: str
    adapters: Adapters | None
    parameters: int
    global_batch: int
    gpu: str
    sharding: Sharding


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the fullest rank's memory."""

    name: str
    bytes: int


class MakesRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A change that frees memory, and the largest micro-batch with it: 0 if none fits."""

    name: str
    freed_bytes: int
    largest_micro_batch: int


class PlannedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the fullest rank; `parts` add up to `total_bytes`.

    `range_bytes` is [least, most] of such jobs, for the reason `because`. It `fits` if it lies within the GPU's memory,
    and tightly if it lies across its edge.
    """

    fits: FitsAnswer
    total_bytes: int
    range_bytes: tuple[int, int]
    because: str
    capacity_bytes: int
    largest_micro_batch: int
    remedies: tuple[MakesRoom, ...]
    parts: tuple[MemoryPart, ...]


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted optimizer step. `seconds_range` is [best, worst]; `parts_s` add up to `seconds`.

    `calibrated_on` counts the measured runs like this one, and `range_because` is what the range rests on.
    `expected_tokens_per_s` is the average over runs, of which `stall_chance` stall. `mfu_as` is the project whose count
    `model_flops` and `peak_flops_per_s` are.
    """

    seconds: float
    seconds_range: tuple[float, float]
    calibrated_on: int
    range_because: str
    parts_s: dict[str, float]
    tokens: int
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    expected_tokens_per_s: float
    mfu_share: float
    mfu_as: str
    model_flops: float
    peak_flops_per_s: float
    stall_chance: float


class RatesOf(msgspec.Struct, frozen=True, kw_only=True):
    """The training stack whose rates predict the step, and the runs that they were fitted on."""

    name: str
    source: str
    ran_on_such_a_board: bool


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A way to run the job, and what it costs; `bill` is null if nothing was asked about the cost."""

    plan: PlannedJob
    step: PlannedStep
    bill: PlannedBill | None


class RankedConfiguration(Configuration, frozen=True, kw_only=True):
    """One of the best configurations, and its loss as a share of the best one's throughput."""

    slower_share: float


class ShardedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The same job with one ZeRO stage; 0 are copies on each rank (DDP)."""

    zero: int
    fits: FitsAnswer
    total_bytes: int
    seconds: float
    expected_tokens_per_s: float


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next in words, and the change behind it with its predicted gain; null if it is no change."""

    text: str
    change: str | None
    gain: float | None
    micro_batch: int | None


class Because(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the choice of the plan."""

    step: str
    because: str


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The file that launches the plan; arguments are null if transformers' Trainer does not launch it."""

    file: str
    text: str
    training_arguments: dict[str, Any] | None
    model_kwargs: dict[str, Any] | None


class FitAnswer(Answer, frozen=True, kw_only=True):
    """A job before it runs.

    `ranked` are the best ways to divide it, empty if its division was given, as are `reasons`. `stated` is what the
    search kept, and `varied` in what the configurations that it tried differ. `sharded` is the plan under each ZeRO
    stage. `elsewhere` is the best of a stack that divides blocks too, null if the plan's own does, or none fits.
    `tf32_gain` is what TF32 would multiply the throughput by where products run in fp32, else null. `bill` is what the
    plan costs, null if nothing was asked about that. `chosen_gpus` is the answer where several numbers of GPUs could be
    taken, or a deadline or budget was given, else null; `by_gpus` is the best configuration on each of them.
    """

    indented = 0
    schema_version: int = 2
    plan: PlannedJob
    next: NextStep
    stated: tuple[str, ...]
    varied: tuple[str, ...]
    sharded: tuple[ShardedJob, ...]
    tf32_gain: float | None
    memory: PlannedMemory
    step: PlannedStep
    stack: RatesOf
    ranked: tuple[RankedConfiguration, ...]
    elsewhere: Configuration | None
    reasons: tuple[Because, ...]
    launch: Launch
    bill: PlannedBill | None
    chosen_gpus: ChosenGpus | None
    by_gpus: tuple[Configuration, ...]
    textbook: Textbook


def answer_of(made: Forecast) -> FitAnswer:
    """The forecast as a written answer."""
    stack, other = made.stack, made.elsewhere
    return FitAnswer(
        plan=_plan(made.plan),
        next=_next(made),
        stated=made.fixed,
        varied=() if made.found is None else made.found.varied,
        sharded=tuple(_sharded(each) for each in made.sharded),
        tf32_gain=made.tf32_gain,
        memory=_memory(made),
        step=_step(made.step),
        stack=RatesOf(name=stack.name, source=stack.source, ran_on_such_a_board=stack.ran_on(made.plan.gpu.key)),
        ranked=() if made.found is None else tuple(_ranked(made.found, made.question)),
        elsewhere=None if other is None else _configuration(other.step, made.question),
        reasons=tuple(Because(step=step, because=because) for step, because in made.reasons),
        launch=_launch(made),
        bill=_bill(made.step, made.question),
        chosen_gpus=chosen_gpus(made.counted) if made.counted else None,
        by_gpus=tuple(_configuration(bill.step, bill.question) for bill in made.counted.bills) if made.counted else (),
        textbook=textbook_of(made.step, made.stack, made.remedies),
    )


def _configuration(step: PredictedStep, question: BillQuestion | None) -> Configuration:
    return Configuration(plan=_plan(step.plan), step=_step(step), bill=_bill(step, question))


def _bill(step: PredictedStep, question: BillQuestion | None) -> PlannedBill | None:
    return None if question is None else planned_bill(Bill(step, question))


def _next(made: Forecast) -> NextStep:
    change = made.change
    return NextStep(
        text=next_step(made),
        change=change.name if change else None,
        gain=change.gain if change else None,
        micro_batch=change.plan.micro_batch if change else None,
    )


def _sharded(each: Sharded) -> ShardedJob:
    return ShardedJob(
        zero=each.plan.sharding.zero,
        fits=each.fits.answer,
        total_bytes=each.fits.likely_bytes,
        seconds=each.step.step_s,
        expected_tokens_per_s=each.step.expected_tokens_per_s,
    )


def _plan(plan: JobPlan) -> PlannedJob:
    beside: dict[str, Any] = {"parameters": plan.model.parameters, "gpu": plan.gpu.key}
    return PlannedJob(
        **{name: beside[name] if name in beside else getattr(plan, name) for name in PlannedJob.__struct_fields__}
    )


def _memory(made: Forecast) -> PlannedMemory:
    estimate = made.memory
    return PlannedMemory(
        fits=made.fits.answer,
        total_bytes=estimate.total_bytes,
        range_bytes=(made.fits.low_bytes, made.fits.high_bytes),
        because=made.fits.because,
        capacity_bytes=estimate.capacity_bytes,
        largest_micro_batch=made.largest,
        remedies=tuple(
            MakesRoom(name=each.name, freed_bytes=each.freed_bytes, largest_micro_batch=each.largest_micro_batch)
            for each in made.remedies
        ),
        parts=tuple(MemoryPart(name=part.name, bytes=part.bytes) for part in estimate.parts),
    )


def _step(step: PredictedStep) -> PlannedStep:
    span = step.calibration
    return PlannedStep(
        seconds=step.step_s,
        seconds_range=(span.low_s, span.high_s),
        calibrated_on=span.rows,
        range_because=span.says,
        parts_s=dict(step.parts),
        tokens=step.tokens,
        tokens_per_s=step.tokens_per_s,
        tokens_per_s_per_gpu=step.tokens_per_s_per_gpu,
        expected_tokens_per_s=step.expected_tokens_per_s,
        mfu_share=step.mfu,
        mfu_as=step.mfu_as,
        model_flops=step.model_flops,
        peak_flops_per_s=step.peak_flops,
        stall_chance=step.stall_chance,
    )


def _ranked(found: Search, question: BillQuestion | None) -> Iterator[RankedConfiguration]:
    for place, entry in enumerate(found.ranked[:SHOWN]):
        made, bill = _step(entry.step), _bill(entry.step, question)
        yield RankedConfiguration(plan=_plan(entry.plan), step=made, bill=bill, slower_share=found.loss(place))


def _launch(made: Forecast) -> Launch:
    name, text = launch_file(made.plan, made.stack.name)
    is_ours = is_for_trainer(made.stack.name)
    return Launch(
        file=name,
        text=text,
        training_arguments=dict(training_arguments(made.plan)) if is_ours else None,
        model_kwargs=dict(model_kwargs(made.plan)) if is_ours else None,
    )
