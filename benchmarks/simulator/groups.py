"""Process groups, and how long a collective takes in them."""

from dataclasses import dataclass, field

import numpy as np

from .disturbance import Disturbance
from .events import Column
from .job import Job

SHOWN = 30  # ranks that torch lists before "..."


@dataclass(frozen=True)
class Groups:
    """Process groups of one purpose: each rank is in one of them. `seq` counts the collectives of each rank."""

    description: str
    of: Column
    members: tuple[Column, ...]
    first_name: int
    seq: Column = field(repr=False)

    @property
    def name(self) -> Column:
        """The number that is the name of each rank's group."""
        return self.first_name + self.of

    @property
    def size(self) -> int:
        """Ranks of each group."""
        return len(self.members[0])

    def ranks_of(self, rank: int) -> list[int]:
        """The ranks of a rank's group."""
        return [int(r) for r in self.members[int(self.of[rank])]]


def listed(ranks: list[int]) -> str:
    """The ranks as an event shows them."""
    return str(ranks) if len(ranks) <= SHOWN else str(ranks[:SHOWN])[:-1] + ", ...]"


def grouped(job: Job, description: str, of: Column, first_name: int) -> Groups:
    """The groups in which the ranks with equal numbers in `of` are together."""
    _, index = np.unique(of, return_inverse=True)
    members = tuple(np.flatnonzero(index == g) for g in range(int(index.max()) + 1))
    return Groups(description, index.astype(np.int64), members, first_name, np.zeros(job.ranks, np.int64))


def groups_of(job: Job) -> dict[str, Groups]:
    """The job's groups by purpose: "world", and "data" with "tensor", or with "pipe"; "data" is the world otherwise."""
    rank = np.arange(job.ranks)
    world = grouped(job, "default_pg", np.zeros(job.ranks, np.int64), 0)
    if job.parallelism not in ("tp_dp", "pp_dp"):
        return {"world": world, "data": world}
    inner = rank % job.model_parallel if job.parallelism == "tp_dp" else rank * job.model_parallel // job.ranks
    outer = rank // job.model_parallel if job.parallelism == "tp_dp" else rank % (job.ranks // job.model_parallel)
    purpose, label = ("tensor", "TENSOR_MODEL_PARALLEL_GROUP"), "DATA_PARALLEL_GROUP"
    if job.parallelism == "pp_dp":
        purpose = ("pipe", "PIPELINE_MODEL_PARALLEL_GROUP")
    model = grouped(job, purpose[1], outer, 1)
    return {"world": world, purpose[0]: model, "data": grouped(job, label, inner, 1 + len(model.members))}


def stage_of(job: Job) -> Column:
    """The pipeline stage of each rank."""
    return np.arange(job.ranks) * job.model_parallel // job.ranks


_BUS_SHARE = {"allreduce": 2.0, "_allgather_base": 1.0, "_reduce_scatter_base": 1.0}


def transfer_ns(job: Job, trouble: Disturbance, kind: str, members: Column, size: float) -> float:
    """Nanoseconds of a collective once all have come; the message of a sharded one is the whole buffer, in bytes."""
    links, count = job.links, len(members)
    nodes = np.unique(job.node[members], return_counts=True)[1]
    latency, rate = links.node_latency_us, links.node_bytes_per_s
    if len(nodes) > 1:
        latency = links.network_latency_us
        rate = min(rate, links.network_bytes_per_s_per_rank * int(nodes.min()))
    wire = _BUS_SHARE[kind] * (count - 1) / count * size if kind in _BUS_SHARE else size
    return trouble.link(members) * (latency * 1e3 + wire / rate * 1e9)
