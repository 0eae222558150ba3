"""Training jobs of many ranks with a known fault, as the traces that Kineto would have written of them.

    simulated = simulate(Job(ranks=8, faults=(Fault("data", ranks=(5,)),)))
    truth = simulated.write(folder)  # one trace for each rank, and truth.json

Synthetic: real names of kernels and operators, modelled times. The numbers say nothing about real hardware.
"""

from .faults import CAUSES, KINDS, Fault, Kind
from .job import Clocks, Job, Transport
from .simulation import Simulated, simulate
from .truth import Truth
from .whole import WholeJob

__all__ = [
    "CAUSES", "KINDS", "Clocks", "Fault", "Job", "Kind", "Simulated", "Transport", "Truth", "WholeJob", "simulate",
]  # fmt: skip
