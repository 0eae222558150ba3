"""Names of collectives, properties of their kinds, and widths of their elements."""

from functools import lru_cache

SYMMETRIC = ("allreduce", "allgather", "reducescatter", "alltoall")  # no rank can end before all have begun
SAME_SIZE = ("allreduce", "allgather", "reducescatter", "broadcast")  # the whole message is as large on every rank
SEND_RECEIVE = "sendrecv"
UNKNOWN_KINDS = ("generic", "collective")  # the name does not say which
_ITEM_BYTES = (
    dict.fromkeys(("int8", "uint8", "byte", "char", "bool"), 1)
    | dict.fromkeys(("half", "bfloat16", "float16", "short", "int16"), 2)
    | dict.fromkeys(("int", "float", "float32", "int32", "uint32"), 4)
    | dict.fromkeys(("long", "double", "int64", "float64", "uint64"), 8)
)


def plain_kind(kind: str) -> str:
    """The kind without the dimensions that follow it if there are no fields."""
    return kind.partition(" ")[0]


def is_unknown(kind: str) -> bool:
    """Whether the kind leaves open what the ranks do."""
    return plain_kind(kind) in UNKNOWN_KINDS


@lru_cache(1024)
def itemsize(dtype: str) -> int:
    """Bytes of an element of a type as NCCL or torch names it; 0 when the name is unknown."""
    name = plain_dtype(dtype)
    return _ITEM_BYTES.get(name, 1 if "float8" in name else 0)


@lru_cache(1024)
def plain_dtype(dtype: str) -> str:
    """`c10::BFloat16` and `torch.bfloat16` are both "bfloat16"."""
    return dtype.lower().removeprefix("c10::").removeprefix("torch.")
