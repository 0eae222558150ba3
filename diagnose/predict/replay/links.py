"""The dependencies of the items, whatever their durations, and the runs that they form: the same under most changes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from diagnose.arrays import Ints, Mask, rows_in
from diagnose.predict.replay.device import NONE

_LONGEST = 64  # items of a run, so that a queue of about 1,000 launches holds many
_HELD = 8  # runs that a shorter queue holds at least


@dataclass(frozen=True)
class Links:
    """Columns of equal length, those of `Items` as far as a change leaves them.

    Attributes:
        launches: mask of the items that take a place in their stream's queue.
        owner: the item that launched the activity.
        stream: number of the stream, NONE for a host call alone.
        edge: the item whose end the activity waits for.
        wait: the item whose end the host waits for in the call.
        queue: launches that a stream holds before the next one blocks.
        streams: how many streams there are.
    """

    launches: Mask
    owner: Ints
    stream: Ints
    edge: Ints
    wait: Ints
    queue: int
    streams: int

    def __len__(self) -> int:
        return len(self.stream)

    @cached_property
    def on_device(self) -> Mask:
        """Mask of the items with an activity."""
        return self.stream >= 0

    @cached_property
    def runs(self) -> "Runs | None":
        """The items that follow each other undisturbed; None for none, or for a queue too short for runs."""
        longest = min(_LONGEST, self.queue // _HELD)
        return _runs_of(self, longest) if longest and len(self) else None


@dataclass(frozen=True)
class Runs:
    """Items that follow each other undisturbed on one stream.

    Attributes:
        first: the first item of each run, shape (runs,).
        lengths: number of items of each run, shape (runs,).
        opening: the first item of each run with an activity, its first item for one without, shape (runs,).
        used: mask of the runs with an activity, shape (runs,).
        caller: for each item the one whose call launched its activity, if that is in the same run, else NONE.
        links: links of the runs as items of their own. The queue holds runs.
    """

    first: Ints
    lengths: Ints
    opening: Ints
    used: Mask
    caller: Ints
    links: Links


def _runs_of(links: Links, longest: int) -> Runs:
    items = np.arange(len(links))
    owner = np.where(links.owner >= 0, links.owner, items)
    first = _first_items(links, owner, longest)
    lengths = np.diff(first, append=len(items))
    run = np.repeat(np.arange(len(first)), lengths)
    opening = np.minimum.reduceat(np.where(links.on_device, items, len(items)), first)
    used = opening < len(items)
    opening = np.where(used, opening, first)
    return Runs(
        first,
        lengths,
        opening,
        used,
        rows_in(np.where(run[owner] == run, owner, NONE), len(items)),
        Links(
            launches=np.logical_or.reduceat(links.launches, first),
            owner=np.where(used, _numbered(owner[opening], run), NONE),
            stream=np.where(used, links.stream[opening], NONE),
            edge=_numbered(links.edge[first], run),
            wait=_numbered(links.wait[first], run),
            queue=links.queue // longest - 1,
            streams=links.streams,
        ),
    )


def _first_items(links: Links, owner: Ints, longest: int) -> Ints:
    """The first item of each run: what waits is alone, what is waited for ends a run, what has launched begins one."""
    item, on_device = np.arange(len(links)), links.on_device
    waits, child = links.wait != NONE, on_device & (owner != item)
    begins = waits | (links.edge != NONE)
    begins[0] = True
    begins[owner[child]] = True
    begins[1:] |= waits[:-1] | _switches(links.stream, on_device)
    begins[1:] |= np.where(child[1:], owner[1:] != owner[:-1], child[:-1])
    awaited = np.concatenate((links.wait[links.wait >= 0], links.edge[links.edge >= 0])) + 1
    begins[awaited[awaited < len(item)]] = True
    first = np.flatnonzero(begins)
    place = item - np.repeat(first, np.diff(first, append=len(item)))
    return np.flatnonzero(place % longest == 0)


def _switches(stream: Ints, on_device: Mask) -> Mask:
    """Mask of the items but the first that are on another stream than the last activity before them."""
    last = np.maximum.accumulate(np.where(on_device, np.arange(len(stream)), 0))
    return on_device[1:] & (stream[1:] != stream[last[:-1]])


def _numbered(items: Ints, run: Ints) -> Ints:
    """The runs of the items; what is below zero stays as it is."""
    return np.where(items >= 0, run[np.maximum(items, 0)], items)
