"""A job on gloo that hangs by one fault; each rank leaves the dump of its flight recorder, and ends.

`python hanging_job.py FAULT RANK WORLD PORT FILE`
"""

from __future__ import annotations

import os
import sys
import threading
import time

import torch
import torch.distributed as dist

ROUNDS = 3
ENDS_AFTER_S = 4.0
LATE = 2  # the rank with the fault


def train(fault: str, rank: int) -> None:
    """A few steps, of which the last meets the fault on one rank."""
    gradients, more, loss = torch.ones(64, 32), torch.ones(64, 48), torch.ones(1)
    for step in range(ROUNDS + 1):
        last = step == ROUNDS and rank == LATE
        if last and fault == "missing-rank":
            return
        if last and fault == "desynchronised":
            return save()
        if step == ROUNDS and fault == "other-order":
            return in_another_order(rank)
        reduce_gradients(more if last and fault == "other-size" else gradients)
        dist.all_reduce(loss)
    save()


def reduce_gradients(gradients: torch.Tensor) -> None:
    """What all ranks have to call together."""
    dist.all_reduce(gradients)


def save() -> None:
    """What follows the loop."""
    dist.barrier()


def in_another_order(rank: int) -> None:
    """Two calls that are waited for later, the other way round on one rank."""
    weights, norms = torch.ones(16), torch.ones(8)
    if rank == LATE:
        pending = [dist.all_reduce(norms, async_op=True), dist.broadcast(weights, 0, async_op=True)]
    else:
        pending = [dist.broadcast(weights, 0, async_op=True), dist.all_reduce(norms, async_op=True)]
    for work in pending:
        work.wait()


def _dump(file: str) -> None:
    time.sleep(ENDS_AFTER_S)
    with open(file, "wb") as to:
        to.write(torch._C._distributed_c10d._dump_fr_trace())
    time.sleep(2.0)  # another rank fails when this one ends
    os._exit(0)


def main() -> None:
    """Runs one rank."""
    fault, rank, world, port, file = sys.argv[1:]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=rank, WORLD_SIZE=world)
    dist.init_process_group("gloo")
    dumping = threading.Thread(target=_dump, args=(file,))
    dumping.start()
    train(fault, int(rank))
    dumping.join()


if __name__ == "__main__":
    main()
