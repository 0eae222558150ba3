"""Variables and settings of torch left over from debugging, or made for other machines: what slows a job in silence."""

import numpy as np

from diagnose.attribution.causes import OPERATORS, OPTIMIZER_OPERATORS
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.data.loader import loader_workers
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_RECORD
from diagnose.ranks.network.ports import rdma_devices
from diagnose.trace.vocabulary import BACKWARD_CALL, OPS

UNTOLD = Unknown("the capture record does not say how the process is set", DIAGNOSE_RUN)
_NO_LONG_KERNELS = Unknown(
    "too few kernels are long enough to tell whether their launches wait for them",
    another_run("capture with diagnose run, whose record has the variables"),
)
_CLOCKS_DISAGREE = Unknown(
    "kernels begin before their launches do: the clocks of host and GPU disagree, so when a kernel ended is not known",
    another_run("capture with diagnose run, whose record has the variables"),
)
_BLOCKING = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL")
_LONG_NS = 20_000  # of a kernel: no launch takes as long by itself
_LEAST_KERNELS = 20
_MOST_OF = 0.95
_CHECK = r"aten::_is_any_true$"  # autograd's look for NaN, once after each of its functions


def variable(m: Measured, name: str) -> str | Unknown | None:
    """The value of a variable that the capture records; None if it is not set."""
    if not m.record:
        return NO_RECORD
    return m.record.text(f"environment.{name}") if isinstance(m.record.get("environment"), dict) else UNTOLD


def switched_on(m: Measured, *names: str) -> Value:
    """Whether one of the variables holds something other than 0."""
    for name in names:
        value = variable(m, name)
        if isinstance(value, Unknown):
            return value
        if value not in (None, "0"):
            return True
    return False


def setting(m: Measured, name: str) -> Value:
    """A flag of torch in the process, by the record."""
    value = m.record.flag(f"torch_settings.{name}")
    return value if value is not None else UNTOLD if m.record else NO_RECORD


@metric("flag", needs_gpu=False)
def launches_block(m: Measured) -> Value:
    """Whether each launch waits for its kernel: by CUDA_LAUNCH_BLOCKING and its like, else by launches of kernels of
    20 us and more, which begin before these and return after they have ended.
    """
    told = switched_on(m, *_BLOCKING)
    if not isinstance(told, Unknown):
        return told
    if m.without_gpu is not None:
        return m.device_unseen or False
    gpu = m.timeline.gpu
    launched = m.kernels & (gpu.launch >= 0)
    lasted = gpu.end - gpu.start
    waited = (gpu.end <= gpu.launch_end) & (lasted <= gpu.launch_end - gpu.launch_start)
    few = (1 - _MOST_OF) * np.count_nonzero(launched)
    if np.count_nonzero(launched & ~waited) > few:
        return False
    if m.timeline.clock_shift_ns is not None or np.count_nonzero(launched & (gpu.start < gpu.launch_start)) > few:
        return _CLOCKS_DISAGREE
    return True if np.count_nonzero(launched & waited & (lasted >= _LONG_NS)) >= _LEAST_KERNELS else _NO_LONG_KERNELS


@metric("flag", needs_gpu=False)
def peer_transfers_off(m: Measured) -> Value:
    """Whether NCCL is forbidden to copy from GPU to GPU of one node (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL=LOC)."""
    level = variable(m, "NCCL_P2P_LEVEL")
    return switched_on(m, "NCCL_P2P_DISABLE") if level not in ("LOC", "0") else True


@metric("flag", needs_gpu=False)
def infiniband_off(m: Measured) -> Value:
    """Whether NCCL is kept off InfiniBand and RoCE (NCCL_IB_DISABLE, NCCL_NET=Socket)."""
    return switched_on(m, "NCCL_IB_DISABLE") if variable(m, "NCCL_NET") != "Socket" else True


@metric("count", needs_gpu=False)
def infiniband_devices(m: Measured) -> Value:
    """Devices of InfiniBand or RoCE of the host with a port that is up."""
    listed = rdma_devices(m.record)
    return listed if listed is not None else UNTOLD if m.record else NO_RECORD


