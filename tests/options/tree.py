"""Every option of every command, as click lists them."""

from collections.abc import Iterator

import click

from diagnose.cli import main


def commands() -> dict[str, click.Command]:
    """Each command by its words after `diagnose`; the program itself is ""."""
    return {name: context.command for name, context in _contexts(click.Context(main, info_name="diagnose"), "")}


def spellings() -> set[tuple[str, str]]:
    """Each command with each way to spell one of its options or arguments; `-h` and `--no-x` are ways of their own."""
    return {
        (name, spelling)
        for name, context in _contexts(click.Context(main, info_name="diagnose", **main.context_settings), "")
        for parameter in context.command.get_params(context)
        for spelling in _of(parameter)
    }


def _of(parameter: click.Parameter) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [str(parameter.name).upper()]
    return [*parameter.opts, *parameter.secondary_opts]


def _contexts(context: click.Context, name: str) -> Iterator[tuple[str, click.Context]]:
    """The command and those below it, also those that the help hides."""
    yield name, context
    command = context.command
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            inner = click.Context(below, info_name=word, parent=context, **below.context_settings)
            yield from _contexts(inner, f"{name} {word}".strip())
