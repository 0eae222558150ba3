"""The user's code by the calls that torch.profiler recorded with `with_stack=True` in the counted steps."""

from collections.abc import Iterator
from functools import cached_property

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Floats, Ints, Mask, numbered
from diagnose.facts import Unknown
from diagnose.metrics.lines.user_code import CALLS, Spent, ThreadWork
from diagnose.metrics.unknowns import NO_PYTHON
from diagnose.probes.frameworks import HOOKED
from diagnose.roofline.nests import NONE, enclosing, nearest, nested_order
from diagnose.roofline.owners import distinct
from diagnose.timeline import Timeline, thread_turns
from diagnose.trace import Trace
from diagnose.trace.python_frames import DOINGS, ENDS_AT_USERS_CODE, called, calls_hooks, doing_of, is_pass, user_frame
from diagnose.trace.stacks import Frame
from diagnose.trace.vocabulary import ANNOTATIONS, OPS, PYTHON, RUNTIME, STEP_MARK

_OTHERWISE = len(DOINGS) - 1
DEEPEST = 40  # frames of a stack, from the innermost on, as a record has at most


def recorded(timeline: Timeline) -> ThreadWork | Unknown | None:
    """The training thread's code, each line with the libraries' calls that it makes; None without recorded calls."""
    if timeline.trace.left_out:
        return NO_PYTHON
    calls = _Calls.of(timeline)
    if not calls.is_user.any():
        return None
    training = calls.of_training_thread()
    whole = float(calls.own_ns[training].sum())
    if not whole:
        return None
    return ThreadWork(
        stacks=tuple(calls.spent(training)),
        whole=whole,
        of="the Python time of the counted steps",
        source=CALLS,
        step_ns=timeline.steps.each(whole),
    )


