"""The nesting of a thread's events.

Events are given in nested order: by thread, then by begin, then the longer first, so that each comes after all that
contain it. The event around each is then found in one pass, by compiled code if it is installed (`native/nests.c`).
"""

from typing import NamedTuple

import numpy as np

from diagnose.arrays import Array, Floats, Ints, Mask, combined, ordered, rows_in
from diagnose.timeline import thread_turns
from diagnose.trace import Trace
from diagnose.version import compiled

NONE = -1
_DEEPEST = 128  # rounds over what is left alone: stacks of Python are less deep, and a pass over all costs as much

_VERSION = 1  # of the compiled code that this module was written for
_nests = compiled("diagnose.roofline._nests", _VERSION)


def parents(trace: Trace, rows: Ints) -> Ints:
    """For each of `rows`, the position in `rows` of the innermost other one around it on its thread, -1 without one."""
    order = nested_order(trace, rows)
    up = enclosing(trace, rows[order])
    parent = np.full(len(rows), NONE, np.int64)
    parent[order] = np.where(up >= 0, order[up], NONE)
    return parent


def own_time(ns: Array, parent: Ints) -> Floats:
    """The time of each event without those directly inside it, never negative; `parent` as `parents` gives it."""
    called = parent != NONE
    return np.maximum(ns - np.bincount(parent[called], weights=ns[called], minlength=len(ns)), 0.0)


def without_inner(parent: Ints) -> Mask:
    """Mask of the events that none of the others is inside of."""
    found = np.ones(len(parent), bool)
    found[parent[parent != NONE]] = False
    return found


class Pieces(NamedTuple):
    """Pieces of time in which an event is the innermost on its thread; `of` is its position among those asked for."""

    start: Ints
    end: Ints
    of: Ints


def innermost(trace: Trace, rows: Ints) -> Pieces:
    """The time of each of `rows` in which no other of them runs inside it, in pieces.

    Between two boundaries of events on a thread runs the event that began at the first, or the one around the event
    that ended there.
    """
    at = np.flatnonzero(trace.dur[rows] > 0)
    at = at[nested_order(trace, rows[at])]
    nested = rows[at]
    up, count = enclosing(trace, nested), len(nested)
    times = np.concatenate([trace.ts[nested], trace.ends(nested)])
    runs = np.concatenate([np.arange(count), up])
    thread = np.tile(_thread_numbers(trace, nested), 2)
    begins = np.repeat([1, 0], count)
    inner_first = np.concatenate([np.arange(count), -np.arange(count)])
    order = np.lexsort((inner_first, begins, times, thread))
    times, runs, thread = times[order], runs[order], thread[order]
    until = np.append(times[1:], 0)
    there = (runs >= 0) & (np.append(thread[1:] == thread[:-1], False)) & (until > times)
    return Pieces(times[there], until[there], at[runs[there]])


def nested_order(trace: Trace, rows: Ints) -> Ints:
    """Positions of `rows` by thread, then by begin, then the longer first."""
    by_time = ordered(trace.ts[rows], -trace.dur[rows])
    return by_time[np.argsort(_thread_numbers(trace, rows)[by_time], kind="stable")]


def _thread_numbers(trace: Trace, rows: Ints) -> Array:
    """A number for the thread of each row, ascending by process and thread."""
    pid, tid = trace.pid[rows], trace.tid[rows]
    turns = thread_turns(pid, tid)
    return np.repeat(combined(pid[turns], tid[turns]), np.diff(turns, append=len(rows)))


def enclosing(trace: Trace, rows: Ints) -> Ints:
    """Positions of the innermost enclosing events, for rows in nested order; -1 for the outermost."""
    end, is_first = trace.ends(rows), np.zeros(len(rows), bool)
    is_first[thread_turns(trace.pid[rows], trace.tid[rows])] = True
    up = rows_in(np.arange(-1, len(rows) - 1), len(rows))
    if _nests is not None and up.dtype == np.int32:
        _nests.enclosing(end, is_first, up)
        return up
    return _by_rounds(end, is_first, up)


def _by_rounds(end: Ints, is_first: Mask, up: Array) -> Array:
    """The same without compiled code; `up` is the event before each.

    One that ended earlier hands on its own candidate, so that chains of siblings halve in every round. Behind deep
    nests they do not, and a stack finds the rest.
    """
    up[is_first] = NONE
    left = rows_in(np.flatnonzero(~is_first[1:] & (end[:-1] < end[1:])) + 1, len(up))
    for _ in range(_DEEPEST):
        if not len(left):
            return up
        further = up[up[left]]
        up[left] = further
        left = left[(further >= 0) & (end[further] < end[left])]
    return _by_stack(end, is_first)


def _by_stack(end: Ints, is_first: Mask) -> Ints:
    """The same in one pass over the events."""
    enclosing, running = [], list[int]()
    ends = end.tolist()
    for row, (until, first) in enumerate(zip(ends, is_first.tolist(), strict=True)):
        if first:
            running.clear()
        while running and ends[running[-1]] < until:
            running.pop()
        enclosing.append(running[-1] if running else NONE)
        running.append(row)
    return np.array(enclosing, np.int64)


def nearest(marked: Mask, up: Ints) -> Ints:
    """For each event in nested order, itself if marked, else the nearest marked one around it; -1 if there is none.

    `up` are the enclosing events.
    """
    if _nests is not None and up.dtype == np.int32:
        found = np.empty_like(up)
        _nests.nearest(marked, up, found)
        return found
    return _nearest_by_rounds(marked, up)


def _nearest_by_rounds(marked: Mask, up: Array) -> Array:
    """`nearest` without compiled code: each round looks twice as far, and continues only where the last one
    advanced.
    """
    found = rows_in(np.append(np.where(marked, np.arange(len(up)), up), NONE), len(up))
    left = rows_in(np.flatnonzero(~marked & (up >= 0)), len(up))
    while len(left):
        reached = found[left]
        further = found[reached]
        found[left] = further
        left = left[further != reached]
    return found[:-1]
