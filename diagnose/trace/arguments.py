"""The recorded arguments of operator calls as JSON of known form: sizes a tensor can have, types and values as text.

Arguments of another form count as not recorded. Valid JSON stays as it is, byte for byte.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from math import prod
from typing import Annotated, Any

import msgspec

from diagnose.decoding import encodable
from diagnose.trace.columns import Json

MOST_ELEMENTS = 1 << 44  # of a tensor; no memory holds as many
_MOST_ARGUMENTS = 4096
_LONGEST_VALUE = 65_536

Size = Annotated[int, msgspec.Meta(ge=0, le=MOST_ELEMENTS)]
_decode_sizes = msgspec.json.Decoder(list[list[Size | list[Size]]]).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode
_UNREADABLE = (ValueError, RecursionError)


@lru_cache(maxsize=65536)
def listed(raw: Json) -> list[Any]:
    """The list that one of the columns of `Trace.shapes` holds, "" none; not to be changed."""
    return msgspec.json.decode(raw) if raw else []


@lru_cache(maxsize=65536)
def tensor_sizes(raw: Json) -> tuple[tuple[int, ...], ...]:
    """Sizes of the tensor arguments that a column of sizes holds; scalars and lists of tensors are left out."""
    return tuple(tuple(sizes) for sizes in listed(raw) if sizes and isinstance(sizes[0], int))


@lru_cache(maxsize=65536)
def tensor_elements(raw: Json) -> int:
    """Elements of all tensors in a column of sizes, those in lists included; scalars have none."""
    return sum(_elements_of(sizes) for sizes in listed(raw))


def _elements_of(sizes: list[Any]) -> int:
    in_list = bool(sizes) and isinstance(sizes[0], list)
    return sum(map(_elements_of, sizes)) if in_list else prod(sizes) if sizes else 0


class Arguments:
    """Decodes rows of (sizes, types, values); `damaged` counts the rows in which something was left out."""

    def __init__(self) -> None:
        self.damaged = 0
        self._sizes: dict[Json, Json] = {}
        self._texts: dict[Json, Json] = {}

    def decoded(self, rows: Iterable[tuple[Json, Json, Json]]) -> tuple[tuple[Json, Json, Json], ...]:
        """The rows, what cannot be left out of them."""
        return tuple(self._row(row) for row in rows)

    def _row(self, row: tuple[Json, Json, Json]) -> tuple[Json, Json, Json]:
        dims, types, concrete = row
        if dims not in self._sizes:
            self._sizes[dims] = _sizes(dims)
        if types not in self._texts:
            self._texts[types] = _texts(types)
        decoded = (self._sizes[dims], self._texts[types], _texts(concrete))
        self.damaged += decoded != row
        return decoded


def _sizes(raw: Json) -> Json:
    """The sizes as they are, or again with an empty list for each argument that has none."""
    if not raw:
        return raw
    try:
        decoded: Any = _decode_sizes(raw)
        if len(decoded) <= _MOST_ARGUMENTS and all(map(_sound, decoded)):
            return raw
    except _UNREADABLE:
        decoded = _loosely(raw)
    return json.dumps([sizes if _sound(sizes) else [] for sizes in decoded[:_MOST_ARGUMENTS]]).encode()


def _sound(sizes: Any) -> bool:
    """Whether these are the sizes of a tensor, or of each in a list of tensors."""
    if not isinstance(sizes, list):
        return False
    tensors = sizes if sizes and isinstance(sizes[0], list) else [sizes]
    return sum(map(_elements, tensors)) <= MOST_ELEMENTS


def _elements(sizes: Any) -> int:
    if not isinstance(sizes, list) or not all(type(n) is int and 0 <= n <= MOST_ELEMENTS for n in sizes):
        return MOST_ELEMENTS + 1
    return prod(sizes) if len(sizes) < 64 else MOST_ELEMENTS + 1


def _texts(raw: Json) -> Json:
    if not raw:
        return raw
    try:
        decoded: Any = _decode_texts(raw)
        if len(decoded) <= _MOST_ARGUMENTS and all(len(text) <= _LONGEST_VALUE for text in decoded):
            return raw
    except _UNREADABLE:
        decoded = _loosely(raw)
    texts = (t if isinstance(t, str) and len(t) <= _LONGEST_VALUE else "" for t in decoded[:_MOST_ARGUMENTS])
    return json.dumps([encodable(t) for t in texts]).encode()


def _loosely(raw: Json) -> list[Any]:
    try:
        decoded = json.loads(raw)
    except _UNREADABLE:
        return []
    return decoded if isinstance(decoded, list) else []
