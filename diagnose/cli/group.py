"""A click group that imports a command when it is called, and turns every ending into one exit code."""

import contextlib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import click

from diagnose.analysis.late import imported
from diagnose.cli.exit_status import exit_code
from diagnose.cli.settings import defaults_for


class AsksForHelp:
    """A command with one set of names for help in every context: click keeps the option that it makes first."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """The names of the help option."""
        return ["-h", "--help"]


class Group(AsksForHelp, click.Group):
    """A command of several."""


class LazyGroup(Group):
    """Commands named by (module, short help); the module's attribute has the command's name.

    Args:
        commands_in: heading of the help to its commands: name to (module, short help).
    """

    def __init__(self, *args: Any, commands_in: Mapping[str, Mapping[str, tuple[str, str]]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands_in = commands_in
        self.commands_at = {name: at for commands in commands_in.values() for name, at in commands.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the help."""
        return list(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module; None when there is no such command."""
        if cmd_name not in self.commands_at:
            return None
        command: click.Command = getattr(imported(self.commands_at[cmd_name][0], of_command=True), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, suggest the nearest name for an unknown command, and load the settings file's
        defaults.
        """
        name = args[0]
        if name not in self.commands_at and not name.startswith("-"):
            raise click.UsageError(self._unknown(name), ctx)
        found = super().resolve_command(ctx, args)
        if found[1] is not None and not {"-h", "--help"} & set(args):
            ctx.default_map = {name: _defaults(found[1], ctx)}
        return found

    def _unknown(self, name: str) -> str:
        """A message that names the nearest command, or the one that reads the file that was typed."""
        if _is_place(name):
            return f"{name!r} is a file or folder, not a command. Try: diagnose {_reader(name)} {shlex.quote(name)}"
        near = get_close_matches(name, self.commands_at, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else f" Commands: {', '.join(self.commands_at)}."
        return f"No such command {name!r}.{hint}"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        width = max(map(len, self.commands_at))
        for heading, commands in self.commands_in.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), short) for name, (_, short) in commands.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command, or complete one for a shell that asks for it, and exit, whatever the mode."""
        self._main_shell_completion(extra, prog_name or "diagnose", complete_var)
        sys.exit(exit_code(lambda: self._run(sys.argv[1:] if args is None else list(args), prog_name or "diagnose")))

    def _run(self, args: list[str], prog_name: str) -> None:
        with self.make_context(prog_name, args) as ctx:
            self.invoke(ctx)


def _is_place(name: str) -> bool:
    """Whether `name` is a file or folder that exists, or a URL."""
    return "://" in name or os.path.exists(name)


def _reader(name: str) -> str:
    """The command that reads files with this ending."""
    ending = os.path.splitext(name)[1].lower()
    return {".csv": "series", ".tsv": "series", ".log": "series", ".jsonl": "series", ".pickle": "memory"}.get(
        ending, "run --" if ending == ".py" else "analyze"
    )


def _defaults(command: click.Command, ctx: click.Context) -> dict[str, Any]:
    """The settings file's defaults for the command; `run` ignores a file that it cannot use, since a job must start."""
    if command.name != "run":
        return defaults_for(command)
    try:
        given = defaults_for(command)
        for parameter in command.params:
            if parameter.name in given:
                parameter.type_cast_value(ctx, given[parameter.name])
    except Exception as error:
        why = error.format_message() if isinstance(error, click.ClickException) else type(error).__name__
        with contextlib.suppress(OSError):
            click.echo(f"diagnose: the settings file is left out: {why}", err=True)
        return {}
    return given