class _Calls(msgspec.Struct, frozen=True, dict=True):
    """The recorded calls of all threads as columns, in nested order.

    `rows` are those of the trace, `inside_ns` is their time inside the counted steps.
    """

    timeline: Timeline
    rows: Ints
    inside_ns: Ints

    @classmethod
    def of(cls, timeline: Timeline) -> "_Calls":
        """The calls that are at least partly in the counted steps."""
        trace, windows = timeline.trace, timeline.steps.host
        rows = np.flatnonzero(trace.rows_of(*PYTHON))
        inside = np.empty(len(rows), np.int64)
        for b in iv.blocks(len(rows)):
            inside[b] = iv.coverage(windows, trace.ts[rows[b]], trace.ends(rows[b]))
        there = np.flatnonzero(inside)
        order = there[nested_order(trace, rows[there])]
        return cls(timeline, rows[order], inside[order])

    @cached_property
    def name(self) -> Ints:
        """The index into `names` for each call."""
        return self._numbered[1]

    @cached_property
    def names(self) -> list[str]:
        """The names of the calls, each once."""
        return [self.timeline.trace.names[each] for each in self._numbered[0].tolist()]

    @cached_property
    def _numbered(self) -> tuple[Ints, Ints]:
        return numbered(self.timeline.trace.name[self.rows])

    @cached_property
    def frames(self) -> list[Frame | None]:
        """The frame of the user's code that each name stands for; None for other names."""
        return [user_frame(name) for name in self.names]

    @cached_property
    def is_user(self) -> Mask:
        """Mask of the calls of the user's functions."""
        return np.array([frame is not None for frame in self.frames], bool)[self.name]

    @cached_property
    def parent(self) -> Ints:
        """The call that each was made by, NONE for the outermost."""
        return enclosing(self.timeline.trace, self.rows)

    @cached_property
    def own_ns(self) -> Floats:
        """Time of each call inside the counted steps, without the calls that it makes."""
        below = np.bincount(self.parent + 1, weights=self.inside_ns, minlength=len(self.rows) + 1)[1:]
        return np.maximum(self.inside_ns - below, 0.0)

    @cached_property
    def folded(self) -> Ints:
        """The user's call that each is part of: itself, or the nearest one that made it; NONE."""
        return nearest(self.is_user, self.parent)

    @cached_property
    def doing(self) -> Array:
        """The purpose of each call as an index into DOINGS: the first in the list among itself and all calls around
        it.
        """
        told = np.array([DOINGS.index(doing_of(name) or DOINGS[-1]) for name in self.names], np.int8)[self.name]
        found = np.full(len(self.rows), _OTHERWISE, np.int8)
        for doing in range(_OTHERWISE - 1, -1, -1):
            marked = told == doing
            ends = self._ends.get(DOINGS[doing], marked)
            if marked.any():
                by = nearest(marked | ends, self.parent)
                found[(by >= 0) & marked[by]] = doing
        return found

    @cached_property
    def _ends(self) -> dict[str, Mask]:
        """Mask of the calls at which what is done around them ends, by what is done; nothing else ends at a call."""
        return dict.fromkeys(ENDS_AT_USERS_CODE, self.is_user) | dict.fromkeys(HOOKED, self._is_hook)

    @cached_property
    def _is_hook(self) -> Mask:
        may_be = np.array([frame is not None and not is_pass(frame) for frame in self.frames], bool)[self.name]
        calls = np.array([calls_hooks(name) for name in self.names], bool)[self.name]
        return may_be & (self.parent >= 0) & calls[self.parent]

    def of_training_thread(self) -> Mask:
        """Mask of the calls of one thread: of those that mark steps, else that run operators, the one with most time in
        the user's code.
        """
        trace = self.timeline.trace
        marks = self.timeline.rows_matching(STEP_MARK, *ANNOTATIONS)
        turns = thread_turns(trace.pid[self.rows], trace.tid[self.rows])  # one of each thread
        threads = _threads(trace, self.rows[turns])
        which = np.repeat(np.arange(len(threads)), np.diff(turns, append=len(self.rows)))
        steps = marks if len(marks) else np.flatnonzero(trace.rows_of(*OPS, *RUNTIME))
        steps = steps[thread_turns(trace.pid[steps], trace.tid[steps])]
        works = np.isin(threads, _threads(trace, steps))
        ns = np.bincount(which, weights=np.where(self.folded >= 0, self.own_ns, 0.0))
        chosen = np.flatnonzero(works) if works.any() else np.arange(len(threads))
        return which == chosen[ns[chosen].argmax()]

    def spent(self, chosen: Mask) -> Iterator[Spent]:
        """Time of the chosen calls by the user's stack that each is part of, what it is for, and what that calls."""
        at = np.flatnonzero(chosen & (self.folded >= 0) & (self.own_ns > 0))
        call = nearest(~self.is_user & (self.folded == self.parent), self.parent)[at]
        is_below = (call >= 0) & (self.folded[call] == self.folded[at])
        number, stacks = self._stacks(chosen)
        keys, group = distinct(number[self.folded[at]], self.doing[at], np.where(is_below, self.name[call], NONE))
        weights = np.bincount(group, weights=self.own_ns[at], minlength=keys.shape[1])
        for (stack, doing, by), weight in zip(keys.T.tolist(), weights.tolist(), strict=True):
            yield Spent(stacks[stack], DOINGS[doing], called(self.names[by]) if by >= 0 else "", weight)

    def _stacks(self, chosen: Mask) -> tuple[Ints, list[tuple[Frame, ...]]]:
        """Return the stack number of each of the user's calls, and the stacks: its own frame after those around it.

        A call comes after its caller, so one pass finds the stack around each.
        """
        users = np.flatnonzero(chosen & self.is_user)
        made = self.parent[users]
        around = np.where(made >= 0, self.folded[made], NONE)
        number, known = np.full(len(self.rows) + 1, NONE), dict[tuple[int, int], int]()
        stacks: list[tuple[Frame, ...]] = []
        for call, by, name in zip(users.tolist(), around.tolist(), self.name[users].tolist(), strict=True):
            key = int(number[by]), name
            if key not in known:
                known[key] = len(stacks)
                frame = self.frames[name]
                stacks.append(((*stacks[key[0]], frame) if key[0] >= 0 else (frame,))[-DEEPEST:])
            number[call] = known[key]
        return number, stacks


def _threads(trace: Trace, rows: Ints) -> Ints:
    return trace.pid[rows].astype(np.int64) * (1 << 32) + trace.tid[rows]
