"""The step as one sequence of items, in an order in which each comes after everything it waits for.

An item is a host call with the GPU activity it launched, a host call alone, or an activity alone. Calls that wait or
end a step are alone; so are activities that are later kernels of a graph, that the trace does not link, or that their
stream delays.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Floats, Ints, Mask, first_of, numbered, rows_in
from diagnose.predict.replay.device import NONE, Starts, starts_of
from diagnose.predict.replay.host import DISPATCH, END_OF_STEP, HostCalls, calls_of
from diagnose.predict.replay.links import Links
from diagnose.predict.replay.waits import ONE_STREAM, queue_of, waits_of
from diagnose.timeline import Activities, Timeline
from diagnose.trace.vocabulary import RUNTIME

_STREAM_WAITS = r"(cuda|hip)StreamWaitEvent|cuStreamWaitEvent"


@dataclass(frozen=True)
class Items:
    """Columns of equal length; item numbers refer to other items, NONE if there is none.

    Attributes:
        call: row of `calls`, or NONE for an activity alone.
        activity: row of `timeline.gpu`, or NONE for a host call alone.
        owner: the item whose call launched the activity: itself, an earlier one, or NONE.
        stream: number of the stream, counted from 0.
        previous: the activity before it on its stream, a row of `timeline.gpu` or NONE.
        gap_ns: typical time from the end of `previous`.
        latency_ns: typical time from the start of the launch call.
        source: the activity of another stream that it waits for, a row of `timeline.gpu` or NONE.
        edge: the item of `source`, or ONE_STREAM - stream for everything in that stream.
        wait: the item whose activity the call waits for, or ALL_STREAMS, or ONE_STREAM - stream.
        own_ns: host time of the call apart from waiting.
        duration_ns: duration of the activity; 0 without one, like `gap_ns`.
        is_communication: mask of the activities that are collectives.
        queue: launches that a stream holds before the next one blocks.
        streams: number of streams.
        edge_ns: typical time from the end of `source`.
        activities: number of activities in the timeline.
        events: number of events in the trace.
        known_links: cache of the items' dependencies under changes, by what the changes remove.
    """

    call: Ints
    activity: Ints
    owner: Ints
    stream: Ints
    previous: Ints
    gap_ns: Floats
    latency_ns: Floats
    source: Ints
    edge: Ints
    wait: Ints
    own_ns: Floats
    duration_ns: Ints
    is_communication: Mask
    queue: int
    streams: int
    edge_ns: float
    activities: int
    events: int
    calls: HostCalls
    known_links: dict[Hashable, Links] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.call)

    @cached_property
    def on_device(self) -> Mask:
        """Mask of the items with an activity."""
        return self.activity >= 0

    @cached_property
    def waiting(self) -> tuple[Ints, Ints]:
        """The items whose call waits, and the call's row of the trace, or NONE."""
        items = np.flatnonzero(self.wait != NONE)
        call = self.call[items]
        return items, np.where(call >= 0, self.calls.row[call], NONE)

    @cached_property
    def follows(self) -> Mask:
        """Mask of the activities with another before them on their stream in the same step."""
        step = np.cumsum((self.call >= 0) & (self.calls.row[self.call] == END_OF_STEP))
        before = _inverse(self.activity, self.activities)[self.previous]
        return self.on_device & (self.previous >= 0) & (before >= 0) & (step[before] == step)

    @cached_property
    def launching(self) -> Mask:
        """Mask of the items whose call launched an activity, their own or a later item's."""
        mask = np.zeros(len(self), bool)
        mask[self.owner[self.owner >= 0]] = True
        return mask

    @cached_property
    def dispatched_ns(self) -> tuple[Floats, Floats]:
        """Host time of dispatching by operators, before the call and in it."""
        return self.calls.before.of(DISPATCH)[self.call], self.calls.inside.of(DISPATCH)[self.call]

    @cached_property
    def call_ns(self) -> Floats:
        """Host time of the call by all causes."""
        return np.asarray(self.calls.inside.total()[self.call])


