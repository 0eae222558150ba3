"""Kineto's words: event categories (older spellings included) and the names of ranges that mean something.

A category of a device begins with its name: "cuda_runtime", "mtia_ccp_events", "hpu_op". Those of CUDA and ROCm are
understood, and so are those of XPU, whose calls are Unified Runtime's, before them PI's, and Level Zero's; the others
are named and counted, and no more, since their calls and activities have names of their own, unless their kernels are
in Kineto's own category, which needs no more.
"""

import re

from diagnose.probes import protocol
from diagnose.probes.frameworks import FRAMEWORKS

GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
RUNTIME = (
    *("cuda_runtime", "cuda_driver", "runtime", "driver"),
    *("xpu_runtime", "xpu_driver", "privateuse1_runtime", "privateuse1_driver"),
)
OPS = ("cpu_op", "operator")
RANGES = ("user_annotation",)
ANNOTATIONS = (*RANGES, *OPS)
PYTHON = ("python_function",)
OF_WATCHING = ("overhead", "cuda_sync", "cuda_event", "cuda_profiler_range")  # written where the GPU is recorded
_OTHERS = ("gpu_user_annotation", "collective_comm", *OF_WATCHING)
_OF_TORCH = frozenset((*GPU_CATEGORIES, *RUNTIME, *ANNOTATIONS, *PYTHON, *_OTHERS))
_OF_UNKNOWN_DEVICE = re.compile(
    r"(?!cuda_|hip_|gpu_|cpu_|python_)[a-z]\w*_(runtime|driver|ccp_events|memcpy|memset|insight|workloadd)|hpu_op"
)
_OF_ASCEND = ("enqueue", "dequeue")  # of torch_npu's host, whose activities on the device have no category at all

COMMUNICATION_RANGES = r"gloo:|mpi:|ucc:"
COLLECTIVE_RANGES = rf"nccl:|rccl:|xccl:|hccl:|cncl:|{COMMUNICATION_RANGES}"
EXCHANGES = re.compile(rf"{COLLECTIVE_RANGES}|c10d::|record_param_comms|deepspeed|horovod", re.IGNORECASE)  # of ranks
TORCH_RANGES = (  # ranges that torch opens by itself
    r"Optimizer\.|enumerate\(Data(Loader|Pipe)\)|(Distributed|FullySharded)?DataParallel\.|FSDP::|torch[.:]"
    r"|.* \(dynamo_timed\)|Torch-Compiled Region"
    r"|TorchDynamo|Compiled(Fx|AOT)|CompiledFunction|AOTDispatcher|Pregraph|Inductor|## "
    r"|PyTorch Profiler"
)
STEP_MARKS = ("ProfilerStep", protocol.STEP_RANGE)
STEP_MARK = "|".join(map(re.escape, STEP_MARKS))
NO_OPERATOR = rf"{TORCH_RANGES}|{STEP_MARK}"  # old traces spell ranges as operators
_FETCHES = "".join(f"{each.fetches}|" for each in FRAMEWORKS if each.fetches)
DATA_WAIT = rf"enumerate\(Data(Loader|Pipe)\)#|{_FETCHES}{re.escape(protocol.DATA_WAIT_RANGE)}"
SAVE, EVAL, CLIP = (re.escape(name) for name in (protocol.SAVE_RANGE, protocol.EVAL_RANGE, protocol.CLIP_RANGE))
LOGGING = rf"{re.escape(protocol.LOG_RANGE)}|{EVAL}|{SAVE}|## log"
BACKWARD = r"autograd::engine::evaluate_function"  # functions that autograd's engine calls, one after the other
BACKWARD_CALL = f"{BACKWARD}: "
ACCUMULATES = r"torch::autograd::AccumulateGrad$"  # of one weight, once in a backward pass
AUTOGRAD = (
    rf"(?:{BACKWARD}: )?(?:\w+Backward\d+|torch::autograd::\w+)$"  # nodes of torch; those of the user's have no number
)
REDUCER = r"torch\.distributed\.ddp\.reducer::|torch::distributed::reducer::"
OPTIMIZER_STEP = rf"Optimizer\.step#|{re.escape(protocol.OPTIMIZER_RANGE)}"

DEVICE_ALLOCATION = (
    r"(cuda|hip)(Malloc|Free|MallocAsync|FreeAsync)(_v\d+)?$"
    r"|cuMem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|AddressReserve)"
    r"|urUSM(DeviceAlloc|SharedAlloc|Free)|zeMem(AllocDevice|AllocShared|Free)"
)
HOST_ALLOCATION = (
    r"(cuda|hip)(HostAlloc|HostFree|MallocHost|FreeHost|HostMalloc|HostRegister|HostUnregister)"
    r"|urUSMHostAlloc|zeMemAllocHost"
)
COPY_CALL = r"(cuda|hip)Memcpy|cuMemcpy|urEnqueue(USM)?Mem|piextUSMEnqueueMemcpy"
GRAPH_LAUNCH = r"(cuda|hip)GraphLaunch|cuGraphLaunch"
READ_BACK = r"aten::(item|_local_scalar_dense|is_nonzero)$"
SYNCHRONISATION = (
    r"(cuda|hip)(Stream|Device|Event)Synchronize|cuStreamSynchronize|cuCtxSynchronize|cuEventSynchronize"
    r"|(ur|pi)(QueueFinish|EventWait|EventsWait)|ze(EventHost|FenceHost|CommandQueue|CommandListHost)Synchronize"
)


def is_of_unknown_device(category: str) -> bool:
    """Whether events of the category are of a device other than CUDA's and ROCm's."""
    return category.lower() in _OF_ASCEND or _OF_UNKNOWN_DEVICE.fullmatch(category.lower()) is not None


def is_of_torch(category: str) -> bool:
    """Whether torch's profiler writes this category, and hardly another tool does."""
    return category.lower() in _OF_TORCH or _OF_UNKNOWN_DEVICE.fullmatch(category.lower()) is not None
