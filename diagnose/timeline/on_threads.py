"""The events on given threads."""

from collections.abc import Set as AbstractSet

import numpy as np

from diagnose.arrays import Ints, Mask, numbered

_FEW = 16  # threads are compared one by one, which is quicker than to number all of them


def on_any_thread(pid: Ints, tid: Ints, threads: AbstractSet[tuple[int, int]]) -> Mask:
    """Mask of the events on any of the threads, each of which is one of the events'."""
    if len(threads) > _FEW:
        return _among(pid, tid, threads)
    mask = np.zeros(len(pid), bool)
    for process, thread in threads:
        mask |= (pid == process) & (tid == thread)
    return mask


def _among(pid: Ints, tid: Ints, threads: AbstractSet[tuple[int, int]]) -> Mask:
    pids, of_pid = numbered(pid)
    tids, of_tid = numbered(tid)
    wanted = np.array(sorted(threads), np.int64)
    numbers = np.searchsorted(pids, wanted[:, 0]) * len(tids) + np.searchsorted(tids, wanted[:, 1])
    return np.isin(of_pid * len(tids) + of_tid, numbers)
