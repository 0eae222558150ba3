"""The traces of a large job read by several processes, here or on a cluster."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from diagnose.analysis.workers.cluster import by_cluster
from diagnose.analysis.workers.task import Result, Task, done
from diagnose.errors import UserError
from diagnose.ranks import RankDigest
from diagnose.ranks.sharing import Shared
from diagnose.trace import Loading, worthwhile
from diagnose.trace.processes import ProcessPool

__all__ = ["Task", "digests"]

AHEAD = 8  # tasks for each process: answers that wait to be taken share nothing yet


def digests(tasks: Sequence[Task], loading: Loading, scheduler: str | None = None) -> list[RankDigest]:
    """The digests of all files, in their order; several processes read them if that is faster.

    Args:
        tasks: one for each file.
        loading: `jobs` is the number of processes, `watch` is called with how many files are read.
        scheduler: address or file of a Dask scheduler whose workers do it; None for this machine.

    Raises:
        UserError: a file cannot be used, or the scheduler.
    """
    read, shared = list[RankDigest](), Shared()
    for number, (task, result) in enumerate(zip(tasks, _results(tasks, loading, scheduler), strict=True)):
        if isinstance(result, UserError):
            raise result
        read += map(shared.sharing, result)
        if loading.watch is not None:
            loading.watch(task.path, number + 1, len(tasks))
    return read


def _results(tasks: Sequence[Task], loading: Loading, scheduler: str | None) -> Iterator[Result]:
    if scheduler is not None:
        return by_cluster(tasks, scheduler)
    jobs = worthwhile([task.path for task in tasks]) if loading.jobs is None else loading.jobs
    return _by_processes(tasks, min(jobs, len(tasks))) if jobs > 1 else map(done, tasks)


def _by_processes(tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    with ProcessPool(done, jobs) as processes:
        waiting = iter(tasks)
        pending = deque((task, processes.submit(task)) for task in islice(waiting, AHEAD * jobs))
        while pending:
            task, future = pending.popleft()
            answer = future.result()
            del future  # it would keep the answer while the next one is waited for
            pending.extend((task, processes.submit(task)) for task in islice(waiting, 1))
            yield done(task) if answer is None else answer
