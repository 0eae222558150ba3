"""The schema of capture-rank{R}.json, from the table by which the record is read and the words of record_words.toml."""

import json
import tomllib
from pathlib import Path
from typing import Any

from diagnose.decoding.schema import Schema, schema_of
from diagnose.probes.facts.record import SCHEMA_VERSION
from diagnose.probes.protocol import RECORD as FILE
from diagnose.trace.record_fields import RECORD

WORDS = Path(__file__).parent / "record_words.toml"
NEVER_NULL = {"schema_version": {"const": SCHEMA_VERSION}, "rank": {"type": "integer", "minimum": 0}}


def record_schema() -> str:
    """The text of capture.schema.json. KeyError: a word is of a field that the record does not have."""
    words: dict[str, Any] = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    of_field: dict[str, str] = dict(words["fields"])
    schema = _described(schema_of(RECORD), "", of_field)
    schema["properties"] |= NEVER_NULL
    if of_field:
        raise KeyError(f"{WORDS.name} has words of {sorted(of_field)}, which the record does not have")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": FILE.format("{R}"),
        "description": words["record"],
    }
    return json.dumps(head | schema, indent=1, ensure_ascii=False) + "\n"


def _described(node: Schema, path: str, words: dict[str, str]) -> Schema:
    """The schema with the words of each field, which are taken out of `words`."""
    found = dict(node) if path not in words else {"description": words.pop(path), **node}
    if "properties" in node:
        named = node["properties"].items()
        found["properties"] = {
            name: _described(field, f"{path}.{name}" if path else name, words) for name, field in named
        }
    for inner in ("items", "additionalProperties"):
        if isinstance(node.get(inner), dict):
            found[inner] = _described(node[inner], path, words)
    return found
