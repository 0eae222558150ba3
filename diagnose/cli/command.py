"""Commands whose options state on which others their effect depends: an option without effect is refused.

Each option states its own conditions, at its declaration (`Option`). `Command` looks at them before any work is done.
"""

from collections.abc import Collection, Mapping
from typing import Any

import click
from click.core import ParameterSource

from diagnose.cli.group import AsksForHelp
from diagnose.cli.one_file_each import Places, refuse_clashes

_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


class Option(click.Option):
    """An option with the conditions of its effect.

    Args:
        needs: the parameter without which it has none.
        idle_with: the parameters with which it has none, or which contradict it, each with the reason, "" if the
            sentence that there is no effect is enough.
        because: why it needs the other.
        writes: it names a file or folder that is written.
        stands_in: the command's output goes there instead.
        reads: its text names a file that is read, though its type does not say so.
    """

    def __init__(
        self,
        *arguments: Any,
        needs: str = "",
        because: str = "",
        idle_with: Mapping[str, str] | None = None,
        writes: bool = False,
        stands_in: bool = False,
        reads: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self.needs, self.because, self.idle_with = needs, because, idle_with or {}
        self.writes, self.stands_in, self.reads = writes, stands_in, reads


class Command(AsksForHelp, click.Command):
    """A command that refuses options without effect, and outputs that would overwrite each other or an input.

    Args:
        also_reads: further files that are read, by the parameters.
        also_writes: further files that are written, by the parameters.
        prints: whether standard output is the command's own.
    """

    def __init__(
        self,
        *arguments: Any,
        also_reads: Places | None = None,
        also_writes: Places | None = None,
        prints: bool = True,
        **more: Any,
    ) -> None:
        super().__init__(*arguments, **more)
        self.also_reads, self.also_writes, self.prints = also_reads, also_writes, prints

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, and refuse options without effect.

        Raises:
            UsageError: an option has no effect, or contradicts another; two outputs are one file, or one is an input.
        """
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            for option in _options_given(ctx):
                if isinstance(option, Option):
                    _refuse_without_effect(ctx, option)
            refuse_clashes(ctx, self.also_reads, self.also_writes, self.prints)
        return rest


def refuse_beyond(honoured: Collection[str], because: str) -> None:
    """Refuse every option that the user typed, whatever its value, but those whose parameters are `honoured`.

    Raises:
        UsageError: there is one; the message names it, and `because` gives the reason and what to do instead.
    """
    for option in _options_given(click.get_current_context()):
        if option.name not in honoured:
            raise click.UsageError(f"{_name(option)} {because}")


def refuse_given(names: Collection[str], because: str) -> None:
    """Refuse each of the options with these parameter names that the user typed.

    The message names the option, and `because` gives the reason.
    """
    for option in _options_given(click.get_current_context()):
        if option.name in names:
            raise click.UsageError(f"{_name(option)} {because}")


def is_given(ctx: click.Context, name: str) -> bool:
    """Whether the user typed the option, or set its variable, whatever the value."""
    return ctx.get_parameter_source(name) in _GIVEN


def _options_given(ctx: click.Context) -> list[click.Option]:
    options = (one for one in ctx.command.params if isinstance(one, click.Option))
    return [option for option in options if is_given(ctx, str(option.name))]


def _refuse_without_effect(ctx: click.Context, option: Option) -> None:
    name = _name(option)
    if option.needs and ctx.params.get(option.needs) in (None, False, ()):
        raise click.UsageError(f"{name} needs {_name_of(ctx, option.needs)}{_reason(option.because)}", ctx)
    for other, reason in option.idle_with.items():
        if is_given(ctx, other):
            told = reason or f"{name} has no effect with {_name_of(ctx, other)}"
            raise click.UsageError(f"{told}: choose one of {name} and {_name_of(ctx, other)}.", ctx)


def _reason(because: str) -> str:
    return f": {because}." if because else ", without which it has no effect."


def _name_of(ctx: click.Context, parameter: str) -> str:
    return next(_name(one) for one in ctx.command.params if isinstance(one, click.Option) and one.name == parameter)


def _name(option: click.Option) -> str:
    return max(option.opts, key=len)
