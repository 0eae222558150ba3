"""What a collective is called, what its kind implies, and how wide its elements are."""

import re

SYMMETRIC = ("allreduce", "allgather", "reducescatter", "alltoall")  # no rank can end before all have begun
SAME_SIZE = ("allreduce", "allgather", "reducescatter", "broadcast")  # the whole message is as large on every rank
SEND_RECEIVE = "sendrecv"
UNTOLD = ("generic", "collective")  # the name does not say which
_ALL_REDUCES = re.compile(r"cross_device_reduce|quick_?reduce")
_KIND = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all|send_?recv|reduce|barrier|generic|gather|scatter"
    r"|(?<![a-z])(?:send|recv)(?![a-z])|(?:notify_)?(?:dispatch|combine)"
)
_ITEM_BYTES = (
    dict.fromkeys(("int8", "uint8", "byte", "char", "bool"), 1)
    | dict.fromkeys(("half", "bfloat16", "float16", "short", "int16"), 2)
    | dict.fromkeys(("int", "float", "float32", "int32"), 4)
    | dict.fromkeys(("long", "double", "int64", "float64"), 8)
)
_TYPE_IN_NAME = re.compile(r"_(bf16|f16|f32|i32|u8|float|half|__nv_bfloat16)(?:_|\(|$)")
_TYPES = {"f32": "float", "f16": "half", "bf16": "bfloat16", "__nv_bfloat16": "bfloat16", "i32": "int", "u8": "byte"}


def kind_of(name: str) -> str:
    """`ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)` and `_allreduce_coalesced` are both "allreduce"."""
    plain = name.lower()
    if _ALL_REDUCES.search(plain):
        return "allreduce"
    match = _KIND.search(plain)
    kind = match[0].replace("_", "") if match else "collective"
    return SEND_RECEIVE if kind in ("send", "recv") else kind


def plain_kind(kind: str) -> str:
    """The kind without the dimensions that follow it where there are no fields."""
    return kind.partition(" ")[0]


def is_untold(kind: str) -> bool:
    """Whether the kind says nothing of what the ranks do."""
    return plain_kind(kind) in UNTOLD


def itemsize(dtype: str) -> int:
    """Bytes of an element of a type as NCCL or torch names it; 0 when the name is unknown."""
    name = plain_dtype(dtype)
    return _ITEM_BYTES.get(name, 1 if "float8" in name else 0)


def plain_dtype(dtype: str) -> str:
    """`c10::BFloat16` and `torch.bfloat16` are both "bfloat16"."""
    return dtype.lower().removeprefix("c10::").removeprefix("torch.")


def dtype_in(kernel: str) -> str:
    """The type that a kernel's name holds, "" when it holds none."""
    found = _TYPE_IN_NAME.search(kernel)
    return _TYPES.get(found[1], found[1]) if found else ""