@metric("flag", needs_gpu=False)
def collectives_are_logged(m: Measured) -> Value:
    """Whether NCCL writes a line for each call: NCCL_DEBUG=TRACE, or INFO and such a NCCL_DEBUG_SUBSYS."""
    level, parts = variable(m, "NCCL_DEBUG"), variable(m, "NCCL_DEBUG_SUBSYS")
    if isinstance(level, Unknown) or isinstance(parts, Unknown):
        return level if isinstance(level, Unknown) else UNTOLD
    by_call = {"COLL", "P2P", "CALL", "ALL", "PROXY"}
    return level == "TRACE" or (level == "INFO" and not by_call.isdisjoint((parts or "").upper().split(",")))


@metric("flag", needs_gpu=False)
def collectives_are_checked(m: Measured) -> Value:
    """Whether torch compares each collective over the ranks before it runs (TORCH_DISTRIBUTED_DEBUG=DETAIL)."""
    level = m.record.text("torch_settings.distributed_debug")
    if level is None and variable(m, "TORCH_DISTRIBUTED_DEBUG") == "DETAIL":
        return True
    return level == "DETAIL" if level is not None else UNTOLD if m.record else NO_RECORD


@metric("flag", needs_gpu=False)
def detects_anomalies(m: Measured) -> Value:
    """Whether autograd looks for NaN after each of its functions (torch.autograd.set_detect_anomaly): by the record,
    else by these looks.
    """
    told = setting(m, "detects_anomalies")
    functions = len(m.timeline.rows_matching(BACKWARD_CALL, *OPS))
    if told is True or not functions:
        return told
    return len(m.timeline.rows_matching(_CHECK, *OPS)) >= 0.5 * functions


@metric("text", needs_gpu=False)
def python_tracers(m: Measured) -> Value:
    """Tools that Python calls for each allocation, call or line of the training thread, or "nothing"."""
    return m.recorded(m.record.text("python_traced_by"))


@metric("flag", needs_gpu=False)
def cpu_vectors_unused(m: Measured) -> Value:
    """Whether a step without a GPU uses no vector instructions beyond the baseline, on a CPU that has AVX2."""
    if m.record and m.timeline.has_gpu:
        return False
    used, has = m.record.text("torch_settings.cpu_vectors"), setting(m, "cpu_has_avx2")
    return has if isinstance(has, Unknown) else m.recorded(used) if used is None else has and used == "DEFAULT"


@metric("flag", needs_gpu=False)
def deterministic(m: Measured) -> Value:
    """Whether torch may only run deterministic algorithms (torch.use_deterministic_algorithms, cudnn.deterministic)."""
    everywhere = setting(m, "deterministic")
    return everywhere if everywhere is True else setting(m, "cudnn_deterministic")


@metric("flag", needs_gpu=False)
def searches_convolutions(m: Measured) -> Value:
    """Whether cuDNN times its algorithms for each size of a convolution (torch.backends.cudnn.benchmark)."""
    return setting(m, "cudnn_benchmark")


@metric("count", needs_gpu=False)
def omp_threads(m: Measured) -> Value:
    """Threads that OMP_NUM_THREADS allows."""
    text = variable(m, "OMP_NUM_THREADS")
    if isinstance(text, Unknown):
        return text
    if text is None or not text.isdecimal():
        return Unknown("OMP_NUM_THREADS is not set", nothing_helps("torch takes a thread for each core"))
    return int(text)


@metric("count", needs_gpu=False)
def cpu_threads(m: Measured) -> Value:
    """CPU threads that an operator may use: torch.get_num_threads(), else OMP_NUM_THREADS."""
    threads = m.record.number("torch_settings.threads")
    return threads if threads is not None else omp_threads(m)


@metric("share", STEP, needs_gpu=False)
def cpu_work_share(m: Measured) -> Value:
    """Work of the training process that further CPU threads may share: loading without workers, and without a GPU the
    operators.
    """
    workers = loader_workers(m)
    loading = m.share("data-wait") if workers == "none" else 0.0
    if isinstance(workers, Unknown) and m.share("data-wait"):
        return workers
    return loading if m.timeline.has_gpu else loading + m.share(*OPERATORS, OPTIMIZER_OPERATORS)
