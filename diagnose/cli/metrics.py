"""`diagnose metrics`: the vocabulary of the rules."""

import click
from rich.text import Text

from diagnose.cli.command import Command
from diagnose.cli.exit_status import writing
from diagnose.cli.terminal import terminal
from diagnose.metrics import REGISTRY
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain


@click.command(cls=Command, epilog="Example:  diagnose metrics | grep share")
def metrics() -> None:
    """List all measured quantities."""
    with writing():
        page = Page(terminal())
        for metric in sorted(REGISTRY.values(), key=lambda metric: metric.name):
            of = f" of {metric.of}" if metric.of else ""
            page.line(Text.assemble((metric.name, "bold"), "  ", (f"{metric.unit}{of}", "dim")))
            page.hanging(plain(metric.doc))
