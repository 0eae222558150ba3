"""Classify kernels by their names, with the table `data/kernel_names.toml`.

The operation is found first, and the precision separately: `fused_rope_bf16_kernel` is not a product just because it
names a type. Template arguments mislead (`fbgemm` contains "gemm", routing kernels carry `cutlass::bfloat16_t`), so the
order of the rows counts. Prefixes such as `ampere_` name the generation of the code, not the GPU.
"""

import re
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

_TABLE = Path(__file__).parents[1] / "data" / "kernel_names.toml"
_MOST_NAMES = 65536  # remembered; a trace holds some thousands

COMPUTE_FAMILIES = frozenset({"gemm", "conv", "attention"})
COMMUNICATION = "comm"
AUXILIARY, VECTOR = "auxiliary", "vector"  # tags of kernels of a matrix family that multiply no two matrices


class Kind(NamedTuple):
    """The work of a kernel.

    Attributes:
        family: "gemm", "conv", "attention", "norm", "comm", ...; "other" if no row of the table matches.
        sub: the kernel within the family; the family again if the table does not divide it.
        tensor_core: whether tensor cores do the work of a matrix kernel; None if the name does not show it.
        precision: type in which a matrix kernel computes: "bf16", "fp16", "tf32", "fp32", "fp64", "fp8", "fp4" or
            "int8"; "" if the name does not show it. "" for other kernels, too: the types in their names are those of
            their data.
        tags: properties that single metrics need, such as "flash-2"; the table lists them.
    """

    family: str
    sub: str
    tensor_core: bool | None = None
    precision: str = ""
    tags: frozenset[str] = frozenset()


class KernelNameRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A row of the table.

    It matches names in which `pattern` is found and `without` is not, and which lie in the namespace `within`.
    """

    pattern: str
    examples: tuple[str, ...]
    within: str = ""
    without: str = ""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern, compiled."""
        return re.compile(self.pattern)

    @cached_property
    def exception(self) -> re.Pattern[str] | None:
        """The compiled pattern that must not occur; None if the row makes no exception."""
        return re.compile(self.without) if self.without else None

    @cached_property
    def mangled(self) -> str:
        """The namespace as compilers mangle it: "2at6native" for "at::native"."""
        return "".join(f"{len(part)}{part}" for part in self.within.split("::") if part)

    def search(self, name: str) -> re.Match[str] | None:
        """The match of the row in this name, None if it does not match."""
        match = self.expression.search(name) if self.within in name or self.mangled in name else None
        return None if match and self.exception and self.exception.search(name) else match


class Operation(KernelNameRow, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The work of the kernels with a matching name, in the fields of `Kind`."""

    family: str
    sub: str = ""
    tensor_cores: bool | None = None
    tags: frozenset[str] = frozenset()


class KernelPrecision(KernelNameRow, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The type in which matrix kernels with a matching name compute, and whether tensor cores do the work."""

    precision: str
    tensor_cores: bool | None = None


class Element(KernelNameRow, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The type of the data in a name, "" if the name only gives its size, and the bytes of an element."""

    type: str
    bytes: int


class Collective(KernelNameRow, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The collective that kernels and annotations of a name run."""

    kind: str


class KernelNameTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sections of `kernel_names.toml`, their rows in order."""

    operation: tuple[Operation, ...]
    precision: tuple[KernelPrecision, ...]
    element: tuple[Element, ...]
    collective: tuple[Collective, ...]


AnyRow = TypeVar("AnyRow", bound=KernelNameRow)


@cache
def table() -> KernelNameTable:
    """The table of kernel names, read once."""
    return msgspec.toml.decode(_TABLE.read_bytes(), type=KernelNameTable)


@lru_cache(_MOST_NAMES)
def classify(name: str) -> Kind:
    """The kind of the kernel called `name`; `Kind("other", "other")` when no row matches."""
    row = first_match(table().operation, name)
    if row is None:
        return Kind("other", "other")
    kind = Kind(row.family, row.sub or row.family, row.tensor_cores, "", row.tags)
    if row.family not in COMPUTE_FAMILIES:
        return kind
    told = first_match(table().precision, name)
    if told is None:
        return kind
    tensor_core = told.tensor_cores if row.tensor_cores is None else row.tensor_cores
    return kind._replace(precision=told.precision, tensor_core=tensor_core)


@lru_cache(_MOST_NAMES)
def element_type(name: str) -> str:
    """The type of a kernel's data as torch names it ("bfloat16", "float"), by the leftmost in its name; "" unknown."""
    row = leftmost_match(table().element, name)
    return row.type if row else ""


@lru_cache(_MOST_NAMES)
def element_bytes(name: str) -> int:
    """Bytes of an element of a kernel's data, by the leftmost type in its name; 0 unknown."""
    row = leftmost_match(table().element, name)
    return row.bytes if row else 0


@lru_cache(_MOST_NAMES)
def collective_kind(name: str) -> str:
    """The collective of a kernel or an annotation, such as "allreduce"; "collective" if its name does not show it."""
    row = leftmost_match(table().collective, name.lower())
    return row.kind if row else "collective"


def first_match(rows: Sequence[AnyRow], name: str) -> AnyRow | None:
    """The first of the rows that matches the name."""
    return next((row for row in rows if row.search(name)), None)


def leftmost_match(rows: Sequence[AnyRow], name: str) -> AnyRow | None:
    """The row that matches furthest to the left in the name; of several there, the first."""
    matches = [(match.start(), at) for at, row in enumerate(rows) if (match := row.search(name))]
    return rows[min(matches)[1]] if matches else None


def multiplies_in(kind: Kind, *precisions: str) -> bool:
    """Whether kernels of this kind are matrix products, convolutions or attention in one of the precisions.

    Kernels that prepare or finish their work do not count, nor do products of a matrix and a vector, which memory
    bounds.
    """
    matrix = kind.family in COMPUTE_FAMILIES and kind.tags.isdisjoint((AUXILIARY, VECTOR))
    return matrix and kind.precision in precisions


def bound_by(kind: Kind) -> str:
    """`compute` for matrix, convolution and attention kernels, `memory` for all others.

    The default if there are no shapes: it cannot distinguish a memory-bound matrix product from a compute-bound one.
    """
    if kind.family == "inductor" and kind.sub == "template":
        return "compute"
    return "compute" if kind.family in COMPUTE_FAMILIES else "memory"
