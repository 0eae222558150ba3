"""One side of a comparison, and the part that a baseline keeps: step times, ledger, kernels, configuration."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from diagnose.attribution.causes import EXPOSED, LATE_RANK
from diagnose.diagnosis import Applied, Diagnosis, KernelRow, LedgerEntry, OperatorRow, RankReport
from diagnose.diagnosis.promise import CONFOUNDERS
from diagnose.diagnosis.terms import CauseClass, Nanoseconds
from diagnose.errors import UserError
from diagnose.facts import Scalar
from diagnose.judge.mean_step import means_of_neighbours, without_start
from diagnose.patch.expected import DEVICE_STEP, HOST_STEP
from diagnose.series import Series

SIDE_VERSION = 1
KERNELS_KEPT = 60
_LARGEST_NS = 1 << 62
_LARGEST = 1e18
SEEN = (  # facts of the configuration, for sides without a record
    "accumulation_steps",
    "attention_implementation",
    "captured_with",
    "compile_mode",
    "cpu_optimizer_form",
    "fsdp_sharding",
    "gradient_checkpointing",
    "is_compiled",
    "loader_worker_count",
    "loader_workers",
    "micro_batch_size",
    "optimizer_kind",
    "optimizer_name",
    "padding_kind",
    "pinned_memory",
    "precision",
    "searches_unused_parameters",
    "second_profiler",
    "uses_cuda_graphs",
    "uses_ddp",
    "uses_fsdp",
    "uses_liger_loss",
    "weights_precision",
    "zero_stage",
)


class SideCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of the ledger, summed over steps and ranks; `by_step_ns` is empty if the steps are not known."""

    cause: str
    class_: CauseClass = msgspec.field(name="class")
    ns: Nanoseconds
    by_step_ns: tuple[Nanoseconds, ...] = ()


