"""The base of every command's answer: the version of its keys, its JSON, and the JSON schema."""

import re
from typing import Any, ClassVar

import msgspec

COUNTS = re.compile(r"\[\n[\s\d,.]+\]")  # no text holds a bare end of line
NUMBERS = re.compile(r"\[\n[\s\d,.e+-]+\]")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen answer, which its command prints as text and `--json` as one object.

    A subclass states its `schema_version`, which stays the first key, and how its JSON is laid out: the spaces that a
    level is `indented` by, 0 for all on one line, and which lists stand `on_one_line`, None for none.
    """

    indented: ClassVar[int] = 2
    on_one_line: ClassVar[re.Pattern[str] | None] = NUMBERS
    schema_version: int

    def to_json(self) -> str:
        """The answer as one JSON object."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=self.indented).decode()
        if self.on_one_line is None:
            return text
        return self.on_one_line.sub(lambda found: "".join(found[0].split()).replace(",", ", "), text)

    @classmethod
    def version(cls) -> int:
        """The `schema_version` of what is written today."""
        stated = next(field for field in msgspec.structs.fields(cls) if field.name == "schema_version")
        return int(stated.default)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """The JSON Schema (draft 2020-12) of `to_json`'s object: every key is always present."""
        found = msgspec.json.schema(cls)
        for definition in found["$defs"].values():
            definition["required"] = sorted(definition["properties"])
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": cls.__name__} | found
