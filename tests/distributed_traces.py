"""For each rule about gradients, shards, links and checkpoints a small job with its fault, and the same job without."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from analysed import FUSED, GEMM
from faulty_traces import GIB, HOOK, KIB, MIB, PRODUCT, each_step, late_rank, marked, training
from kineto import Trace, collective
from pipeline_jobs import first_stage

from diagnose.diagnosis import Patch, Severity

COPY = "void at::native::elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
SEARCH = "torch.distributed.ddp.reducer::search_unused_parameters"
COPY_BACK = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
DDP, FSDP = "DistributedDataParallel.forward", "FSDP::root_pre_forward"
GATHER, BUCKET = "_allgather_base", 25 * MIB
Ddp = Callable[[Trace], object]


@dataclass(frozen=True)
class Faulty:
    """A fault as the rule of its name answers it; `record` is what was captured beside the trace.

    With `network_gbs`, the stated rate of a node's network, each rank has a node of its own.
    """

    severity: Severity
    files: Callable[[bool], list[Trace]]
    patch: Patch | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    network_gbs: float | None = None


def product(job: Trace, us: float = 1000) -> None:
    job.op("aten::mm", PRODUCT, GEMM, us)


def reduced(job: Trace, size: int, us: float, kind: str = "allreduce", **more: Any) -> None:
    """A reduction that a hook of the backward pass launches."""
    with job.backward(HOOK):
        job.collective(kind, size, us, **more)


def passes(job: Trace, wrapper: str = DDP, before: Ddp | None = None, beside: Ddp | None = None) -> None:
    """Forward and backward: `before` runs first in the forward pass, `beside` between two halves of the backward."""
    with job.annotation(wrapper, 5):
        (before or (lambda _: None))(job)
    product(job)
    with job.backward():
        product(job, 500)
    (beside or (lambda _: None))(job)
    with job.backward():
        product(job, 500)


def train(step: Ddp, world: int = 2, count: int = 5, reserved: int = 0) -> list[Trace]:
    """The trace of rank 0: `step` and the optimizer, over and over."""
    job = Trace(world=world)
    for _ in range(count):
        with job.step():
            job.loader(us=10)
            if reserved:
                job.memory(KIB, allocated=reserved, reserved=reserved)
            step(job)
            with job.optimizer():
                job.op("aten::_fused_adamw_", kernel=FUSED, gpu_us=50)
    return [job]


def copies_back(faulty: bool) -> list[Trace]:
    """Gradients of 400 MB are copied out of the buckets."""

    def step(job: Trace) -> None:
        passes(job)
        reduced(job, MIB, 20, wait=True)
        with job.inside(COPY_BACK) if faulty else nullcontext():
            job.copy(400_000_000 if faulty else 4096, "DtoD")

    return train(step)


def buffers(faulty: bool) -> list[Trace]:
    """DDP packs, broadcasts and unpacks buffers before the forward pass: 0.3 ms of host and 20 us of copies, or not."""

    def sync(job: Trace) -> None:
        job.cpu_op("aten::flatten_dense_tensors", 100)
        with job.inside("c10d::broadcast_"):
            job.collective("broadcast", KIB, 10)
        job.cpu_op("aten::unflatten_dense_tensors", 200)
        job.op("aten::copy_", [[64], [64]], COPY, 20)
        job.cpu_op("aten::linear", 50)

    def step(job: Trace) -> None:
        job.sync()
        passes(job, before=sync if faulty else None)
        reduced(job, MIB, 20, wait=True)

    return train(step)


def accumulation(faulty: bool) -> list[Trace]:
    """Four micro-batches for each update; without no_sync each of them reduces its gradients."""

    def step(job: Trace) -> None:
        for number in range(4):
            passes(job)
            if faulty or number == 3:
                reduced(job, 64 * MIB, 1000, wait=True)

    return train(step)


def generation(faulty: bool) -> list[Trace]:
    """Eight forward passes without gradients before the update; each gathers the parameters, or the first alone."""

    def step(job: Trace) -> None:
        for number in range(8):
            with job.annotation(FSDP, 5):
                if faulty or not number:
                    job.collective(GATHER, 64 * MIB, 500, wait=True)
            product(job, 100)
        gathers(20)(job)

    return train(step)


def tail(faulty: bool) -> list[Trace]:
    """Four buckets travel beside the backward pass, the last one after it; without the fault that one is small."""

    def buckets(job: Trace) -> None:
        for _ in range(4):
            reduced(job, BUCKET, 100)

    def step(job: Trace) -> None:
        passes(job, beside=buckets)
        reduced(job, BUCKET if faulty else MIB, 300 if faulty else 20, wait=True)

    return train(step)


def fp32_gradients(faulty: bool) -> list[Trace]:
    def step(job: Trace) -> None:
        passes(job)
        reduced(job, BUCKET, 300, wait=True, dtype="Float" if faulty else "BFloat16")

    return train(step)


@contextmanager
def together(jobs: list[Trace]) -> Any:
    """A step of all ranks."""
    with ExitStack() as marks:
        for job in jobs:
            marks.enter_context(job.step())
        yield


def links(faulty: bool) -> list[Trace]:
    """Two ranks exchange 64 MiB at 34 GB/s of bus bandwidth, or at 224."""
    jobs = [Trace(rank=rank, world=2) for rank in range(2)]
    for _ in range(5):
        with together(jobs):
            for job in jobs:
                passes(job)
            collective(jobs, "allreduce", 64 * MIB, 2000 if faulty else 300, wait=True)
            for job in jobs:
                job.sync()
    return jobs


def contention(faulty: bool) -> list[Trace]:
    """A product alone, then the same one beside a collective."""

    def step(job: Trace) -> None:
        product(job, 1000)
        job.collective("allreduce", 64 * MIB, 1500)
        product(job, 1300 if faulty else 1000)
        job.wait()

    return train(step)


def gathers(forward_us: float, backward_us: float = 0, shard: int = 64 * MIB, later_us: float = 0, **more: Any) -> Ddp:
    """A step of FSDP: all-gathers that the forward pass and, with `backward_us`, the backward pass wait for."""
    units = [us for us in (forward_us, later_us) if us]

    def step(job: Trace) -> None:
        passes(job, FSDP, before=lambda job: [job.collective(GATHER, shard, us, wait=True, **more) for us in units])
        if backward_us:
            reduced(job, shard, backward_us, GATHER, wait=True)
        reduced(job, 2 * shard, 20, "_reduce_scatter_base", wait=True)

    return step


def layers(faulty: bool) -> list[Trace]:
    """FSDP over four layers: each is gathered when it is needed, or all are asked for before the first computes."""

    def gathered(job: Trace) -> None:
        job.collective(GATHER, 64 * MIB, 200)

    def step(job: Trace) -> None:
        with job.annotation(FSDP, 5):
            if not faulty:
                product(job, 100)
                for _ in range(4):
                    gathered(job)
            for _ in range(4):
                if faulty:
                    gathered(job)
                    job.wait()
                product(job, 500)

    return train(step)


def hooks(faulty: bool) -> list[Trace]:
    """A hook in Python follows a gradient, for which the device waits, or does not."""

    def step(job: Trace) -> None:
        passes(job)
        job.sync()
        with job.backward(HOOK):
            job.host(800 if faulty else 5)

    return train(step)


def offloaded(faulty: bool) -> list[Trace]:
    """An update on the host, of 1.5 ms or 5 us."""

    def step(job: Trace) -> None:
        passes(job)
        job.sync()
        with job.optimizer("DeepSpeedCPUAdam"):
            job.host(1500 if faulty else 5)

    return train(step)


def short_messages(faulty: bool) -> list[Trace]:
    """Gradients in 24 messages of 2 MiB, or of 64 MiB, on eight ranks."""

    def step(job: Trace) -> None:
        passes(job)
        for _ in range(24):
            reduced(job, (2 if faulty else 64) * MIB, 60 if faulty else 300, wait=True)

    return train(step, world=8)


def two_stages(faulty: bool) -> list[Trace]:
    """A pipeline of two stages, the second of which runs three times as many kernels."""
    jobs = [Trace(rank=rank, world=2) for rank in range(2)]
    for _ in range(6):
        with together(jobs):
            for _ in range(4):
                for job in jobs:
                    for _ in range(3 if faulty and job.rank else 1):
                        product(job, 500)
                    collective(jobs, "send", MIB, 20, wait=True)
                    for each in jobs:
                        each._events[-2]["args"] |= {"Src Rank": job.rank, "Dst Rank": 1 - job.rank}
            collective(jobs, "allreduce", MIB, 50, wait=True)
            for job in jobs:
                job.sync()
    return jobs


def rotating(faulty: bool) -> list[Trace]:
    """Two ranks, late in turn."""
    if not faulty:
        return list(late_rank(False))  # type: ignore[arg-type]
    jobs = [Trace(rank=rank, world=2) for rank in range(2)]
    for number in range(6):
        with together(jobs):
            for job in jobs:
                passes(job)
                product(job, 2000 if job.rank == number % 2 else 20)
            collective(jobs, "allreduce", MIB, 50, wait=True)
            for job in jobs:
                job.sync()
    return jobs


def once(name: str) -> Callable[[bool], list[Trace]]:
    """A range of 20 ms in the third of five steps, or one of 5 us."""

    def files(faulty: bool) -> list[Trace]:
        def step(job: Trace) -> None:
            product(job)
            job.sync()
            if job.next_step == 13:
                marked(name, 20_000 if faulty else 5)(job)

        return train(step, world=1)

    return files


def ddp(**values: Any) -> Patch:
    return Patch(target="ddp", set=values)


def searching(job: Trace) -> None:
    job.event("user_annotation", DDP, 5)
    job.event("cpu_op", SEARCH, 2000)
    with job.optimizer("SGD"):
        job.host(5)


DISTRIBUTED = {
    "copied-gradients": Faulty("warning", copies_back, ddp(gradient_as_bucket_view=True)),
    "broadcast-buffers": Faulty("warning", buffers, training(ddp_broadcast_buffers=False)),
    "repeated-graph-search": Faulty(
        "info",
        lambda faulty: list(each_step(searching, marked(DDP, 5), world=2)(faulty)),  # type: ignore[arg-type]
        training(ddp_static_graph=True),
    ),
    "reduced-micro-steps": Faulty("critical", accumulation),
    "needless-gathers": Faulty("critical", generation),
    "exposed-gradient-tail": Faulty("warning", tail, training(ddp_bucket_cap_mb=7)),
    "fp32-gradients-on-the-wire": Faulty("warning", fp32_gradients),
    "slow-links": Faulty("warning", links),
    "slow-network": Faulty("warning", links, record={"slurm": {"SLURM_NNODES": "2"}}, network_gbs=250),
    "contended-multiprocessors": Faulty("info", contention),
    "late-all-gathers": Faulty("warning", lambda faulty: train(gathers(20, later_us=400 if faulty else 20))),
    "gathered-as-one-unit": Faulty("warning", lambda faulty: train(gathers(400 if faulty else 20))),
    "unprefetched-gathers": Faulty("warning", layers),
    "latency-bound-collectives": Faulty("warning", short_messages),
    "parameters-gathered-twice": Faulty(
        "warning", lambda faulty: train(gathers(20, 400 if faulty else 0), reserved=16 * GIB)
    ),
    "sharded-though-it-fits": Faulty(
        "warning", lambda faulty: train(gathers(400, shard=512 * MIB), reserved=(16 if faulty else 78) * GIB)
    ),
    "sharded-across-nodes": Faulty(
        "warning",
        lambda faulty: train(gathers(400, group="1", ranks=range(16 if faulty else 8)), world=16),
    ),
    "hooks-per-parameter": Faulty("critical", hooks, record={"zero": {"stage": 2}}),
    "offloaded-without-cores": Faulty(
        "critical",
        offloaded,
        record={
            "zero": {"stage": 2, "offload_optimizer": "cpu"},
            "cores": {"usable": 16, "quota": None, "shared": 16, "local_ranks": 2},
            "torch_settings": {"threads": 8},
        },
    ),
    "gathered-for-few-samples": Faulty(
        "warning",
        lambda faulty: train(gathers(400 if faulty else 20)),
        training(per_device_train_batch_size=8, gradient_accumulation_steps=1),
        {"training_arguments": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}},
    ),
    "checkpoint-cadence": Faulty(
        "critical",
        once("diagnose.save"),
        training(save_steps=360_000),
        {"training_arguments": {"save_strategy": "steps", "save_steps": 10}},
    ),
    "evaluation-cadence": Faulty(
        "critical",
        once("diagnose.eval"),
        training(eval_steps=40),
        {"training_arguments": {"eval_strategy": "steps", "eval_steps": 10}},
    ),
    "rotating-stragglers": Faulty("warning", rotating),
    "uneven-stages": Faulty("critical", two_stages),
    "pipeline-bubbles": Faulty("critical", first_stage),
}
