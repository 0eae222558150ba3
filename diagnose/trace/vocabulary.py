"""Kineto's words: event categories (older spellings included) and the names of ranges that mean something."""

import re

from diagnose.probes import protocol

GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
RUNTIME = ("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "privateuse1_runtime")
OPS = ("cpu_op", "operator")
ANNOTATIONS = ("user_annotation", *OPS)
PYTHON = ("python_function",)

COMMUNICATION_RANGES = r"gloo:|mpi:|ucc:"
STEP_MARKS = ("ProfilerStep", protocol.STEP_RANGE)
STEP_MARK = "|".join(map(re.escape, STEP_MARKS))
DATA_WAIT = rf"enumerate\(DataLoader\)#|{re.escape(protocol.DATA_WAIT_RANGE)}"
SAVE, EVAL, CLIP = (re.escape(name) for name in (protocol.SAVE_RANGE, protocol.EVAL_RANGE, protocol.CLIP_RANGE))
LOGGING = rf"{re.escape(protocol.LOG_RANGE)}|{EVAL}|{SAVE}|## log"
BACKWARD = r"autograd::engine::evaluate_function"  # what autograd's engine calls, one after the other
OPTIMIZER_STEP = rf"Optimizer\.step#|{re.escape(protocol.OPTIMIZER_RANGE)}"

DEVICE_ALLOCATION = (
    r"(cuda|hip)(Malloc|Free|MallocAsync|FreeAsync)$"
    r"|cuMem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|AddressReserve)"
)
HOST_ALLOCATION = r"(cuda|hip)(HostAlloc|HostFree|MallocHost|FreeHost|HostMalloc|HostRegister|HostUnregister)"
SYNCHRONISATION = r"(cuda|hip)(Stream|Device|Event)Synchronize|cuStreamSynchronize|cuCtxSynchronize|cuEventSynchronize"
