"""Few threads are compared one by one and many are numbered: both find the same events."""

import numpy as np

from diagnose.timeline.timeline import on_any_thread


def test_few_and_many_threads_find_the_same_events() -> None:
    pid, tid = np.repeat([7, 3], 40), np.tile(np.arange(40), 2)
    for count in (1, 16, 17, 30):
        threads = frozenset((7, thread) for thread in range(count))
        assert np.flatnonzero(on_any_thread(pid, tid, threads)).tolist() == list(range(count))
