"""Kineto's words: event categories (older spellings included) and the names of ranges that mean something."""

GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
RUNTIME = ("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "privateuse1_runtime")
OPS = ("cpu_op", "operator")
ANNOTATIONS = ("user_annotation", *OPS)
PYTHON = ("python_function",)

COMMUNICATION_RANGES = r"gloo:|mpi:|ucc:"
DATA_WAIT = r"enumerate\(DataLoader\)#|diagnose\.data_wait"
LOGGING = r"diagnose\.(log|eval|save)|## log"
CLIP = r"diagnose\.clip"
OPTIMIZER_STEP = r"Optimizer\.step#|diagnose\.optimizer"

DEVICE_ALLOCATION = (
    r"(cuda|hip)(Malloc|Free|MallocAsync|FreeAsync)$"
    r"|cuMem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|AddressReserve)"
)
HOST_ALLOCATION = r"(cuda|hip)(HostAlloc|HostFree|MallocHost|FreeHost|HostMalloc|HostRegister|HostUnregister)"
SYNCHRONISATION = r"(cuda|hip)(Stream|Device|Event)Synchronize|cuStreamSynchronize|cuCtxSynchronize|cuEventSynchronize"