class SideKernel(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one name per step of a typical rank; the one without a name sums up all that are not listed."""

    name: str
    count: float
    ns: Nanoseconds


class SideRank(msgspec.Struct, frozen=True, kw_only=True):
    """The mean step of a rank, and that less its waiting for others."""

    rank: int
    step_ns: Nanoseconds
    own_ns: Nanoseconds
    late: bool = False


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a run that a comparison needs; None is unknown.

    Attributes:
        source: what it was read from, as it may be shown.
        kind: "diagnosis", "log" for step times alone, or "forecast" for what `diagnose fit` predicts.
        step: of which the ledger is: "device step" or "host step"; "" for a log.
        each_ns: the steps of the window.
        unprofiled_ns: those without the profiler.
        predicted_ns: [low, likely, high] of the step of a forecast; else empty.
        counted: steps of the ledger, all ranks together.
        noise_share: robust standard deviation of a step, if `each_ns` is not known.
        left_out: steps at the start of a log.
        first_step, last_step: numbers of the steps that were seen, as the job counts.
        ranks: of the job.
        trains, tokens_per_step, samples_per_step, flops_per_step: of one rank.
        parameters: of the model of a forecast, which has no recorded settings.
        padding_share: of those tokens.
        useful_tokens_per_step: those that are no padding, over all batches that were seen.
        setup: recorded settings of the job, by path.
        seen: configuration that the trace shows.
        machine: facts of the machine that make steps faster or slower whatever the job changes.
    """

    schema_version: int = SIDE_VERSION
    source: str
    kind: str
    device: str = ""
    step: str = ""
    each_ns: tuple[Nanoseconds, ...] = ()
    unprofiled_ns: tuple[Nanoseconds, ...] = ()
    predicted_ns: tuple[Nanoseconds, ...] = ()
    counted: int = 0
    noise_share: float | None = None
    left_out: int = 0
    first_step: int | None = None
    last_step: int | None = None
    ranks: int | None = None
    trains: bool | None = None
    tokens_per_step: float | None = None
    samples_per_step: float | None = None
    flops_per_step: float | None = None
    parameters: float | None = None
    padding_share: float | None = None
    useful_tokens_per_step: float | None = None
    causes: tuple[SideCause, ...] = ()
    kernels: tuple[SideKernel, ...] = ()
    each_rank: tuple[SideRank, ...] = ()
    setup: dict[str, Scalar] = msgspec.field(default_factory=dict)
    seen: dict[str, Scalar] = msgspec.field(default_factory=dict)
    machine: dict[str, Scalar] = msgspec.field(default_factory=dict)
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    applied: Applied | None = None

    def checked(self) -> "Side":
        """The side itself, after a check of its times.

        Raises:
            UserError: its times are impossible.
        """
        breakdown_ns = sum(cause.ns for cause in self.causes)
        listed_ns = sum(kernel.ns for kernel in self.kernels)
        steps_ns = (sum(self.each_ns), sum(self.unprofiled_ns), *self.predicted_ns)
        if max(breakdown_ns, listed_ns, *steps_ns, self.counted) > _LARGEST_NS:
            raise UserError("cannot use the run", where=self.source, why="its times are impossible", do="make it again")
        return self


def side_of(diagnosis: Diagnosis, source: str) -> Side:
    """The side that a diagnosis describes.

    Raises:
        UserError: its times are impossible.
    """
    steps, facts = diagnosis.steps, {fact.name: fact.value for fact in diagnosis.facts}
    breakdown_ns = sum(entry.ns for entry in diagnosis.ledger)
    late = {straggler.rank for straggler in diagnosis.stragglers}
    return Side(
        source=source,
        kind="diagnosis",
        device=", ".join(dict.fromkeys(rank.device for rank in diagnosis.ranks[:64])),
        step=HOST_STEP if steps.device_time_ns is None else DEVICE_STEP,
        each_ns=steps.each_ns,
        unprofiled_ns=tuple(ns for ns in steps.unprofiled_ns if ns),
        counted=steps.count if breakdown_ns else 0,
        noise_share=_number(facts.get("step_noise_share")),
        first_step=min(steps.numbers, default=None),
        last_step=max(steps.numbers, default=None),
        ranks=_ranks(diagnosis, facts),
        trains=diagnosis.trains,
        tokens_per_step=_number(diagnosis.mfu.tokens_per_step),
        samples_per_step=_samples(facts),
        flops_per_step=_operator_flops(diagnosis),
        padding_share=_number(facts.get("padding_share")),
        useful_tokens_per_step=_number(facts.get("useful_tokens_per_step")),
        causes=_causes(diagnosis.ledger),
        kernels=_kernels(diagnosis.kernels or diagnosis.host_operators),
        each_rank=tuple(_rank(rank, rank.rank in late) for rank in diagnosis.ranks if rank.steps > 0),
        setup=diagnosis.setup,
        seen={name: value for name in SEEN if (value := facts.get(name)) is not None},
        machine={name: value for name in CONFOUNDERS if (value := facts.get(name)) is not None},
        versions=diagnosis.versions,
        applied=diagnosis.applied,
    ).checked()


def side_of_log(series: Series, source: str) -> Side:
    """The side of a log: its step times without the start, as the mean of the ranks that log the same steps.

    Raises:
        UserError: the log has no step times.
    """
    if not series.tracks:
        why = series.unknown.because if series.unknown else ""
        raise UserError("no step times in the log", where=source, why=why, do="log the time of every step")
    longest = max(series.tracks, key=len)
    alike = [track for track in series.tracks if np.array_equal(track.step, longest.step)]
    seconds = np.mean([track.seconds for track in alike], axis=0)
    usual = without_start(seconds)
    ns = means_of_neighbours(np.clip(usual * 1e9, 1, _LARGEST))
    ranks = {track.rank for track in series.tracks if track.rank is not None}
    return Side(
        source=source,
        kind="log",
        unprofiled_ns=tuple(int(value) for value in ns.round()),
        left_out=len(seconds) - len(usual),
        first_step=int(longest.step[0]),
        last_step=int(longest.step[-1]),
        ranks=len(ranks) or None,
    )


def _causes(breakdown: Sequence[LedgerEntry]) -> tuple[SideCause, ...]:
    return tuple(
        SideCause(cause=entry.cause, class_=entry.class_, ns=entry.ns, by_step_ns=entry.by_step_ns)
        for entry in breakdown
    )


def _kernels(rows: Sequence[KernelRow | OperatorRow]) -> tuple[SideKernel, ...]:
    """The longest by name, and the rest in one without a name."""
    listed = [row for row in rows if row.name][:KERNELS_KEPT]
    others = [row for row in rows if row not in listed]
    kept = [SideKernel(name=row.name, count=_number(row.count) or 0.0, ns=row.ns) for row in listed]
    rest = SideKernel(name="", count=sum(_number(r.count) or 0.0 for r in others), ns=sum(r.ns for r in others))
    return (*kept, rest) if others else tuple(kept)


def _rank(rank: RankReport, late: bool) -> SideRank:
    total = sum(entry.ns for entry in rank.ledger)
    waits = sum(entry.ns for entry in rank.ledger if entry.cause == EXPOSED or entry.cause.startswith(LATE_RANK))
    return SideRank(rank=rank.rank, step_ns=total // rank.steps, own_ns=max(total - waits, 0) // rank.steps, late=late)


def _ranks(diagnosis: Diagnosis, facts: Mapping[str, Any]) -> int:
    seen = len(diagnosis.ranks) + len(diagnosis.trace.missing_ranks)
    return max(seen, int(_number(facts.get("world_size")) or 1))


def _samples(facts: Mapping[str, Any]) -> float | None:
    batch, accumulation = (_number(facts.get(name)) for name in ("micro_batch_size", "accumulation_steps"))
    return batch * accumulation if batch and accumulation else None


def _operator_flops(diagnosis: Diagnosis) -> float | None:
    """FLOPs of the operators that ran, by their sizes; None if these were not recorded."""
    found = (c.model_flops_per_step for c in diagnosis.mfu.conventions if c.name == "operators")
    return _number(next(found, None)) or None


def _number(value: object) -> float | None:
    """A finite number from 0 on, at most 1e30; None for other values."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return min(float(value), 1e30) if fits else None  # type: ignore[arg-type]
