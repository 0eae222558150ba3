"""JSON Schema of what is written as a kind of value: a kind may read more than it lets anyone write."""

from collections.abc import Callable
from typing import Any, TypeVar

Schema = dict[str, Any]
_Kind = TypeVar("_Kind", bound=Callable[..., Any])


def schema_of(kind: Callable[..., Any]) -> Schema:
    """The schema that the kind was given; one of anything if it has none."""
    written: Callable[[], Schema] = getattr(kind, "written", dict)
    return written()


def written_as(written: Callable[[], Schema]) -> Callable[[_Kind], _Kind]:
    """Gives a kind its schema, which is made where it is asked for: most kinds only ever read."""

    def given(kind: _Kind) -> _Kind:
        kind.written = written  # type: ignore[attr-defined]
        return kind

    return given


def or_null(schema: Schema) -> Schema:
    """The schema that also allows null."""
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if "type" not in schema:
        return schema
    types = schema["type"]
    return {**schema, "type": [*(types if isinstance(types, list) else [types]), "null"]}


def within(type_: str, low: float | None, high: float | None) -> Schema:
    """The schema of numbers from `low` to `high`; None is no bound."""
    bounds = {"minimum": low, "maximum": high}
    return {"type": type_, **{name: bound for name, bound in bounds.items() if bound is not None}}


def array(items: Schema, least: int = 0, most: int | None = None) -> Schema:
    """The schema of a list of `least` to `most` entries."""
    counts = {"minItems": least or None, "maxItems": most}
    return {"type": "array", "items": items, **{name: count for name, count in counts.items() if count is not None}}
