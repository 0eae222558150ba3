"""Steps by the names of ranges: those that the user states, and those that are called what loops call their steps."""

import re
from collections import Counter

import numpy as np

from diagnose.arrays import Ints
from diagnose.errors import WrongUsage, printable
from diagnose.trace import Trace
from diagnose.trace.vocabulary import ANNOTATIONS

_LOOP = r"(?:(?:train(?:ing)?|global)[ _-]?)?(?:steps?|iters?|iterations?|batch)"
_NUMBERED = rf"{_LOOP}(?:[ _#:=\[-]*\d+(?:[,/]\d+)?[\])]?)?"
_CALLED_STEP = re.compile(rf"{_NUMBERED}|\[pl\]\[profile\]run_training_batch", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,15}")
_COVERED = 0.5  # of the time from the first to the last: an update that is called "step" covers less
_LISTED = 8


def stated_ranges(trace: Trace, pattern: re.Pattern[str]) -> Ints:
    """Rows of the ranges that the pattern finds, by start, without those inside others.

    Raises:
        UserError: there is none.
    """
    rows = _outermost(trace, np.flatnonzero(trace.named_in(pattern.search, *ANNOTATIONS)))
    if len(rows):
        return rows
    times = Counter(trace.names[name] for name in trace.name[trace.rows_of("user_annotation")].tolist())
    listed = ", ".join(printable(name)[:60] for name, _ in times.most_common(_LISTED))
    why = f"the commonest are {listed}" if listed else "the trace has no ranges of the job's own"
    do = "give the name of a range around a step, as --step-range 'iteration \\d+'"
    raise WrongUsage(f"no range is named like {printable(pattern.pattern)}", where=trace.path, why=why, do=do)


def ranges_called_steps(trace: Trace) -> Ints:
    """Rows of the ranges named like steps, in order of start; none unless they cover most of the time between them."""
    called = trace.named_in(_CALLED_STEP.fullmatch, "user_annotation")
    rows = _outermost(trace, np.flatnonzero(called))
    if len(rows) < 2:
        return rows[:0]
    span = int(trace.ends(rows).max()) - int(trace.ts[rows[0]])
    return rows if int(trace.dur[rows].sum()) >= _COVERED * span else rows[:0]


def numbers_of(trace: Trace, rows: Ints) -> Ints:
    """The first number in each name if these count upwards, else the index of each."""
    found = [_NUMBER.search(trace.names[name]) for name in trace.name[rows].tolist()]
    numbers = np.array([int(each[0]) if each else -1 for each in found], np.int64)
    counted = bool((numbers >= 0).all()) and bool((np.diff(numbers) > 0).all())
    return numbers if counted else np.arange(len(rows))


def _outermost(trace: Trace, rows: Ints) -> Ints:
    """The ranges of the thread with most of their time, in order of start, without those that begin inside another."""
    if not len(rows):
        return rows
    threads, which = np.unique(trace.tid[rows], return_inverse=True)
    rows = rows[which == np.bincount(which, weights=trace.dur[rows], minlength=len(threads)).argmax()]
    rows = rows[np.lexsort((-trace.dur[rows], trace.ts[rows]))]
    ended = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(trace.ends(rows))[:-1]))
    return rows[trace.ts[rows] >= ended]
