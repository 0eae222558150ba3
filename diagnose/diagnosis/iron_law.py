"""The iron law of a step, T = D/BW + O/(R·eta) + L: the term that each class of time belongs to.

D are the bytes moved, BW the bandwidth, O the operations, R the peak rate of the device, eta the part of it that is
reached, and L the time of waiting, launching and synchronising. This is the one table from a class to its term, where
that time is spent, and the axis on which it is cured: reports, JSON and explanations ask it.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from diagnose.diagnosis.terms import CauseClass

SHORT_NAMES: Mapping[CauseClass, str] = {
    "data": "data",
    "host": "host",
    "communication": "communication",
    "memory": "memory",
    "compute": "arithmetic",
    "unexplained": "unexplained",
}
FORMULA = "T = D/BW + O/(R·eta) + L"

Quantity = Literal["D", "BW", "O", "R", "eta", "L", "none"]
Axis = Literal["data", "algorithm", "machine", "system", "none"]


class IronTerm(msgspec.Struct, frozen=True, kw_only=True):
    """The term of a class: its formula, where its time is spent on a job with and without a GPU, axis and levers."""

    term: Literal["D/BW", "O/(R·eta)", "L", ""]
    where: str
    where_on_cpu: str
    axis: Axis
    levers: str

    def place(self, cpu_only: bool) -> str:
        """Where the time is spent."""
        return self.where_on_cpu if cpu_only else self.where


IRON_LAW: Mapping[CauseClass, IronTerm] = {
    "data": IronTerm(
        term="D/BW",
        where="storage, CPU, PCIe",
        where_on_cpu="storage, CPU",
        axis="data",
        levers="prefetching, more workers, faster storage: less idle time",
    ),
    "memory": IronTerm(
        term="D/BW",
        where="GPU memory",
        where_on_cpu="main memory",
        axis="machine",
        levers="fusion, fused attention, narrower types: fewer bytes",
    ),
    "compute": IronTerm(
        term="O/(R·eta)",
        where="",
        where_on_cpu="",
        axis="algorithm",
        levers="mixed precision raises R; accumulation and larger tiles raise eta; checkpointing raises O",
    ),
    "host": IronTerm(
        term="L",
        where="launches, Python",
        where_on_cpu="Python",
        axis="system",
        levers="compilation, CUDA graphs, a larger batch",
    ),
    "communication": IronTerm(
        term="L",
        where="network, waiting",
        where_on_cpu="network, waiting",
        axis="system",
        levers="overlap, fewer or smaller messages, less waiting for late ranks",
    ),
    "unexplained": IronTerm(term="", where="", where_on_cpu="", axis="none", levers=""),
}
