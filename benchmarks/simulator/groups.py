"""Process groups, and how long a collective takes in them."""

from dataclasses import dataclass, field

import numpy as np

from .disturbance import Disturbance
from .events import Column, Mask
from .job import Job

SHOWN = 30  # ranks that torch lists before "..."


@dataclass(frozen=True)
class Groups:
    """Process groups of one purpose: each rank of the mask `holds` is in one. `seq` counts each rank's collectives."""

    description: str
    of: Column
    members: tuple[Column, ...]
    first_name: int
    seq: Column = field(repr=False)
    holds: Mask = field(repr=False)

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
    """The groups in which the ranks with equal numbers in `of` are together; those with a negative one are in none."""
    holds = of >= 0
    _, index = np.unique(of[holds], return_inverse=True)
    number = np.zeros(job.ranks, np.int64)
    number[holds] = index
    members = tuple(np.flatnonzero(holds & (number == g)) for g in range(int(index.max()) + 1))
    return Groups(description, number, members, first_name, np.zeros(job.ranks, np.int64), holds)


def groups_of(job: Job) -> dict[str, Groups]:
    """The job's groups by purpose: "world" and "data", which is the world unless the model is divided."""
    world = grouped(job, "default_pg", np.zeros(job.ranks, np.int64), 0)
    if job.parallelism not in ("tp_dp", "pp_dp"):
        return {"world": world, "data": world}
    if job.parallelism == "tp_dp":
        shard = np.arange(job.ranks) % job.model_parallel
        asked = {"tensor": ("TENSOR_MODEL_PARALLEL_GROUP", job.replica), "data": ("DATA_PARALLEL_GROUP", shard)}
    else:
        asked = _of_pipeline(job)
    found, name = {"world": world}, 1
    for purpose, (description, of) in asked.items():
        found[purpose] = grouped(job, description, of, name)
        name += len(found[purpose].members)
    return found


def _of_pipeline(job: Job) -> dict[str, tuple[str, Column]]:
    """As Megatron makes them: stages, replicas, and the ends of each replica, which share the embedding."""
    ends = (job.stage == 0) | (job.stage == job.model_parallel - 1)
    asked = {
        "pipe": ("PIPELINE_MODEL_PARALLEL_GROUP", job.replica),
        "data": ("DATA_PARALLEL_GROUP", job.stage),
        "model": ("MODEL_PARALLEL_GROUP", job.replica),
        "embedding": ("EMBEDDING_GROUP", np.where(ends, job.replica, -1)),
    }
    if job.odd_rank is not None:
        asked["odd"] = ("LOGGING_GROUP", np.where(np.arange(job.ranks) == job.odd_rank, 0, -1))
    return asked


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
