"""Tables of cases by rule, as TOML."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

Case = TypeVar("Case", bound=msgspec.Struct)


def read(path: Path, kind: type[Case]) -> dict[str, list[Case]]:
    """The cases of each rule; none where there is no such file."""
    if not path.exists():
        return {}
    cases: dict[str, list[Case]] = msgspec.convert(
        tomllib.loads(path.read_text(encoding="utf-8")),
        dict[str, list[kind]],  # type: ignore[valid-type]
    )
    return cases


def written(cases: Mapping[str, Sequence[msgspec.Struct]]) -> str:
    """The table as text: a line for each case."""
    lines = []
    for rule in sorted(cases):
        lines += [f"{rule} = [", *(f"    {inline(msgspec.to_builtins(case))}," for case in cases[rule]), "]", ""]
    return "\n".join(lines)


def inline(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {inline(each)}" for key, each in value.items()) + " }" if value else "{}"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
