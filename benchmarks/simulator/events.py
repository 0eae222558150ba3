"""What happens on the ranks: events, and where they happen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]
Lane = str | int
COMPUTE, GRADIENTS, GATHERS, SCATTERS, TENSOR = 7, 23, 24, 28, 32
NEXT, PREVIOUS, MODEL, EMBEDDING, ODD = 36, 40, 44, 48, 52
HOST, AUTOGRAD, WORKER = "host", "autograd", "worker"
START_NS = 2_629_566_610_000_000_000 // 1000


@dataclass
class Row:
    """One event of the ranks in `active`. `args` is JSON in which each "%d" stands for the next of `slots`."""

    cat: str
    name: str
    lane: Lane
    begin: Column
    end: Column
    active: Mask
    args: str
    slots: tuple[Column, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A kernel: its time with the job's sequence length, and the power of that length it grows with."""

    name: str
    us: float
    memory_bound: bool = False
    power: float = 1
