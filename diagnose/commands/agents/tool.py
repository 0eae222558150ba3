"""A command as a tool: its options are the arguments, checked by the command itself."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import click

from diagnose.errors import printable

_KINDS = ((click.types.BoolParamType, "boolean"), (click.types.IntParamType, "integer"), (click.FloatRange, "number"))


@dataclass(frozen=True)
class ToolCall:
    """A call of a command by an agent: its parameters, and the command line for the same answer."""

    given: dict[str, Any]
    typed: str


@dataclass(frozen=True)
class Tool:
    """A command that an agent may call.

    Attributes:
        name: what an agent calls it by.
        command: the command, whose options describe their values.
        says: when to call it, and what it answers.
        named: the arguments that have to be given, each with its description.
        options: names of the options that may be given.
        always: options that are always passed, and shown to nobody.
    """

    name: str
    command: click.Command
    says: str
    named: Mapping[str, str]
    options: tuple[str, ...] = ()
    always: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        """The arguments as JSON Schema."""
        properties = {name: {"type": "string", "description": says} for name, says in self.named.items()}
        for option in self._options().values():
            properties.setdefault(str(option.name), _schema_of(option))
        required = list(self.named)
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def call(self, arguments: Mapping[str, object]) -> ToolCall:
        """The arguments as the command takes them; null arguments are left out.

        Raises:
            UsageError: one is missing, unknown or of the wrong kind.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        options, known = self._options(), {*self.named, *self.options}
        for name in given.keys() - known:
            near = get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It takes {', '.join(sorted(known))}."
            raise click.UsageError(f"No argument {printable(name)[:40]!r} of {self.name}. {hint}")
        for name in self.named:
            if name not in given:
                raise click.UsageError(f"The argument {name!r} of {self.name} is missing: {self.named[name]}")
        words = [word for name, value in given.items() if name in options for word in _typed(options[name], value)]
        words += ["--", *(_text(name, given[name]) for name in self.named if name not in options)]
        called = str(self.command.name)
        context = self.command.make_context(called, [*self.always, *words])
        return ToolCall(context.params, shlex.join(["diagnose", called, *(word for word in words if word != "--")]))

    def _options(self) -> dict[str, click.Option]:
        wanted = {*self.named, *self.options}
        found = (one for one in self.command.params if isinstance(one, click.Option) and one.name in wanted)
        return {str(option.name): option for option in found}


def _schema_of(option: click.Option) -> dict[str, Any]:
    says = {"description": option.help or ""}
    if isinstance(option.type, click.Choice):
        return {"type": "string", "enum": list(option.type.choices), **says}
    kind = next((kind for of, kind in _KINDS if isinstance(option.type, of)), "string")
    return {"type": kind, **says}


def _typed(option: click.Option, value: object) -> list[str]:
    if option.is_flag:
        if not isinstance(value, bool):
            raise click.UsageError(f"{option.name!r} is true or false.")
        return [option.opts[0]] if value else option.secondary_opts[:1]
    return [f"{option.opts[0]}={_text(str(option.name), value)}"]


def _text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise click.UsageError(f"{name!r} is a text or a number.")
    return str(value)
