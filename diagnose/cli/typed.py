"""The command line as the user typed it, for reports that say how they were made."""

from typing import Any

import click
from click.core import ParameterSource


def options_typed(context: click.Context) -> list[str]:
    """The options that the user gave, as words of a command line."""
    words: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and isinstance(parameter, click.Option):
            words += _words(parameter, context.params[name])
    return words


def _words(option: click.Option, value: Any) -> list[str]:
    if option.is_flag:
        return [option.opts[-1]]
    values = value if option.multiple else (value,)
    typed = getattr(option.type, "typed", _word)
    return [word for each in values for word in (option.opts[-1], typed(each))]


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
