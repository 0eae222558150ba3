"""The parts of the SKILL.md that `diagnose skill` prints, and the owners that its words are looked up with."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import click
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.schema.command import answer_of, answering

FENCE = re.compile(r"^```sh\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_TABLE = re.compile(r"`([\w.\[\]]+)`[^`]*:\n\n\| value \|.*\n\|.*\n((?:\|.*\n)+)")
Schema = dict[str, Any]


@dataclass(frozen=True)
class Section:
    """A section of the skill: its title, and what stands below it."""

    title: str
    text: str

    @property
    def script(self) -> str:
        """The command lines of its blocks."""
        return "".join(FENCE.findall(self.text))

    @property
    def spans(self) -> list[str]:
        """What its sentences and tables set as code."""
        return re.findall(r"`([^`\n]+)`", FENCE.sub("", self.text))

    @property
    def commands(self) -> list[str]:
        """The commands of diagnose that it names."""
        return re.findall(r"\bdiagnose ([a-z]+)\b", self.text)

    @property
    def tools(self) -> list[str]:
        """What the items of its numbered list begin with."""
        return re.findall(r"^\d\. `(\w+)`:", self.text, re.MULTILINE)

    @property
    def values(self) -> dict[str, list[str]]:
        """The key of the JSON that each table of values is about, and the values that it lists."""
        return {key: re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE) for key, rows in _TABLE.findall(self.text)}

    def schemas(self) -> Iterator[Schema]:
        """The answers that its keys may be of: of the commands that it names, and of `analyze`."""
        yield from (schema_of(name) for name in dict.fromkeys((*self.commands, "analyze")) if name in answering())

    def key(self, path: str) -> Schema | None:
        """What the answers of the section hold at a path such as `plan[].rule`; None if none of them has it."""
        return next((found for schema in self.schemas() if (found := at(schema, path)) is not None), None)

    def is_value(self, word: str) -> bool:
        """Whether a key of those answers may have this value."""
        kinds = (kind for schema in self.schemas() for kind in schema["$defs"].values())
        return any(word in key.get("enum", ()) for kind in kinds for key in kind.get("properties", {}).values())


@cache
def printed() -> str:
    """The text that the command prints."""
    done = CliRunner().invoke(main, ["skill"])
    assert done.exit_code == 0
    return done.stdout


def sections() -> list[Section]:
    """The sections with a title."""
    _, *parts = _SECTION.split(printed())
    return [Section(title, text) for title, text in zip(parts[::2], parts[1::2], strict=True)]


def section(title: str) -> Section:
    """The section with this title."""
    return next(one for one in sections() if one.title == title)


@cache
def schema_of(command: str) -> Schema:
    """The schema of a command's answer."""
    return answer_of(command).schema()


def at(schema: Schema, path: str) -> Schema | None:
    """What a schema says of a path; None if it has no such key, or takes for a list what is none."""
    node: Schema | None = schema
    for part in path.split("."):
        name, is_list = part.removesuffix("[]"), part.endswith("[]")
        node = _followed(node, schema).get("properties", {}).get(name)
        if node is not None and is_list:
            node = node.get("items")
        if node is None:
            return None
    return _followed(node, schema)


def _followed(node: Schema | None, schema: Schema) -> Schema:
    """The node itself, with its reference followed, and without the null that it may be."""
    for one in (node or {}).get("anyOf", [node or {}]):
        if one.get("type") != "null":
            return schema["$defs"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
    return {}


def help_of(command: str) -> str:
    """The help of a command, on one line."""
    return " ".join(CliRunner().invoke(main, [command, "--help"]).stdout.split())


def options_of(command: str) -> set[str]:
    """The options that click knows of a command."""
    found = main.get_command(click.Context(main), command)
    return {name for one in (found.params if found else ()) for name in one.opts}
