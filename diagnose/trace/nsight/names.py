"""Translate names of Nsight Systems to those of torch's profiler, so that one vocabulary reads both."""

import re

GRAPH = "CUDA graph (its kernels were not recorded)"
_API_VERSION = re.compile(r"(_pt[ds][sz])?(_v\d+)?$")
_NUMBERS = re.compile(r"(?:, (?:seq|op_id) = \d+)+(?:, (?:sizes|input_op_ids) = .*)?$|, sizes = \[.*$", re.DOTALL)
_OPERATOR = re.compile(r"[\w.]+(::[\w.]+)*(: \w+)?")
_CAST_NUMBER = re.compile(r"\((?:unsigned |signed )?(?:char|short|int|long|long long|size_t|std::\w+)\)(?=-?\d)")
_CAST_FLAG = re.compile(r"\(bool\)([01])")
_LAMBDA = re.compile(r"\[lambda(\([^][]*\)) \(instance (\d+)\)\]")
_COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD",  # 11 to 13 move pages of managed memory
    12: "DtoH",
    13: "DtoD",
}
_MEMORY_KINDS = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")
_SYNCHRONISATIONS = {
    1: "Event Synchronize",
    2: "Stream Wait Event",
    3: "Stream Synchronize",
    4: "Context Synchronize",
}


def kernel(name: str) -> str:
    """A demangled kernel name as Kineto demangles it: `f<(int)4, (bool)1>` is `f<4, true>`."""
    plain = _CAST_FLAG.sub(lambda flag: "true" if flag[1] == "1" else "false", _CAST_NUMBER.sub("", name))
    return _LAMBDA.sub(r"{lambda\1#\2}", plain).replace("<unnamed>", "(anonymous namespace)")


def call(name: str) -> str:
    """A call of CUDA without the version of its interface: `cudaLaunchKernel_ptsz_v7000` is `cudaLaunchKernel`.

    A suffix without that is part of a name of the driver's: `cuCtxCreate_v2`.
    """
    return _API_VERSION.sub("", name) if name.startswith("cuda") else name


def is_runtime(name: str) -> bool:
    """Whether a call is of CUDA's runtime; else it is of the driver."""
    return name.startswith("cuda")


def range_name(text: str) -> str:
    """A range without the numbers by which torch's `emit_nvtx` distinguishes calls of an operator."""
    return _NUMBERS.sub("", text)


def is_operator(text: str) -> bool:
    """Whether a range is one of torch's operators, as `emit_nvtx` writes them; it numbers the user's ranges, too."""
    plain = range_name(text)
    return _OPERATOR.fullmatch(plain) is not None and (plain != text or plain.startswith("aten::"))


def copy(kind: int, source: int, target: int) -> str:
    """A copy as Kineto names it: `Memcpy HtoD (Pinned -> Device)`."""
    return f"Memcpy {_COPY_KINDS.get(kind, 'unknown')} ({_memory(source)} -> {_memory(target)})"


def fill(kind: int) -> str:
    """A fill as Kineto names it: `Memset (Device)`."""
    return f"Memset ({_memory(kind)})"


def synchronisation(kind: int) -> str:
    """A wait as Kineto names it."""
    return _SYNCHRONISATIONS.get(kind, "Synchronize")


def _memory(kind: int) -> str:
    return _MEMORY_KINDS[kind] if 0 <= kind < len(_MEMORY_KINDS) else "Unknown"
