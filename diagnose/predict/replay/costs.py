"""A change applied to the items of a step."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from diagnose.arrays import Floats, Ints, Mask
from diagnose.predict.replay.change import StepChange
from diagnose.predict.replay.device import NONE
from diagnose.predict.replay.host import CAUSES, DISPATCH, ISSUING, ByCause
from diagnose.predict.replay.items import Items
from diagnose.predict.replay.links import Links
from diagnose.predict.replay.lru import lru_cached
from diagnose.timeline import Activities


@dataclass(frozen=True)
class ReplayCosts:
    """The items with a change applied; columns of equal length, times in nanoseconds.

    `before` and `own` are host time before the call and in it. `latency` is from the launch to the earliest start,
    minus infinity for an activity that needs no launch. `gap` follows the activity before on the stream, `edge_ns`
    the activity of item `links.edge`; gap and duration of an item without an activity are 0.
    """

    links: Links
    before: Floats
    own: Floats
    latency: Floats
    gap: Floats
    duration: Floats
    edge_ns: float

    @cached_property
    def host(self) -> Floats:
        """Nanoseconds of the host for each item."""
        return self.before + self.own

    @cached_property
    def busy(self) -> Floats:
        """Nanoseconds of its stream for each item."""
        return self.gap + self.duration

    @cached_property
    def busiest_ns(self) -> float:
        """The work of the host, or of the busiest stream."""
        on_stream = np.bincount(np.maximum(self.links.stream, 0), self.busy, minlength=1)
        return max(float(self.host.sum()), float(on_stream.max()))


def costs_of(gpu: Activities, items: Items, change: StepChange) -> ReplayCosts:
    """The items' costs under `change`, whose arrays are aligned."""
    factor = np.ones(len(items)) if change.kernels is None else change.kernels[items.activity]
    gone = items.on_device & (factor == 0)
    unlaunched = gone | _merged(items, change)
    before, own = _host(items, change, _needed(items, unlaunched))
    gap = items.gap_ns * change.host.get("kernel-gap", 1.0)
    return ReplayCosts(
        links=_links(gpu, items, change.overlap, _released(items, change, gone)),
        before=before,
        own=own,
        latency=np.where(unlaunched, -np.inf, items.latency_ns * change.host.get("launch-latency", 1.0)),
        gap=np.where(unlaunched, 0.0, gap),
        duration=items.duration_ns * factor * np.where(items.is_communication, change.communication, 1.0),
        edge_ns=items.edge_ns,
    )


def check_aligned(items: Items, change: StepChange) -> None:
    """Holds the change against the items.

    Raises:
        ValueError: an array of the change is not aligned with what it is about.
    """
    for name, array, rows in (
        ("kernels", change.kernels, items.activities),
        ("merge", change.merge, items.activities),
        ("no_wait", change.no_wait, items.events),
    ):
        if array is not None and len(array) != rows:
            raise ValueError(f"{name} has {len(array)} entries where {rows} are due")


def _merged(items: Items, change: StepChange) -> Mask:
    """The activities that fuse into the one before them on their stream, in the same step."""
    if change.merge is None:
        return np.zeros(len(items), bool)
    return items.follows & change.merge[items.activity] & change.merge[items.previous]


def _released(items: Items, change: StepChange, gone: Mask) -> Ints:
    """The items that no longer wait."""
    waiting, row = items.waiting
    released = gone[waiting] if change.no_wait is None else gone[waiting] | ((row >= 0) & change.no_wait[row])
    return np.asarray(waiting[released])


def _needed(items: Items, unlaunched: Mask) -> Mask:
    """The calls that launch nothing, or still launch something."""
    if not unlaunched.any():
        return np.ones(len(items), bool)
    still = np.zeros(len(items), bool)
    still[items.owner[~unlaunched & (items.owner >= 0)]] = True
    return ~items.launching | still


def _host(items: Items, change: StepChange, needed: Mask) -> tuple[Floats, Floats]:
    """Host time before each item and in it.

    `change.launches` applies to what operators dispatch, not to launches of the optimizer's step. A call that is not
    needed vanishes together with what issued it. If `change.host` gives the rest of the host's issuing time, that rest
    stays: whoever states it has counted the launches that vanish.
    """
    calls, factors, called = items.calls, change.factors(CAUSES), items.call >= 0
    speeds = change.speeds(CAUSES)
    unprofiled = factors * speeds
    stated = np.where(factors[ISSUING] < 1, factors[ISSUING], 0.0)
    before, left = (times.weighted(unprofiled)[items.call] for times in (calls.before, calls.inside))
    less = np.zeros(len(items))
    if change.launches != 1:
        spared = np.where(items.launching, factors[DISPATCH] * (1 - change.launches), 0.0)
        less, inside = (ns * spared * speeds[DISPATCH] for ns in items.dispatched_ns)
        left = left - inside
    if not needed.all():
        less = np.where(needed, less, _issued(calls.before, (factors[ISSUING] - stated) * speeds[ISSUING])[items.call])
        left = np.where(needed, left, _issued(calls.inside, stated * speeds[ISSUING])[items.call])
    own = items.own_ns * np.divide(left, items.call_ns, out=needed * speeds[DISPATCH], where=items.call_ns > 0)
    return np.where(called, before - less, 0.0), np.where(called, own, 0.0)


def _issued(times: ByCause, factors: Floats) -> Floats:
    """The time of each call's issuing, each cause with its factor."""
    return sum((times.of(cause) * factor for cause, factor in zip(ISSUING, factors, strict=True)), np.zeros(times.rows))


def _links(gpu: Activities, items: Items, overlap: bool, released: Ints) -> Links:
    """The dependencies of the items without those released: the same object for changes that leave the same ones."""
    changed = partial(_changed_links, gpu, items, overlap, released)
    return lru_cached(items.known_links, (overlap, released.tobytes()), changed)


def _changed_links(gpu: Activities, items: Items, overlap: bool, released: Ints) -> Links:
    stream, edge = _apart(gpu, items) if overlap else (items.stream, items.edge)
    wait = items.wait.copy()
    wait[released] = NONE
    launches = items.on_device & (items.owner == np.arange(len(items)))
    return Links(launches, items.owner, stream, edge, wait, items.queue, items.streams * 2)


def _apart(gpu: Activities, items: Items) -> tuple[Ints, Ints]:
    """Streams and edges with the collectives on streams of their own, for which kernels do not wait."""
    held = (items.edge != NONE) & gpu.is_communication[items.source] & ~items.is_communication
    return np.where(items.is_communication, items.streams + items.stream, items.stream), np.where(
        held, NONE, items.edge
    )
