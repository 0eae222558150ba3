"""Ten kinds of dumps of a job that hangs, or seems to, each with what must be said of it."""

from dataclasses import replace
from typing import Any

from recorded_calls import DEFAULT, Made, dump, job, steps, waiting

GRADIENTS = Made("all_reduce", line=10)
LOSS = Made("all_reduce", line=12, size=(1,))
BARRIER = Made("barrier", line=30)
A, B = ("1", "mesh_dp"), ("2", "mesh_tp")
DONE = steps(3, GRADIENTS, LOSS)

MISSING = job(*[[*DONE, waiting(GRADIENTS)]] * 2, DONE, [*DONE, waiting(GRADIENTS)])
OTHER_ORDER = job(
    *[[*DONE, waiting(Made("broadcast", line=20)), waiting(Made("all_gather", line=21))]] * 2,
    [*DONE, waiting(Made("all_gather", line=21)), waiting(Made("broadcast", line=20))],
)
OTHER_SIZE = job(
    *[[*DONE, waiting(GRADIENTS)]] * 2,
    [*DONE, waiting(replace(GRADIENTS, size=(2, 3)))],
)
OTHER_OPERATION = job(*[[GRADIENTS, waiting(BARRIER)]] * 2, [GRADIENTS, waiting(Made("broadcast", line=31))])
OTHER_TYPE = job(*[[*DONE, waiting(GRADIENTS)]] * 2, [*DONE, waiting(replace(GRADIENTS, kind="BFloat16"))])
OTHER_GROUP = job(
    [GRADIENTS, waiting(Made("all_gather", line=15, group=A))],
    [GRADIENTS, waiting(Made("all_gather", line=15, group=A))],
    [GRADIENTS, waiting(Made("all_gather", line=15, group=B))],
    groups={A: [0, 1, 2], B: [0, 1, 2]},
)
LEFT_THE_LOOP = job(*[[*DONE, waiting(GRADIENTS)]] * 3, [*DONE, waiting(BARRIER)])
SLOW = job(*[[*DONE, waiting(GRADIENTS, "started")]] * 3, [*DONE, waiting(GRADIENTS)])
PARTIAL = {rank: MISSING[rank] for rank in (0, 2)}
OLD = {
    rank: {
        "version": "1.0",
        "entries": [
            {
                "id": i,
                "pg_id": 0,
                "seq_id": i + 1,
                "profiling_name": "nccl:all_reduce",
                "input_sizes": [[4, 3]],
                "output_sizes": [[4, 3]],
                "state": "completed" if i < 3 else "scheduled",
                "frames": [{"name": "train", "filename": "/home/me/train.py", "line": 10}],
            }
            for i in range(3 if rank == 1 else 4)
        ],
    }
    for rank in range(3)
}


class Runs:
    """Unpickled by pickle, it makes a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.mkdir, (self.path,)


def hostile(path: str) -> dict[int, Any]:
    """The dumps of a job with a missing rank, one of which makes a folder where it is unpickled."""
    return {**MISSING, 3: {**dump(DONE, {DEFAULT: range(4)}), "more": Runs(path)}}
