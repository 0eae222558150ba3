"""The verdict on quantities of which a job holds more with each step, over its ranks."""

from collections.abc import Iterator, Sequence

import msgspec

from diagnose.facts import duration, spoken
from diagnose.probes.held.containers import CACHE, SUM
from diagnose.series.growth import (
    COPIES,
    COUNTED,
    DESCRIPTORS,
    DEVICE,
    FRAGMENTS,
    HOST,
    PARTS,
    PROCESSES,
    SHARED,
    THREADS,
    WORKERS,
    Container,
    Held,
    Rise,
    judged_quantities,
)
from diagnose.series.not_told import NotTold

_ON_HOST = (HOST, WORKERS, COPIES)
_LONGER = "a run with diagnose run --arm of 400 steps or more without a restart"
_FEW = f"of what the job holds there are fewer than {PARTS} readings over 150 steps behind the warm-up"


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity that grows with the steps, on the rank where it does so fastest.

    `what` is the quantity and `unit` "bytes" or "count". It grew from `before` to `after` in the steps `first_step` to
    `last_step`, by `per_step` in each with the standard error `error`; `ranks` are all ranks on which it grows.
    `steps_left` is after how many further steps what is left of it would be used up at this rate, `seconds_left` the
    same in seconds; null if the limit is not known. `held_in` is the container of the job's own code that holds it,
    null if none was seen to. `do` is the change, or the check that separates candidates.
    """

    what: str
    unit: str
    rank: int
    ranks: tuple[int, ...]
    per_step: float
    error: float
    first_step: int
    last_step: int
    before: float
    after: float
    steps_left: int | None
    seconds_left: float | None
    held_in: Container | None
    says: str
    do: str


class GrowthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The quantities that grow with the steps, and those that were `judged`; `not_told` is why none was."""

    grown: tuple[Growth, ...]
    judged: tuple[str, ...]
    not_told: NotTold | None


def growth_over_run(ranks: Sequence[Held], step_s: float | None) -> GrowthReport:
    """The quantities of which the ranks hold more with each step of `step_s` seconds."""
    judged = judged_quantities(ranks)
    none = NotTold(because=_FEW, capture_next=_LONGER) if not judged else None
    found = {what: [(one, rise) for one in ranks if (rise := one.risen(what)) is not None] for what in judged}
    for twice, of in ((FRAGMENTS, DEVICE), (WORKERS, COPIES)):
        if found.get(of):  # what is allocated is reserved, and what a worker copies was there
            found.pop(twice, None)
    grown = tuple(_growth(what, rises, step_s, len(ranks) > 1) for what, rises in found.items() if rises)
    return GrowthReport(grown=grown, judged=judged, not_told=none)


def _growth(what: str, rises: Sequence[tuple[Held, Rise]], step_s: float | None, several: bool) -> Growth:
    held, rise = max(rises, key=lambda one: one[1].per_step)
    left = _left(what, held)
    beside = [one.per_step for other, one in rises if other.host == held.host]
    together = sum(beside) if what in _ON_HOST else rise.per_step
    steps_left = None if left is None else max(int(left / together), 0)
    seconds = None if steps_left is None or not step_s else steps_left * step_s
    container = held.holder(what, rise.per_step)
    unit = "count" if what in COUNTED else "bytes"
    parts = [_rate(what, unit, rise, held.rank if several else None), *_until(steps_left, seconds)]
    return Growth(
        what=what,
        unit=unit,
        rank=held.rank,
        ranks=tuple(other.rank for other, _ in rises),
        per_step=rise.per_step,
        error=rise.error,
        first_step=rise.first_step,
        last_step=rise.last_step,
        before=rise.before,
        after=rise.after,
        steps_left=steps_left,
        seconds_left=seconds,
        held_in=container,
        says="; ".join(parts),
        do=_do(what, container),
    )


_CURES = {
    HOST: "look for what each step adds to: lists of losses or outputs, states of metrics, caches without a limit,"
    " hooks that keep activations; a C library's memory shows in no container",
    WORKERS: "look for what the dataset keeps in its workers: caches without a limit; start workers anew each epoch"
    " (persistent_workers=False) until it is found",
    COPIES: "hold the samples of the dataset in one array (numpy, torch, pyarrow) instead of Python objects: reading"
    " one writes its count of references, which copies its page in every worker",
    SHARED: "keep copies (batch.clone()) instead of batches: those of workers live in shared memory",
    DEVICE: "write a snapshot late in the run and read it with diagnose memory, which names the lines that allocate",
    FRAGMENTS: "PYTORCH_ALLOC_CONF=expandable_segments:True: reserved memory grows, and what tensors take does not",
    DESCRIPTORS: "close files and sockets, and the loaders that hold them",
    THREADS: "end threads that are started, or keep one pool of them",
    PROCESSES: "end processes that are started, or keep one pool of them",
}
_GRAPH = "keep loss.item() or loss.detach(): each loss keeps the whole graph of its step"
_SUM = "add loss.item() or loss.detach(): the sum keeps the graphs of all steps"


def _do(what: str, container: Container | None) -> str:
    """The remedy: of the container if it is known, else of the quantity."""
    if container is None:
        return _CURES[what]
    if container.kind == SUM:
        return _SUM
    if container.graph:
        return _GRAPH
    if container.kind == CACHE:
        return f"give the cache of {container.name} a limit (functools.lru_cache(maxsize=N))"
    return f"empty {container.name} once what it holds is used, or keep less of it"


def _left(what: str, held: Held) -> float | None:
    """The rest of the quantity when the readings end; None if it is not known, or depends on the data."""
    if what in (HOST, WORKERS):
        return held.last("left")
    limit = {DESCRIPTORS: "most_descriptors", DEVICE: "device_total", FRAGMENTS: "device_total"}.get(what)
    most, used = held.limits.get(limit or ""), held.last("reserved" if limit == "device_total" else "descriptors")
    return None if limit is None or most is None or used is None else most - used


def _rate(what: str, unit: str, rise: Rise, rank: int | None) -> str:
    size, each = (spoken(value, unit) for value in (rise.after - rise.before, 100 * rise.per_step))
    error = spoken(100 * rise.error, unit)
    on = "" if rank is None else f" on rank {rank}"
    steps = f"from step {rise.first_step:,} to {rise.last_step:,}"
    return f"{what}{on}: {each} (+- {error}) more per 100 steps, {size} {steps}"


def _until(steps: int | None, seconds: float | None) -> Iterator[str]:
    if steps is not None:
        after = f", {duration(seconds * 1e9)}" if seconds is not None else ""
        yield f"nothing left in {steps:,} steps{after}"


def told_container(container: Container) -> str:
    """The container in words: its name and place, how it grows, and of what."""
    more = f"{container.per_step:.2g} more with each step"
    return f"`{container.name}` in {container.where}: {more}, {container.length:,} by now, the last a {container.item}"
