"""Every command and every option of the command line, as click has them."""

from collections.abc import Iterator

import click
from click.testing import CliRunner, Result

from diagnose.cli import main


def commands(group: click.Group = main, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def options() -> Iterator[tuple[tuple[str, ...], click.Option]]:
    """Each option with the words that call its command."""
    for words, command in commands():
        yield from ((words, option) for option in command.params if isinstance(option, click.Option))


def typed(option: click.Option) -> list[str]:
    """Words that give the option, with a value that is as good as none: 0, the first choice, a name."""
    name = max(option.opts, key=len)
    if option.is_flag:
        return [name]
    if isinstance(option.type, click.Choice):
        return [name, option.type.choices[0]]
    return [name, next(value for value in ("0", "1", "300M", "x") if _is_taken(option, value))]


def called(*words: object) -> Result:
    """What the command comes to."""
    return CliRunner().invoke(main, [str(word) for word in words])


def _is_taken(option: click.Option, value: str) -> bool:
    try:
        option.type.convert(value, option, None)
    except click.ClickException:
        return False
    return True
