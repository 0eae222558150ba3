"""What a simulated job is: its size, its parallelism, its network, its clocks and its faults."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .faults import Fault
from .gpu import gpu

Resource = Literal["data", "host", "communication"]
Parallelism = Literal["ddp", "fsdp", "tp_dp", "pp_dp"]
PARALLELISMS: tuple[Parallelism, ...] = ("ddp", "fsdp", "tp_dp", "pp_dp")


@dataclass(frozen=True)
class Transport:
    """The α-β model of a collective: latency + bus bytes / bandwidth, bytes per second.

    Between nodes each rank of a group brings its own network card; the bandwidth never exceeds that inside a node.
    """

    node_latency_us: float = 15
    node_bytes_per_s: float = 360e9
    network_latency_us: float = 35
    network_bytes_per_s_per_rank: float = 40e9
    end_jitter_us: float = 1.5
    variation: float = 0.02


GLOO = Transport(60, 6e9, 120, 3e9, 15, 0.05)


@dataclass(frozen=True)
class Clocks:
    """How far the hosts' clocks are apart: uniform offset of ± `offset_ms` and drift of ± `drift_ppm` per host."""

    offset_ms: float = 0
    drift_ppm: float = 0


@dataclass(frozen=True)
class Job:
    """A job and what goes wrong in it.

    Attributes:
        ranks: world size; a multiple of `model_parallel` in tp_dp and pp_dp.
        ranks_per_node: consecutive ranks share a host and its clock.
        steps: profiled steps.
        seed: of every random draw; the fault draws nothing, so that the healthy twin has the same draws.
        model_parallel: ranks of a tensor-parallel group, or pipeline stages.
        gpu: NCCL on GPUs, else gloo on CPUs.
        seq: whether collectives carry "Seq" (torch 2.12 and later).
        jitter: sigma of the log-normal spread of each kernel.
        host_jitter: of each operator's host time.
        spread: standard deviation of the ranks' lasting differences in speed.
        missing: ranks whose trace is not written.
        tokens: of a rank in one step (a micro-batch in pp_dp).
        micro_batches: of a step of a pipeline.
        stage_layers: of each stage of a pipeline; two unless stated, and one beside the head in the last.
        batched: whether a pipeline's messages that belong together are one kernel, for which both sides wait.
        odd_rank: a rank of a pipeline that reduces four bytes by itself in each step, as no other rank does.
        device: key of its GPU in `diagnose/data/gpus.csv`.
        free: what costs no time, to learn how much of the step it holds up.
    """

    ranks: int = 8
    ranks_per_node: int = 8
    steps: int = 5
    seed: int = 0
    parallelism: Parallelism = "ddp"
    model_parallel: int = 4
    gpu: bool = True
    seq: bool = True
    transport: Transport | None = None
    clocks: Clocks = field(default_factory=Clocks)
    faults: tuple[Fault, ...] = ()
    jitter: float = 0.01
    host_jitter: float = 0.01
    spread: float = 0.003
    missing: tuple[int, ...] = ()
    layers: int = 4
    tokens: int = 4096
    device: str = "H100-SXM5-80GB"
    free: tuple[Resource, ...] = ()
    micro_batches: int = 4
    stage_layers: tuple[int, ...] = ()
    batched: bool = True
    odd_rank: int | None = None

    def __post_init__(self) -> None:
        if self.parallelism in ("tp_dp", "pp_dp") and self.ranks % self.model_parallel:
            raise ValueError(f"{self.ranks} ranks are not a multiple of model_parallel={self.model_parallel}")
        if not self.gpu and self.parallelism == "pp_dp":
            raise ValueError("pipelines are simulated with GPUs only")
        if self.parallelism == "pp_dp" and len(self.layers_of) != self.model_parallel:
            raise ValueError(f"{len(self.layers_of)} counts of layers are given for {self.model_parallel} stages")
        if late := [r for f in self.faults for r in f.ranks if not 0 <= r < self.ranks]:
            raise ValueError(f"no such rank: {late[0]} of {self.ranks}")

    @property
    def micros(self) -> int:
        """Micro-batches of a step."""
        return self.micro_batches if self.parallelism == "pp_dp" else 1

    @property
    def stage(self) -> NDArray[np.int64]:
        """The pipeline stage of each rank."""
        return np.arange(self.ranks) * self.model_parallel // self.ranks

    @property
    def replica(self) -> NDArray[np.int64]:
        """The replica of the model that each rank is part of: its ranks train on the same data."""
        rank = np.arange(self.ranks)
        if self.parallelism == "tp_dp":
            return rank // self.model_parallel
        return rank % (self.ranks // self.model_parallel) if self.parallelism == "pp_dp" else rank

    @property
    def layers_of(self) -> tuple[int, ...]:
        """The layers of each stage of a pipeline."""
        return self.stage_layers or (2,) * (self.model_parallel - 1) + (1,)

    @property
    def links(self) -> Transport:
        """The transport figures: those given, else of H100 nodes or of gloo."""
        return self.transport or (Transport() if self.gpu else GLOO)

    @property
    def device_properties(self) -> dict[str, Any]:
        """As Kineto writes them."""
        return gpu(self.device).properties

    @property
    def node(self) -> NDArray[np.int64]:
        """The node of each rank."""
        return np.arange(self.ranks) // self.ranks_per_node

    @property
    def hosts(self) -> tuple[str, ...]:
        """The name of each node."""
        return tuple(f"node{n:03d}" for n in range(int(self.node[-1]) + 1))
