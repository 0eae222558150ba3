"""Where the user's code was, by the calls that torch.profiler recorded with `with_stack=True` in the counted steps."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Floats, Ints, Mask
from diagnose.facts import Unknown
from diagnose.metrics.lines.user_code import CALLS, Spent, UserCode
from diagnose.metrics.unknowns import NO_PYTHON
from diagnose.roofline.owners import NONE, distinct, nearest, parents
from diagnose.timeline import Timeline
from diagnose.timeline.timeline import grouped
from diagnose.trace import Trace
from diagnose.trace.python_frames import DOINGS, called, doing_of, user_frame
from diagnose.trace.stacks import Frame
from diagnose.trace.vocabulary import ANNOTATIONS, OPS, PYTHON, RUNTIME, STEP_MARK

_OTHERWISE = len(DOINGS) - 1


def recorded(timeline: Timeline) -> UserCode | Unknown | None:
    """The training thread's code, each line with the libraries' calls that it makes; None without recorded calls."""
    if timeline.trace.left_out:
        return NO_PYTHON
    calls = _Calls(timeline, np.flatnonzero(timeline.trace.rows_of(*PYTHON)))
    calls = _Calls(timeline, calls.rows[calls.inside_ns > 0])
    if not calls.is_user.any():
        return None
    training = calls.of_training_thread()
    whole = float(calls.own_ns[training].sum())
    if not whole:
        return None
    return UserCode(
        innermost=tuple(calls.innermost(training)),
        on_stack=tuple(calls.on_stack(training)),
        whole=whole,
        of="the Python time of the counted steps",
        source=CALLS,
        step_ns=whole / max(timeline.steps.count, 1),
    )


@dataclass(frozen=True)
class _Calls:
    """The recorded calls of all threads as columns, in the order of `rows`."""

    timeline: Timeline
    rows: Ints

    @cached_property
    def name(self) -> Ints:
        """Which of `names` each call has."""
        return np.unique(self.timeline.trace.name[self.rows], return_inverse=True)[1].ravel()

    @cached_property
    def names(self) -> list[str]:
        """The names of the calls, each once."""
        return [self.timeline.trace.names[each] for each in np.unique(self.timeline.trace.name[self.rows])]

    @cached_property
    def frames(self) -> list[Frame | None]:
        """What of the user's code each name is."""
        return [user_frame(name) for name in self.names]

    @cached_property
    def is_user(self) -> Mask:
        """Mask of the calls of the user's functions."""
        return np.array([frame is not None for frame in self.frames], bool)[self.name]

    @cached_property
    def parent(self) -> Ints:
        """The call that each was made by, NONE for the outermost."""
        return parents(self.timeline.trace, self.rows)

    @cached_property
    def inside_ns(self) -> Ints:
        """Time of each call inside the counted steps."""
        trace, windows = self.timeline.trace, self.timeline.steps.host
        return iv.coverage(windows, trace.ts[self.rows], trace.ends(self.rows))

    @cached_property
    def own_ns(self) -> Floats:
        """The same without the calls that it makes."""
        made = self.parent >= 0
        below = np.bincount(self.parent[made], weights=self.inside_ns[made], minlength=len(self.rows))
        return np.maximum(self.inside_ns - below, 0.0)

    @cached_property
    def folded(self) -> Ints:
        """The user's call that each is part of: itself, or the nearest one that made it; NONE."""
        return nearest(self.is_user, self.parent)

    @cached_property
    def doing(self) -> Ints:
        """What each is done for, as a place in DOINGS: by itself and all calls around it, the first of the list."""
        told = np.array([DOINGS.index(doing_of(name) or DOINGS[-1]) for name in self.names])[self.name]
        found = np.full(len(self.rows), _OTHERWISE)
        for doing in range(_OTHERWISE - 1, -1, -1):
            marked = told == doing
            ends = self.is_user if DOINGS[doing] == "optimizer" else marked  # a closure's code is the step's again
            if marked.any():
                by = nearest(marked | ends, self.parent)
                found[(by >= 0) & marked[by]] = doing
        return found

    def of_training_thread(self) -> Mask:
        """Mask of the calls of one thread: of those that mark steps, else that run operators, the one with most time in
        the user's code.
        """
        trace = self.timeline.trace
        marks = self.timeline.matching(STEP_MARK, *ANNOTATIONS)
        threads, which = np.unique(_thread(trace, self.rows), return_inverse=True)
        steps = np.flatnonzero(marks if marks.any() else trace.rows_of(*OPS, *RUNTIME))
        works = np.isin(threads, _thread(trace, steps))
        ns = np.bincount(which.ravel(), weights=np.where(self.folded >= 0, self.own_ns, 0.0))
        chosen = np.flatnonzero(works) if works.any() else np.arange(len(threads))
        return which.ravel() == chosen[ns[chosen].argmax()]

    def innermost(self, chosen: Mask) -> list[Spent]:
        """Time at the user's innermost lines among the chosen calls, by what it is for and what the line calls."""
        at = np.flatnonzero(chosen & (self.folded >= 0) & (self.own_ns > 0))
        call = nearest(~self.is_user & (self.folded == self.parent), self.parent)[at]
        is_below = (call >= 0) & (self.folded[call] == self.folded[at])
        return self._spent(self.own_ns, at, self.name[self.folded[at]], np.where(is_below, self.name[call], NONE))

    def on_stack(self, chosen: Mask) -> list[Spent]:
        """Time of each of the user's functions among the chosen calls; one that runs inside itself has it once."""
        at = np.flatnonzero(chosen & self.is_user & (self.inside_ns > 0))
        function = {frame and (frame.file, frame.function): number for number, frame in enumerate(self.frames)}
        number = np.array([function[frame and (frame.file, frame.function)] for frame in self.frames])
        begin = self.timeline.trace.ts[self.rows[at]]
        at = at[_outermost(number[self.name[at]], begin, self.timeline.trace.ends(self.rows[at]))]
        return self._spent(self.inside_ns, at, self.name[at], np.full(len(at), NONE))

    def _spent(self, ns: Ints | Floats, at: Ints, name: Ints, call: Ints) -> list[Spent]:
        """The calls `at` with the user's line that each is part of, those alike added up."""
        keys, group = distinct(name, self.doing[at], call)
        weights = np.bincount(group, weights=ns[at], minlength=keys.shape[1])
        return [
            Spent(frame, DOINGS[doing], called(self.names[by]) if by >= 0 else "", float(weight))
            for (line, doing, by), weight in zip(keys.T.tolist(), weights, strict=True)
            if (frame := self.frames[line]) is not None
        ]


def _thread(trace: Trace, rows: Ints) -> Ints:
    return trace.pid[rows] * (1 << 32) + trace.tid[rows]


def _outermost(group: Ints, begin: Ints, end: Ints) -> Mask:
    """Mask of the intervals that none of the same group is around."""
    outer = np.zeros(len(group), bool)
    for own in grouped(group):
        own = own[np.lexsort((-end[own], begin[own]))]
        reached = np.maximum.accumulate(end[own])[:-1]
        outer[own] = np.append(True, begin[own][1:] >= reached)
    return outer
