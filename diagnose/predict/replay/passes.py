"""Passes over the items: by compiled code if it is installed, else in Python, with bitwise equal results.

`diagnose.predict.replay._loop` holds the loop alone; the arrays are made here.
"""

import math
import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import Literal

import numpy as np

from diagnose.arrays import Array, Floats, Ints, Mask
from diagnose.predict.replay.costs import ReplayCosts
from diagnose.predict.replay.links import Links
from diagnose.predict.replay.waits import ALL_STREAMS, ONE_STREAM
from diagnose.version import compiled

PASSES = 41
_TIMES = ("before", "own", "latency", "gap", "duration")
_LINKS = ("owner", "stream", "edge", "wait")
_VERSION = 1  # of the compiled code that this module was written for
_loop = compiled("diagnose.predict.replay._loop", _VERSION)


def passes(costs: ReplayCosts) -> Iterator[Floats]:
    """The clocks at the end of each of PASSES passes, the host's and then the streams', ns, shape (1 + streams,)."""
    return compiled_passes(costs) if loop_in_use() == "compiled" else reference_passes(costs)


def loop_in_use() -> Literal["compiled", "reference"]:
    """The implementation in use; `DIAGNOSE_REPLAY=reference` selects Python if both are there."""
    asked = os.environ.get("DIAGNOSE_REPLAY")
    return "reference" if _loop is None or asked == "reference" else "compiled"


def _takes_a_place(costs: ReplayCosts) -> Mask:
    return costs.links.launches & (costs.links.queue < sys.maxsize)


def _queues(streams: Ints, places: int) -> dict[int, deque[float]]:
    """Start times of each stream's last launches; the next launch finds a place once the first has started.

    In a queue that is not full, the first counts as started long ago.
    """
    return {stream: deque([-math.inf], places) for stream in np.unique(streams).tolist()}


def reference_passes(costs: ReplayCosts) -> Iterator[Floats]:
    """The same in Python, which is what the compiled loop has to do."""
    links, takes_a_place = costs.links, _takes_a_place(costs)
    columns = (costs.before, costs.own, takes_a_place, links.owner, links.stream, costs.latency, costs.gap,
               costs.duration, links.edge, links.wait)  # fmt: skip
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    edge_ns, host, ends, latest = costs.edge_ns, 0.0, [0.0] * links.streams, 0.0
    begun = _queues(links.stream[takes_a_place], links.queue)
    called, ended = [0.0] * len(rows), [0.0] * len(rows)
    for _ in range(PASSES):
        for i, (before, own, queued, owner, stream, latency, gap, duration, edge, wait) in enumerate(rows):
            host += before
            if stream >= 0:
                if queued:
                    held = begun[stream]
                    if held[0] > host:
                        host = held[0]
                called[i] = host
                start = ends[stream] + gap
                if owner >= 0 and called[owner] + latency > start:
                    start = called[owner] + latency
                if edge != -1:
                    free = (ended[edge] if edge >= 0 else ends[ONE_STREAM - edge]) + edge_ns
                    if free > start:
                        start = free
                if queued:
                    held.append(start)
                ends[stream] = ended[i] = end = start + duration
                if end > latest:
                    latest = end
            else:
                called[i] = host
            if wait != -1:
                until = ended[wait] if wait >= 0 else latest if wait == ALL_STREAMS else ends[ONE_STREAM - wait]
                if until > host:
                    host = until
            host += own
        yield np.array([host, *ends])


def compiled_passes(costs: ReplayCosts) -> Iterator[Floats]:
    """The same by compiled code.

    Raises:
        ValueError: an item refers to an item or a stream that is not there.
    """
    assert _loop is not None
    arrays = arrays_of(costs)
    for _ in range(PASSES):
        _loop.passed(*arrays.values(), costs.edge_ns)
        yield arrays["clocks"][:-1].copy()


def arrays_of(costs: ReplayCosts) -> dict[str, Array]:
    """The arguments of the compiled loop in order: the columns, then the arrays that it writes to, and `first`.

    `called` and `ended` are times of each item. `clocks` are the host's, the streams' and the latest of the streams'.
    `begun` are the starts of the last launches: places `first[s]` to `first[s + 1]` for the queue of stream s, of which
    the next launch takes `following[s]`. The initial value of a place is a start long ago.
    """
    links, takes_a_place = costs.links, _takes_a_place(costs)
    first = _first_places(links, takes_a_place)
    return {
        **{name: np.ascontiguousarray(getattr(costs, name), np.float64) for name in _TIMES},
        **{name: np.ascontiguousarray(getattr(links, name), np.int64) for name in _LINKS},
        "takes_a_place": takes_a_place,
        "called": np.zeros(len(links)),
        "ended": np.zeros(len(links)),
        "clocks": np.zeros(links.streams + 2),
        "begun": np.full(first[-1], -np.inf),
        "first": first,
        "following": first[:-1].copy(),
    }


def _first_places(links: Links, takes_a_place: Mask) -> Ints:
    """The first place of each stream's queue, and the end of the last: no more places than launches in all."""
    stream = np.clip(links.stream[takes_a_place], -1, links.streams)
    launches = np.bincount(stream + 1, minlength=links.streams + 2)[1 : links.streams + 1]
    return np.concatenate(([0], np.cumsum(np.minimum(launches * PASSES, links.queue))))