def items_of(timeline: Timeline, windows: Ints, counted: Ints | None = None) -> Items:
    """The items of the steps whose host windows are given, in order, shape (n, 2), with the host time that counts."""
    gpu, trace = timeline.gpu, timeline.trace
    calls = calls_of(timeline, windows, counted)
    names, stream = numbered(gpu.stream)
    stream = rows_in(stream, len(names))
    mine = _launched_in(gpu, windows)
    launcher = _call_of(gpu, calls, mine)
    first = first_of(launcher, np.arange(len(calls)))  # the first activity that each call launched
    queue = queue_of(timeline, first, stream)
    call_name = np.where(gpu.launch >= 0, trace.name[gpu.launch], NONE)
    starts = starts_of(gpu, call_name, np.sort(trace.ts[timeline.rows_matching(_STREAM_WAITS, *RUNTIME)]))
    waits = waits_of(timeline, calls, starts, first, stream, queue.most_ns)
    in_order = (first >= 0) & (starts.due[first] == gpu.launch_start[first])
    call, activity = _sequence(calls, starts, launcher, np.where(in_order, first, NONE), mine)
    item_of, item_of_call = _inverse(activity, len(gpu)), _inverse(call, len(calls))
    item = np.arange(len(call))
    target = _looked_up(call, waits.target)
    awaited = _looked_up(target, item_of)
    return Items(
        call=call,
        activity=activity,
        owner=_looked_up(_looked_up(activity, launcher), item_of_call),
        stream=_looked_up(activity, stream),
        previous=starts.previous[activity],
        gap_ns=np.where(activity >= 0, starts.gap_ns[activity], 0.0),
        latency_ns=starts.latency_ns[activity],
        source=starts.edge[activity],
        edge=_edges(activity, starts, stream, item_of),
        wait=np.where(target < NONE, target, np.where(awaited <= item, awaited, NONE)),
        own_ns=np.where(call >= 0, waits.own_ns[call], 0.0),
        duration_ns=np.where(activity >= 0, gpu.end[activity] - gpu.start[activity], 0),
        is_communication=(activity >= 0) & gpu.is_communication[activity],
        queue=queue.launches,
        streams=len(names),
        edge_ns=starts.edge_ns,
        activities=len(gpu),
        events=len(trace),
        calls=calls,
    )


def _launched_in(gpu: Activities, windows: Ints) -> Ints:
    """The activities launched in the windows; the head, launched before the trace began, is in none."""
    return np.flatnonzero(iv.which_holds(windows, gpu.launch_start) >= 0)


def _call_of(gpu: Activities, calls: HostCalls, mine: Ints) -> Ints:
    """For each activity the call that launched it, or NONE."""
    order = np.argsort(calls.row, kind="stable")
    at = order[np.minimum(np.searchsorted(calls.row[order], gpu.launch[mine]), len(calls) - 1)]
    hit = (calls.row[at] == gpu.launch[mine]) & (gpu.launch[mine] >= 0)
    launcher = rows_in(np.full(len(gpu), NONE, np.int64), len(calls))
    launcher[mine[hit]] = at[hit]
    return launcher


def _sequence(calls: HostCalls, starts: Starts, launcher: Ints, with_call: Ints, mine: Ints) -> tuple[Ints, Ints]:
    """The calls in order, each activity alone after the call at which the last of its stream so far is launched.

    So each comes after the call that launched it and after all that its stream runs before it, and one loop over the
    items in this order finds every time that it asks for already there.
    """
    held = np.zeros(len(launcher), bool)
    held[with_call[with_call >= 0]] = True
    alone = mine[~held[mine]]
    after = np.searchsorted(calls.called, starts.due[alone], side="right") - 1
    position = np.concatenate((np.arange(len(calls)), np.maximum(after, launcher[alone])))
    call = np.concatenate((np.arange(len(calls)), np.full(len(alone), NONE)))
    order = np.argsort(position, kind="stable")
    return call[order], np.concatenate((with_call, alone))[order]


def _edges(activity: Ints, starts: Starts, stream: Ints, item_of: Ints) -> Ints:
    """The item each activity waits for. One of the step before is the last its stream holds, or has long ended."""
    source = _looked_up(activity, starts.edge)
    item = _looked_up(source, item_of)
    whole = (source >= 0) & starts.edge_is_whole[np.maximum(activity, 0)]
    before = (item >= 0) & (item < np.arange(len(activity)))
    return np.where(before, item, np.where(whole, ONE_STREAM - stream[np.maximum(source, 0)], NONE))


def _inverse(rows: Ints, size: int) -> Ints:
    """For each row the item that holds it, or NONE."""
    item_of = rows_in(np.full(size, NONE, np.int64), len(rows))
    held = np.flatnonzero(rows >= 0)
    item_of[rows[held]] = held
    return item_of


def _looked_up(rows: Ints, column: Ints) -> Ints:
    return np.where(rows >= 0, column[np.maximum(rows, 0)], NONE)
