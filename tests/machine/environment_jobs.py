"""For each rule about variables, settings and builds a record with its fault, and the same job's record without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysed import GEMM
from faulty_traces import KIB, MIB, PRODUCT, healthy, nothing, steps
from kineto import Trace

from diagnose.diagnosis import Patch, Severity

Record = Mapping[str, Any]
HEALTHY = {
    "detects_anomalies": False,
    "deterministic": False,
    "cudnn_deterministic": False,
    "cudnn_benchmark": False,
    "threads": 8,
    "distributed_debug": "OFF",
    "debug_build": False,
    "gpu_code": ["sm_80", "sm_90", "compute_90"],
}
SANE: Record = {
    "environment": {"OMP_NUM_THREADS": "8", "NCCL_DEBUG": "WARN"},
    "torch_settings": HEALTHY,
    "cores": {"usable": 8, "local_ranks": 1},
    "device": {"compute_capability": "9.0"},
    "versions": {"cuda": "12.4", "driver_cuda": "12.8"},
    "dataloader": {"num_workers": 0},
    "infiniband_devices": 8,
    "slurm": {"SLURM_NNODES": "1"},
    "python_traced_by": "nothing",
    "training_arguments": {"skip_memory_metrics": True},
    "optimizer": {"groups": 2},
}
CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_cudnn"


@dataclass(frozen=True)
class Set:
    """A fault as the rule of its name answers it: what the record holds of it, and the job of rank 0."""

    severity: Severity
    record: Record
    patch: Patch | None = None
    job: Trace | None = None


def with_(**changes: Any) -> Record:
    """The sane record, with the changes; tables are joined."""
    joined = {
        key: {**SANE.get(key, {}), **value} if isinstance(value, Mapping) else value for key, value in changes.items()
    }
    return {**SANE, **joined}


def variable(**variables: str) -> Record:
    """The sane record with these variables set."""
    return with_(environment=variables)


def exported(**variables: Any) -> Patch:
    """A patch of the environment."""
    return Patch(target="environment", set=variables)


def exchanging(us: float, size: int = 64 * MIB) -> Trace:
    """Rank 0 of two, whose products wait for an all-reduce of `us`."""
    return steps(lambda job: job.collective("allreduce", size, us, wait=True), world=2)


def late_host(job: Trace) -> None:
    """The host comes 500 us late with the next product."""
    job.sync()
    job.cpu_op("aten::view", 500)
    job.op("aten::mm", PRODUCT, GEMM, 100)


def late_optimizer(job: Trace) -> None:
    """The host takes 500 us to come to the update, for which the GPU waits."""
    job.op("aten::mm", PRODUCT, GEMM, 1000)
    job.sync()
    with job.optimizer():
        job.host(500)
        job.op("aten::_fused_adamw_", [[512, 512]], "void multi_tensor_apply_kernel<FusedAdamMathFunctor>()", 10)


def loading(job: Trace) -> None:
    job.loader(us=2200)


CASES: Mapping[str, Set] = {
    "blocking-launches": Set(
        "critical", variable(CUDA_LAUNCH_BLOCKING="1"), exported(CUDA_LAUNCH_BLOCKING="0"), steps(late_host)
    ),
    "peer-transfers-off": Set(
        "critical", variable(NCCL_P2P_DISABLE="1"), exported(NCCL_P2P_DISABLE="0"), exchanging(600)
    ),
    "infiniband-off": Set(
        "critical",
        with_(environment={"NCCL_IB_DISABLE": "1"}, slurm={"SLURM_NNODES": "2"}),
        exported(NCCL_IB_DISABLE="0"),
        exchanging(600),
    ),
    "logged-collectives": Set("info", variable(NCCL_DEBUG="TRACE"), exported(NCCL_DEBUG="WARN"), exchanging(20, KIB)),
    "checked-collectives": Set(
        "warning",
        with_(torch_settings={"distributed_debug": "DETAIL"}),
        exported(TORCH_DISTRIBUTED_DEBUG="OFF"),
        exchanging(20, KIB),
    ),
    "one-cpu-thread": Set(
        "warning",
        with_(environment={"OMP_NUM_THREADS": "1"}, torch_settings={"threads": 1}),
        exported(OMP_NUM_THREADS=8),
        steps(loading),
    ),
    "anomaly-detection": Set("warning", with_(torch_settings={"detects_anomalies": True})),
    "traced-python": Set("critical", with_(python_traced_by="sys.settrace"), None, steps(late_host)),
    "watched-memory-peaks": Set("warning", with_(training_arguments={"skip_memory_metrics": False})),
    "many-parameter-groups": Set("critical", with_(optimizer={"groups": 200}), None, steps(late_optimizer)),
    "deterministic-algorithms": Set("info", with_(torch_settings={"deterministic": True})),
    "unsearched-convolutions": Set(
        "warning",
        SANE,
        None,
        steps(lambda job: job.op("aten::cudnn_convolution", None, CONVOLUTION, 2000)),
    ),
    "debug-build": Set("warning", with_(torch_settings={"debug_build": True})),
    "mismatched-build": Set("warning", with_(torch_settings={"gpu_code": ["sm_70", "sm_80", "compute_80"]})),
    "driver-behind-torch": Set("info", with_(versions={"driver_cuda": "12.2"})),
}
CURED = {"unsearched-convolutions": with_(torch_settings={"cudnn_benchmark": True})}  # elsewhere the sane record


def plain_job() -> Trace:
    """Healthy steps on one GPU."""
    return steps(nothing)


def blocking() -> Mapping[str, Any]:
    """Steps whose launches return 3 us after their kernel has ended, as a trace without a record has them."""
    trace = alone()
    ended = {e["args"]["correlation"]: e["ts"] + e["dur"] for e in _kernels(trace)}
    for event in trace["traceEvents"]:
        if str(event.get("name")).startswith("cudaLaunchKernel"):
            event["dur"] = ended[event["args"]["correlation"]] + 3 - event["ts"]
    return trace


def alone() -> Mapping[str, Any]:
    """Steps of kernels of which each has ended before the next is launched."""
    job = Trace()
    for _ in range(5):
        with job.step():
            for _ in range(10):
                healthy(job)
                job.now = max(job.stream_end.values()) + 10_000
    trace: dict[str, Any] = job.json()
    return trace


def _kernels(trace: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
