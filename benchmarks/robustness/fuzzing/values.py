"""Values that stand where others are expected, and the TOML they are written in."""

import json
import math
import random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, -0.0, 0.5, 1e-12, 5e-324, 1e15, 1e18, 1e19, 1e150, 1e306, -1e306, 1.7976931348623157e308, math.nan,
    math.inf, -math.inf, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64,
    10**30, -(10**30), 10**400,
)  # fmt: skip
TEXTS: tuple[str, ...] = (
    "", " ", "0", "-1", "7", "1.5", "nan", "inf", "1e306", "9" * 30, "9" * 5000, "true", "null", "[]", "[1, 2]", "{}",
    "[0, ", "\x00", "\x1b[2J", "\ud800", "\u202e", "a\nb", "[bold]x[/]", "=1+1", "%s{0}", "../..", "x" * 70_000, "٣",
    "cuda", "cpu", "float16", "aten::mm", "ProfilerStep#1", "unknown",
)  # fmt: skip
LARGEST = 2**900  # beyond, no float holds it


def deep(levels: int, of: str = "list") -> Any:
    """Lists or tables inside each other."""
    found: Any = [] if of == "list" else {}
    for _ in range(levels):
        found = [found] if of == "list" else {"a": found}
    return found


def odd(seeded: random.Random) -> Any:
    """Any value that JSON, or what Python takes for JSON, can hold."""
    pick = seeded.randrange(10)
    if pick < 4:
        return seeded.choice(NUMBERS)
    if pick < 6:
        return seeded.choice(TEXTS)
    if pick < 7:
        return seeded.choice([None, True, False])
    return seeded.choice(
        [[], [[]], [None], [0], [-1], ["x"], [2**63], [math.nan], [1, [2]], {}, {"a": 1}, {"": None}, [{}]]
        + ([deep(seeded.choice([3, 60, 300]), seeded.choice(["list", "dict"]))] if seeded.random() < 0.2 else [])
    )


def bent(seeded: random.Random, value: Any) -> Any:
    """`value` as another type, or another magnitude, of the same meaning or nearly so."""
    if isinstance(value, bool) or value is None:
        return seeded.choice([0, 1, "true", None, [value], not value])
    if isinstance(value, int) and abs(value) > LARGEST:
        return str(value)
    if isinstance(value, int | float):
        return _bent_number(seeded, value)
    if isinstance(value, str):
        return seeded.choice([value * 2, value[: len(value) // 2], value.upper(), [value], len(value), f" {value} "])
    if isinstance(value, list):
        return _bent_list(seeded, value)
    fewer = dict(list(value.items())[:-1]) if isinstance(value, dict) else value[:-1]
    return seeded.choice([[value], list(value), fewer, {"": value}, str(value)[:200]])


def _bent_number(seeded: random.Random, value: float) -> Any:
    ways = [-value, str(value), [value], {"value": value}, value + 1, value - 1, 0 * value, value // 3, float(value)]
    ways += [value * factor for factor in (2, 1000, 10**6, 10**9, 10**12, 10**15, 1e-3)]
    return seeded.choice(ways)


def _bent_list(seeded: random.Random, value: list[Any]) -> Any:
    shuffled = seeded.sample(value, len(value))
    ways = [value[:-1], value[1:], value + value, [value], shuffled, [], value[:1], [-1, *value[1:]], [0, *value[1:]]]
    ways += [value * 40, [*value, None], [*value, seeded.choice(NUMBERS)], dict.fromkeys(map(str, value), 1)]
    return seeded.choice([*ways, ", ".join(map(str, value))])


def toml(table: dict[str, Any]) -> str:
    """A TOML document with all tables but the outer one inline; what TOML has no word for is left out."""
    return "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in table.items() if value is not None)


def _key(key: object) -> str:
    return json.dumps(str(key))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{_key(key)} = {_toml(each)}" for key, each in value.items() if each is not None)
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value if each is not None) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(value).lower() if isinstance(value, bool) else str(value)
