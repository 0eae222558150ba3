"""`diagnose completion`: the script that a shell sources."""

import click
from click.shell_completion import get_completion_class

from diagnose.cli.command import Command

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_DIAGNOSE_COMPLETE"


@click.command(cls=Command, epilog="Example:  diagnose completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the shell completion script."""
    context = click.get_current_context().find_root()
    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(context.command, {}, "diagnose", _VARIABLE).source())
