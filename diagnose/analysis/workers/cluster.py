"""Tasks done by the workers of a Dask cluster, which see the files under the same paths."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from diagnose.analysis.workers.task import Result, Task, done
from diagnose.errors import UserError, to_install

PATIENCE = "30s"
NO_WORKER_S = 300.0  # without any worker, before the analysis gives up
POLL_S = 2.0  # between two questions for workers
RETRIES = 3  # of a task whose worker died


def by_cluster(tasks: Sequence[Task], scheduler: str) -> Iterator[Result]:
    """The results in the order of the tasks. A task that keeps killing its workers is done here.

    Args:
        tasks: one for each file.
        scheduler: address of a Dask scheduler (`tcp://host:8786`), or the file that it wrote for its workers.

    Raises:
        UserError: Dask is not installed, or nobody answers at the address or any more, or there is no worker for five
            minutes.
    """
    client = _connected(scheduler)
    try:
        futures = client.map(done, tasks, retries=RETRIES, pure=False)
        with _Watch(client, futures) as watch:
            for task, future in zip(tasks, futures, strict=True):
                yield _result(task, future, watch)
                future.release()
    finally:
        client.close()


class _Watch:
    """Cancels all tasks if there has been no worker for too long: Dask itself waits for one for ever."""

    def __init__(self, client: Any, futures: Sequence[Any]) -> None:
        self.client, self.futures, self.gave_up = client, futures, False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(POLL_S)

    def _poll(self) -> None:
        answered = time.monotonic()
        with suppress(OSError, TimeoutError, CancelledError):  # the results show a scheduler that is gone
            while not self._ended.wait(POLL_S):
                if self.client.nthreads():
                    answered = time.monotonic()
                elif time.monotonic() - answered > NO_WORKER_S:
                    self.gave_up = True
                    self.client.cancel(self.futures, force=True)
                    return


def _connected(scheduler: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise UserError("--scheduler needs Dask", do=to_install("cluster")) from error
    where = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
    try:
        return Client(**where, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = f"{error}" or "nobody answers"
        do = "check the address (tcp://host:port), or pass the file that `dask scheduler --scheduler-file` wrote"
        raise UserError("no Dask scheduler", where=scheduler, why=why, do=do) from error


def _result(task: Task, future: Any, watch: _Watch) -> Result:
    from distributed import KilledWorker

    try:
        result: Result = future.result()
    except (KilledWorker, ModuleNotFoundError):
        return done(task)
    except (CancelledError, OSError, TimeoutError):
        if not watch.gave_up:
            return UserError("the Dask scheduler is gone", where=task.path, do="start it and its workers again")
        why = f"the scheduler has had none for {NO_WORKER_S:,.0f} s"
        do = "start workers (dask worker) and ask again; those that died may need more memory (--memory-limit)"
        return UserError("no Dask worker is left", where=task.path, why=why, do=do)
    return result
