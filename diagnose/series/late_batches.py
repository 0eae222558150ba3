"""Steps whose batch comes late at no regular distance, as from storage or a network that stalls now and then."""

from typing import NamedTuple

import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.probes.protocol import DATA_WAIT_RANGE, FIRST_BATCH_RANGE
from diagnose.trace.light_steps import EveryStep

FEWEST = 3  # late steps: fewer may be an accident
MOST_LATE = 0.25  # of the steps: where more wait, loading is short of workers at every step
LEAST_NS = 10_000_000  # as long may a busy scheduler keep a thread from its core
WARM_UP = 5  # steps, in which loader workers start


class LateBatches(NamedTuple):
    """The late steps of a run, with the time of all steps without the profiler.

    `number` and `ns` are of the timed steps, `slow` the rows of the late ones, `extra_ns` what each of these waits
    beyond the others, and `held` the numbers of all late steps, profiled ones among them.
    """

    number: Ints
    ns: Floats
    slow: Ints
    extra_ns: Floats
    held: frozenset[int]


def late_batches(every: EveryStep | None, workers: float = 0) -> LateBatches | None:
    """The late steps; None if there are few, or so many that loading is too slow for each step.

    A step is late if its wait exceeds the usual one by more than a whole usual step, and by more than a scheduler may
    take. The first batch of a pass is no late one: it comes with the start of workers. Workers that are too slow for
    each step end their batches at about the same time, so that one step in as many as there are workers waits: that is
    no late batch either, nor is one of many that are waited for if the others make up most of the waiting.
    """
    waits = every.ranges_ns.get(DATA_WAIT_RANGE) if every is not None else None
    if every is None or waits is None or every.profiled.all():
        return None
    timed = ~every.profiled
    extra = np.minimum(waits - np.median(waits[timed]), every.ns - np.median(every.ns[timed]))
    begins = every.ranges_ns.get(FIRST_BATCH_RANGE, np.zeros(len(waits))) > 0
    late = (extra > max(float(np.median(every.ns[timed])), LEAST_NS)) & ~begins
    late[:WARM_UP] = False
    slow = np.flatnonzero(late[timed])
    if not FEWEST <= len(slow) <= timed.sum() * min(MOST_LATE, 1 / (workers + 1)):
        return None
    if extra[late & timed].sum() < waits[~late & timed].sum():
        return None
    held = frozenset(every.number[late].tolist())
    return LateBatches(every.number[timed], every.ns[timed], slow, extra[timed][slow], held)
