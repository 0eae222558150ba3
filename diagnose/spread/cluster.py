"""Tasks done by the workers of a Dask cluster, which see the files under the same paths."""

from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from diagnose.errors import UserError
from diagnose.spread.task import Result, Task, done

PATIENCE = "30s"
RETRIES = 3  # of a task whose worker died


def by_cluster(tasks: Sequence[Task], scheduler: str) -> Iterator[Result]:
    """The results in the order of the tasks. A task that keeps killing its workers is done here.

    Args:
        tasks: one for each file.
        scheduler: address of a Dask scheduler (`tcp://host:8786`), or the file that it wrote for its workers.

    Raises:
        UserError: Dask is not installed, or nobody answers at the address or any more.
    """
    client = _connected(scheduler)
    try:
        futures = client.map(done, tasks, retries=RETRIES, pure=False)
        for task, future in zip(tasks, futures, strict=True):
            yield _result(task, future)
            future.release()
    finally:
        client.close()


def _connected(scheduler: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise UserError("--scheduler needs Dask", do='pip install "diagnose-training[cluster]"') from error
    where = {"scheduler_file": scheduler} if Path(scheduler).is_file() else {"address": scheduler}
    try:
        return Client(**where, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = f"{error}" or "nobody answers"
        do = "check the address (tcp://host:port), or pass the file that `dask scheduler --scheduler-file` wrote"
        raise UserError("no Dask scheduler", where=scheduler, why=why, do=do) from error


def _result(task: Task, future: Any) -> Result:
    from distributed import KilledWorker

    try:
        result: Result = future.result()
    except (KilledWorker, ModuleNotFoundError):
        return done(task)
    except (CancelledError, OSError, TimeoutError):
        return UserError("the Dask scheduler is gone", where=task.path, do="start it and its workers again")
    return result
