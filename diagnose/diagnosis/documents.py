"""How a frozen answer is written as JSON, and the schema that it keeps to."""

import re
from typing import Any

import msgspec

_NUMBERS = re.compile(r"\[\n[\s\d,.e+-]+\]")  # no text holds a bare end of line


def indented(answer: msgspec.Struct, numbers: re.Pattern[str] = _NUMBERS) -> str:
    """The answer as one indented JSON object, each list that `numbers` matches on one line: by default any numbers."""
    text = msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()
    return numbers.sub(lambda found: "".join(found[0].split()).replace(",", ", "), text)


def described(answer: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the object: every key is always present."""
    found = msgspec.json.schema(answer)
    for definition in found["$defs"].values():
        definition["required"] = sorted(definition["properties"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": answer.__name__} | found
