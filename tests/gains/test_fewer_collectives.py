"""Fewer collectives, on jobs built twice: what the one with too many promises is held to the one without them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from analysed import facts
from distributed_traces import COPY_BACK, DDP, FSDP, GATHER, HOOK, MIB, product
from kineto import Trace

from diagnose.analysis import analyze

SENDING = 99  # a thread of gloo
REDUCTIONS, GATHERS = "reduced-micro-steps", "needless-gathers"
Job = Callable[[Trace, bool], None]


def sends(job: Trace, call: str, title: str, us: float) -> None:
    """A collective of the host that the training thread waits for."""
    job.cpu_op(call, 20)
    with job.thread(SENDING):
        job.event("user_annotation", title, us)


def ddp(job: Trace, reduces: bool) -> None:
    """DDP copies each gradient into its bucket and out of it."""
    with job.annotation(DDP, 5):
        job.cpu_op("aten::mm", 1000)
    with job.backward(HOOK):
        job.cpu_op("aten::add_", 300)
        if reduces:
            with job.inside("torch::distributed::reducer::mul_out"):
                job.cpu_op("aten::mul", 500)
            sends(job, "c10d::allreduce_", "gloo:all_reduce", 600)
            with job.inside(COPY_BACK):
                job.cpu_op("aten::copy_", 400)


def fully_shard(job: Trace, reduces: bool) -> None:
    """Parameters are gathered in any case; gradients are packed in Python and by operators before they are sent."""
    with job.annotation(FSDP, 5), job.annotation("FSDP::all_gather (0)", 100):
        sends(job, "c10d::_allgather_base_", "gloo:all_gather", 400)
    job.cpu_op("aten::mm", 1000)
    with job.backward():
        job.cpu_op("aten::mm", 500)
        if reduces:
            with job.annotation("FSDP::post_backward_reduce (0)", 300):
                job.cpu_op("fsdp::chunk_cat", 400)
                sends(job, "c10d::_reduce_scatter_base_", "gloo:all_reduce", 600)


def gathering(job: Trace, gathers: bool) -> None:
    with job.annotation(FSDP, 5):
        if gathers:
            with job.annotation("FSDP::all_gather (0)", 200):
                sends(job, "c10d::_allgather_base_", "gloo:all_gather", 400)
            with job.annotation("FSDP::all_gather_copy_out (0)", 100):
                job.cpu_op("aten::copy_", 300)
    job.cpu_op("aten::mm", 500)


def update(job: Trace) -> None:
    """A training step of what generates."""
    gathering(job, True)
    with job.backward():
        job.cpu_op("aten::mm", 500)


def late_host(job: Trace, gathers: bool) -> None:
    """A GPU that waits for the Python of each gather."""
    with job.annotation(FSDP, 5):
        if gathers:
            with job.annotation("FSDP::all_gather (0)", 400):
                job.collective(GATHER, MIB, 100, wait=True)
    product(job, 100)


def late_device(job: Trace, gathers: bool) -> None:
    """A GPU whose queue is never empty: the Python of each gather passes beside it."""
    with job.annotation(FSDP, 5):
        if gathers:
            with job.annotation("FSDP::all_gather (0)", 400):
                job.collective(GATHER, 64 * MIB, 500, wait=True)
    product(job, 1500)


def trained(job: Trace) -> None:
    """A training step of what generates on a GPU."""
    with job.annotation(FSDP, 5):
        product(job, 100)
    with job.backward():
        product(job, 100)


def built(rank: int, part: Job, faulty: bool, after: Callable[[Trace], None] | None) -> Trace:
    """Steps of four parts, and what follows them before the update; without the fault one of them does all."""
    on_gpu = part in (late_host, late_device)
    job = Trace(rank=rank, world=2) if on_gpu else Trace(gpu=None, rank=rank, world=2)
    for _ in range(6):
        with job.step():
            for number in range(4):
                part(job, faulty or number == 3 * (after is None))
            if after is not None:
                after(job)
            with job.optimizer():
                job.cpu_op("aten::_fused_adamw_", 20)
    return job


def step_ns(job: Trace) -> float:
    """Nanoseconds of a step, the first left out."""
    steps = sorted(row["ts"] for row in job.json()["traceEvents"] if row["name"].startswith("ProfilerStep#"))
    return float(steps[-1] - steps[1])


@pytest.mark.parametrize(
    ("part", "after", "rule"),
    [
        (ddp, None, REDUCTIONS),
        (fully_shard, None, REDUCTIONS),
        (gathering, update, GATHERS),
        (late_host, trained, GATHERS),
        (late_device, trained, GATHERS),
    ],
)
def test_the_gain_of_a_collective_less(
    part: Job, after: Callable[[Trace], None] | None, rule: str, tmp_path: Path
) -> None:
    faulty, fixed = ([built(rank, part, each, after) for rank in range(2)] for each in (True, False))
    for job in faulty:
        job.write(tmp_path / f"rank{job.rank}.json")

    found = next(each for each in analyze(tmp_path).findings if each.rule == rule)

    assert found.predicted_speedup is not None
    low, high = found.predicted_speedup
    gain = step_ns(faulty[0]) / step_ns(fixed[0])
    assert low <= gain <= (high or 0) < 1.6 * low


@pytest.mark.parametrize(("beside_us", "slower"), [(900, 1.5), (600, 1.0)])
def test_how_much_operators_slow_down_beside_what_is_sent(beside_us: float, slower: float) -> None:
    job = Trace(gpu=None, world=2)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 600, [[64, 64], [64, 64]], "float")
            with job.thread(SENDING), job.annotation("gloo:all_reduce"), job.thread(job.pid):
                job.cpu_op("aten::mm", beside_us, [[64, 64], [64, 64]], "float")

    assert facts(job)["overlap_slowdown_factor"].value == pytest.approx(slower)


@pytest.mark.parametrize(("replicas", "share"), [(True, 0.2), (False, 0.7)])
def test_shards_that_are_scattered_beside_replicas_are_not_counted(replicas: bool, share: float) -> None:
    job = Trace(gpu=None, world=4)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 300)
            with job.backward(), job.annotation("FSDP::post_backward_reduce (0)", 100):
                sends(job, "c10d::_reduce_scatter_base_", "gloo:all_reduce", 380)
                sends(job, "c10d::allreduce_" if replicas else "c10d::_reduce_scatter_base_", "gloo:all_reduce", 180)

    assert facts(job)["gradient_reduction_share"].value == pytest.approx(share, abs=0.01)
