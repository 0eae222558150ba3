"""`diagnose mcp`: answer an agent's questions from files in given folders."""

from pathlib import Path

import click

from diagnose.cli.command import Command
from diagnose.errors import UserError, to_install


@click.command(cls=Command, epilog="Example:  diagnose mcp --root runs/")
@click.option(
    "--root",
    "roots",
    metavar="DIR",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="Let the agent read files in this folder, and none outside it. May be repeated.",
)
def mcp(roots: tuple[Path, ...]) -> None:
    """Give an AI agent access to analyze, compare, explain and fit.

    It speaks on standard input and output, reads files in the given folders and writes none: no cache, no ledger.
    An answer has at most 4,000 tokens; longer tables are resources. It ends when standard input does.

    \b
    Exit codes:
      0    the client closed the connection
      2    wrong usage
      3    a folder is not there, or the extra mcp is not installed
      70   a bug in diagnose
      130  interrupted
    """
    from diagnose.commands.agents.answers import Answers
    from diagnose.commands.agents.roots import Roots

    try:
        from diagnose.commands.agents.server import serve
    except ImportError as error:
        why = f"the official SDK, from version 2 on, is not installed ({error})"
        raise UserError("cannot serve agents", why=why, do=to_install("mcp")) from error
    serve(Answers(Roots(roots)))
