"""Classify operators on a host without a GPU by their names, with the table `data/operator_kinds.toml`."""

import re
from functools import cache, cached_property, lru_cache
from pathlib import Path

import msgspec

_TABLE = Path(__file__).parents[1] / "data" / "operator_kinds.toml"
_MOST_NAMES = 65536  # remembered; a trace holds some thousands
_OVERLOAD = re.compile(r"(?<=\w)\.\w+$")


class OperatorKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A row of the table: the operators whose whole name matches, what they do, and the cause that they count in."""

    kind: str
    cause: str
    pattern: str
    examples: tuple[str, ...]

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern, compiled."""
        return re.compile(self.pattern)


class OperatorKindTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rows of `operator_kinds.toml`, in order."""

    kind: tuple[OperatorKind, ...]


@cache
def table() -> OperatorKindTable:
    """The table of kinds, read once."""
    return msgspec.toml.decode(_TABLE.read_bytes(), type=OperatorKindTable)


@lru_cache(_MOST_NAMES)
def kind_of(name: str) -> OperatorKind | None:
    """The kind of an operator; None for ranges, functions of autograd and what else is no operator."""
    plain = _OVERLOAD.sub("", name)
    return next((row for row in table().kind if row.expression.fullmatch(plain)), None)
