"""For each rule a small job with its fault, and the same job without it."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from analysed import ADD, FOREACH, FUSED, GEMM, SOFTMAX
from kineto import Trace, collective

from diagnose.diagnosis import Patch, Severity

Files = str | Sequence[Trace]
Work = Callable[[Trace], object]

HIDDEN, LOGITS, SCORES = [8, 512, 768], [4096, 32_000], [8, 12, 512, 512]
PRODUCT, LARGE_PRODUCT = [[4096, 4096]] * 2, [[16_384, 16_384]] * 2
SGEMM = "ampere_sgemm_128x64_tn"
LOG_SOFTMAX = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*)"
SILU = "void at::native::vectorized_elementwise_kernel<4, silu_kernel(at::TensorIteratorBase&)>(int)"
FUSED_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)"
COMPILE = "_compile.compile_inner (dynamo_timed)"
HOOK = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
SEARCH = "torch::distributed::reducer::search_unused_parameters"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def healthy(job: Trace) -> None:
    """A batch that is there, and one product far longer than its launch."""
    job.loader(us=10)
    job.copy(4096, pinned=True)
    job.op("aten::mm", PRODUCT, GEMM, 1000)


def nothing(job: Trace) -> None:
    """No work."""


def steps(more: Work = nothing, count: int = 5, world: int = 1) -> Trace:
    """Healthy steps with `more` at the end of each."""
    job = Trace(world=world)
    for _ in range(count):
        with job.step():
            healthy(job)
            more(job)
    return job


def each_step(fault: Work, cured: Work = nothing, world: int = 1) -> Callable[[bool], Files]:
    """Steps with the fault, or with the work that is left without it."""
    return lambda faulty: [steps(fault if faulty else cured, world=world)]


def operators(*launched: tuple[str, Any, str, float]) -> Work:
    """Operators that launch one kernel each: name, dims, kernel, microseconds."""

    def work(job: Trace) -> None:
        for name, dims, kernel, us in launched:
            job.op(name, dims, kernel, us)

    return work


def optimizer(name: str, kernels: Sequence[str], us: float = 0, host_us: float = 0) -> Work:
    """An optimizer step that works on the host first and then launches kernels of `us` each."""

    def work(job: Trace) -> None:
        with job.optimizer(name):
            job.host(host_us)
            for kernel in kernels:
                job.op("aten::_update", kernel=kernel, gpu_us=us, host_us=1)

    return work


def forward_only(faulty: bool) -> Files:
    """Steps that train nothing, with dropout or without."""
    job = Trace(trains=False)
    for _ in range(5):
        with job.step():
            healthy(job)
            if faulty:
                job.op("aten::native_dropout", [HIDDEN, [], []], ADD, 50)
    return [job]


def marked(name: str, us: float) -> Work:
    """A range in which the host spends `us`."""
    return lambda job: job.event("user_annotation", name, us)


def all_reduces(count: int, size: int, us: float, mark: str = "DistributedDataParallel.forward") -> Work:
    """All-reduces of `size` bytes that a hook of the backward pass launches and the next product waits for."""

    def work(job: Trace) -> None:
        job.event("user_annotation", mark, 5)
        with job.inside(HOOK):
            for _ in range(count):
                job.collective("allreduce", size, us, wait=True)

    return work


def waits_for_the_device(job: Trace) -> None:
    job.item()
    job.cpu_op("aten::view", 500)


def uncached(job: Trace) -> None:
    """Tensors that the driver allocates and frees, one after the other."""
    for _ in range(20):
        with job.inside("aten::empty"):
            job.malloc(50)
        job.op("aten::add", kernel=ADD, gpu_us=5, host_us=1)
        job.malloc(50, "cudaFree")


def emptied(job: Trace) -> None:
    """A cache that is given back at once, and filled again while most tensors find room in it."""
    for number in range(120):
        with job.inside("aten::empty"):
            if number < 40:
                job.malloc(50, "cudaFree" if number < 20 else "cudaMalloc")
        job.op("aten::add", kernel=ADD, gpu_us=5, host_us=1)


def reserved(size: int) -> Work:
    """The caching allocator holds `size` bytes."""
    return lambda job: job.memory(KIB, allocated=size, reserved=size)


def late_rank(faulty: bool) -> Files:
    """Two ranks, of which the second waits for its data when the job is faulty."""
    jobs = [Trace(rank=rank, world=2) for rank in range(2)]
    for _ in range(5):
        with ExitStack() as marks:
            for job in jobs:
                marks.enter_context(job.step())
                job.loader(ms=2 if faulty and job.rank == 1 else 0)
                healthy(job)
            collective(jobs, "allreduce", MIB, 50, wait=True)
            for job in jobs:
                job.sync()
    return jobs


def lossy(faulty: bool) -> Files:
    """A trace that lacks every other kernel when it is faulty."""
    trace = steps().json()
    lost = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"][1::2] if faulty else []
    return json.dumps(trace | {"traceEvents": [e for e in trace["traceEvents"] if e not in lost]})


def damaged(faulty: bool) -> Files:
    """A trace in which one operator of each step is no JSON when it is faulty."""
    text = json.dumps(steps().json())
    return text.replace('"name": "aten::copy_"', '"name": aten::copy_') if faulty else text


def captures_a_graph(job: Trace) -> None:
    """Products that are recorded for a graph."""
    with job.graph_capture():
        for _ in range(40):
            job.op("aten::mm", PRODUCT, GEMM, 1000, host_us=50)


def after_a_long_start(faulty: bool) -> Files:
    """Steps, before which the profiler also saw how modules are loaded when the job is faulty."""
    job = Trace()
    if faulty:
        job.event("cuda_driver", "cuModuleLoadData", 50_000)
    for _ in range(5):
        with job.step():
            healthy(job)
    return [job]


def on_another_device(faulty: bool) -> Files:
    """Steps on a CPU, beside a device of a category of its own when the job is faulty."""
    job = Trace(gpu=None)
    for _ in range(5):
        with job.step():
            job.cpu_op("aten::mm", 500)
            if faulty:
                job.event("mtia_ccp_events", "dma_request", 10)
    return [job]


def without_work(faulty: bool) -> Files:
    """A capture that holds the calls of the profiler alone when it is faulty."""
    job = Trace()
    if not faulty:
        return [steps()]
    job.event("cuda_runtime", "cudaDeviceSynchronize", 185_000)
    return [job]


def beside_an_idle_gpu(faulty: bool) -> Files:
    """Steps on the CPU of a machine whose GPU was recorded when the job is faulty, else of one without."""
    job = Trace(gpu="NVIDIA H100 80GB HBM3" if faulty else None)
    for _ in range(5):
        with job.step():
            job.cpu_op("aten::addmm", 500)
    if faulty:
        job.event("cuda_runtime", "cudaDeviceSynchronize", 700_000)
    return [job]


def silent_in_an_operator(job: Trace) -> None:
    """Three products, and an operator that calls nothing for longer than they take before it launches."""
    for _ in range(3):
        job.op("aten::mm", PRODUCT, GEMM, 10)
    job.op("aten::normal_", kernel=ADD, gpu_us=10, host_us=5000)


def compiled_once(faulty: bool) -> Files:
    """Steps of which one calls nothing for long in an operator when the job is faulty."""
    return [steps(lambda job: silent_in_an_operator(job) if faulty and job.next_step == 13 else None)]


def of_the_host_alone(faulty: bool) -> Files:
    """Steps on a machine that has a GPU when the job is faulty, recorded without it."""
    job = Trace(gpu="NVIDIA H100 80GB HBM3" if faulty else None)
    for _ in range(5):
        with job.step():
            job.cpu_op("aten::addmm", 50)
    return [job]


def longer(us: float, number: int) -> Work:
    """A product of `us` in the step that follows `number` others."""
    return lambda job: job.launch(GEMM, us) if job.next_step == 11 + number else None


@dataclass(frozen=True)
class Case:
    """A fault as the rule of its name answers it; `files` makes the job with the fault or without."""

    severity: Severity
    files: Callable[[bool], Files]
    patch: Patch | None = None


def training(**values: Any) -> Patch:
    """A patch of the Trainer's arguments."""
    return Patch(target="training_arguments", set=values)


