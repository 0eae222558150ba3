"""The record of one operator call in a trace: its name, and the sizes, types and values of its arguments.

A tensor argument has its sizes in `dims` and its element type in `types`; a list of tensors has a list of sizes and the
type "TensorList", so the element type of its tensors is not recorded. Scalars, lists of numbers and absent arguments
have no sizes. `concrete` holds scalars as text; PyTorch before 2.0 does not record it.
"""

import json
from math import prod
from typing import Any

import msgspec

from diagnose.decoding import finite
from diagnose.trace.arguments import MOST_ELEMENTS, listed

Dims = list[Any]
Json = bytes

ITEM_BYTES = {
    "double": 8,
    "float": 4,
    "c10::Half": 2,
    "at::Half": 2,
    "c10::BFloat16": 2,
    "at::BFloat16": 2,
    "long int": 8,
    "long": 8,
    "long long": 8,
    "__int64": 8,
    "int64_t": 8,
    "unsigned long": 8,
    "int": 4,
    "unsigned int": 4,
    "short int": 2,
    "short": 2,
    "unsigned short": 2,
    "signed char": 1,
    "unsigned char": 1,
    "char": 1,
    "bool": 1,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
    "c10::Float8_e8m0fnu": 1,
    "c10::Float4_e2m1fn_x2": 1,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}
PRECISIONS = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "at::Half": "fp16",
    "c10::BFloat16": "bf16",
    "at::BFloat16": "bf16",
}
SCALAR_TYPE_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 11: 1, 15: 2, 23: 1, 24: 1}
"""Bytes of an element by c10::ScalarType, as `dtype` arguments record it."""


class OperatorCall(msgspec.Struct, frozen=True):
    """One operator call. `item` is the bytes of an element of its tensor lists as its kernel names them, 0 unknown."""

    name: str
    dims: Dims
    types: tuple[str, ...]
    concrete: tuple[Any, ...]
    item: int = 0

    def sizes(self, at: int) -> list[int]:
        """Sizes of tensor argument `at`; empty for scalars, lists of tensors and what is not there."""
        return [] if at >= len(self.dims) or self.is_list(at) else self.dims[at]

    def is_tensor(self, at: int) -> bool:
        """Whether argument `at` is a tensor whose element type is known."""
        return at < len(self.dims) and at < len(self.types) and self.types[at] in ITEM_BYTES

    def is_list(self, at: int) -> bool:
        """Whether argument `at` is a list of tensors with recorded sizes."""
        sizes = self.dims[at] if at < len(self.dims) else []
        return bool(sizes) and isinstance(sizes[0], list)

    def item_bytes(self, at: int) -> int:
        """Bytes of one element of tensor argument `at`; ValueError when its type is not known."""
        if not self.is_tensor(at):
            raise ValueError(f"argument {at} of {self.name} has no element type")
        return ITEM_BYTES[self.types[at]]

    def size_bytes(self, at: int) -> float:
        """Bytes of tensor argument `at`; of a list of tensors, their sum."""
        if self.is_list(at):
            if not self.item:
                raise ValueError(f"the element type of the lists of {self.name} is not recorded")
            return float(self.item * sum(prod(sizes) for sizes in self.dims[at]))
        return float(prod(self.dims[at]) * self.item_bytes(at))

    def scalar(self, at: int) -> Any:
        """The recorded value of scalar argument `at`: a flag, a number, or a list of these; None when not recorded."""
        text = self.concrete[at] if 0 <= at < len(self.concrete) else ""
        if not text:
            return None
        try:
            value = json.loads(text.lower())
        except (ValueError, RecursionError):
            return None
        if isinstance(value, list):
            return value if all(_is_value(each) for each in value) else None
        return value if _is_value(value) else None

    @property
    def precision(self) -> str:
        """Floating-point precision of the first tensor argument with sizes, "" when there is none."""
        pairs = zip(self.types, self.dims, strict=False)
        return next((PRECISIONS[t] for t, sizes in pairs if sizes and t in PRECISIONS), "")


def call_of(name: str, shape: tuple[Json, Json, Json], item: int = 0) -> OperatorCall:
    """The call of operator `name` with a row of `Trace.shapes`."""
    dims, types, concrete = map(listed, shape)
    return OperatorCall(name, dims, tuple(types), tuple(concrete), item)


def _is_value(value: object) -> bool:
    return isinstance(value, bool) or finite(value, -MOST_ELEMENTS, MOST_ELEMENTS) is not None