LIGER, FUSED_ADAM = training(use_liger_kernel=True), training(optim="adamw_torch_fused")
WORKERS = training(dataloader_num_workers=5, dataloader_persistent_workers=True)
SDPA = Patch(target="model_kwargs", set={"attn_implementation": "sdpa"})
SEGMENTS = Patch(target="environment", set={"PYTORCH_ALLOC_CONF": "expandable_segments:True"})
COLLECTED = Patch(target="training_arguments", set={"gc_every_steps": 100})
ATTENTION = operators(
    ("aten::bmm", [[96, 512, 64], [96, 64, 512]], GEMM, 100),
    ("aten::_softmax", [SCORES, [], []], SOFTMAX, 200),
    ("aten::bmm", [[96, 512, 512], [96, 512, 64]], GEMM, 100),
)
RMS_NORM = operators(*((f"aten::{name}", [HIDDEN, []], ADD, 100) for name in ("pow", "mean", "add", "rsqrt", "mul")))

CASES = {
    # The input
    "data-wait": Case("critical", each_step(lambda job: job.loader(us=2200)), WORKERS),
    "pageable-copies": Case(
        "critical",
        each_step(lambda job: job.copy(5 * MIB), lambda job: job.copy(5 * MIB, pinned=True)),
        training(dataloader_pin_memory=True),
    ),
    # The host
    "launch-bound": Case(
        "critical",
        each_step(operators(*[("aten::add", None, ADD, 2)] * 300), operators(("aten::add", None, ADD, 100))),
        training(torch_compile=True),
    ),
    "sync-every-step": Case(
        "critical",
        each_step(waits_for_the_device, lambda job: job.cpu_op("aten::view", 500)),
    ),
    "allocator-churn": Case("critical", each_step(lambda job: job.malloc(2000)), SEGMENTS),
    "uncached-allocations": Case("critical", each_step(uncached, emptied)),
    "gc-pauses": Case("critical", each_step(lambda job: job.gc(2000), lambda job: job.gc(10)), COLLECTED),
    "host-optimizer": Case(
        "critical", each_step(optimizer("Lion", [], host_us=2000), optimizer("Lion", [], host_us=10))
    ),
    "single-tensor-optimizer": Case(
        "critical", each_step(optimizer("AdamW", [ADD] * 60, 10), optimizer("AdamW", [FUSED], 100)), FUSED_ADAM
    ),
    "python-host": Case("critical", each_step(lambda job: job.host(1800))),
    "generation-bound": Case("warning", each_step(marked("diagnose.generation", 4000))),
    "logging-cadence": Case("critical", each_step(marked("diagnose.log", 2000), marked("diagnose.log", 5)), None),
    # The kernels
    "unfused-attention": Case(
        "critical",
        each_step(ATTENTION, operators(("aten::_scaled_dot_product_flash_attention", [SCORES] * 3, FLASH, 100))),
        SDPA,
    ),
    "unfused-norm": Case(
        "critical", each_step(RMS_NORM, operators(("aten::native_layer_norm", [HIDDEN], FUSED_NORM, 100))), LIGER
    ),
    "unfused-loss": Case("critical", each_step(operators(("aten::_log_softmax", [LOGITS], LOG_SOFTMAX, 500))), LIGER),
    "unfused-glu": Case(
        "critical",
        each_step(operators(("aten::silu", [HIDDEN], SILU, 300), ("aten::mul", [HIDDEN] * 2, ADD, 300))),
        LIGER,
    ),
    "unfused-elementwise": Case(
        "warning", each_step(operators(("aten::add", [HIDDEN] * 2, ADD, 500))), training(torch_compile=True)
    ),
    "unfused-optimizer": Case(
        "critical", each_step(optimizer("AdamW", [FOREACH] * 12, 50), optimizer("AdamW", [FUSED], 200)), FUSED_ADAM
    ),
    "fp32-without-tensor-cores": Case(
        "critical",
        each_step(operators(("aten::mm", PRODUCT, SGEMM, 600)), operators(("aten::mm", PRODUCT, GEMM, 300))),
        training(tf32=True),
    ),
    "near-hardware-peak": Case(
        "info",
        each_step(operators(("aten::mm", LARGE_PRODUCT, GEMM, 11_500)), operators(("aten::mm", PRODUCT, GEMM, 500))),
    ),
    # Other ranks
    "exposed-communication": Case(
        "critical", each_step(all_reduces(1, 64 * MIB, 600), all_reduces(1, MIB, 20), world=2)
    ),
    "unused-parameter-search": Case(
        "warning",
        each_step(all_reduces(1, 64 * MIB, 300, SEARCH), all_reduces(1, 64 * MIB, 300), world=2),
    ),
    "small-collectives": Case(
        "warning",
        each_step(all_reduces(25, 64 * KIB, 20), all_reduces(1, 25 * 64 * KIB, 50), world=2),
        None,
    ),
    "straggler": Case("critical", late_rank),
    "ranks-apart": Case("critical", each_step(nothing, all_reduces(1, MIB, 20), world=2)),
    # Memory
    "low-memory-use": Case("warning", each_step(reserved(16 * GIB), reserved(70 * GIB))),
    "near-out-of-memory": Case("warning", each_step(reserved(78 * GIB), reserved(60 * GIB)), SEGMENTS),
    # The capture
    "few-steps": Case("warning", lambda faulty: [steps(count=1 if faulty else 5)]),
    "warm-up-in-window": Case("info", each_step(longer(5000, 0))),
    "uneven-steps": Case("warning", each_step(longer(5000, 2))),
    "layers-in-training-mode": Case("info", forward_only),
    "second-profiler": Case("info", each_step(marked("ProfilerStep#1", 200))),
    "compile-in-window": Case("critical", each_step(marked(COMPILE, 2000))),
    "lost-gpu-events": Case("critical", lossy),
    "empty-capture": Case("critical", without_work),
    "long-gap-in-operator": Case("critical", compiled_once),
    "slow-operator-on-host": Case("critical", each_step(silent_in_an_operator)),
    "gpu-not-recorded": Case("critical", of_the_host_alone),
    "model-on-cpu": Case("critical", beside_an_idle_gpu),
    "graph-capture": Case("critical", each_step(captures_a_graph)),
    "unknown-device": Case("critical", on_another_device),
    "start-fills-capture": Case("warning", after_a_long_start),
    "damaged-trace": Case("warning", damaged),
    "unclassified-kernels": Case("warning", each_step(lambda job: job.launch("own::kernel<3>(float*)", 300))),
    "unexplained-time": Case("critical", each_step(lambda job: job.host(3000))),
}
