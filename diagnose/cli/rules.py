"""`diagnose rules`: the list of the rules."""

from pathlib import Path

import click
from rich.text import Text

from diagnose.cli.command import Command
from diagnose.cli.exit_status import writing
from diagnose.cli.rule_files import all_rules, rules_option
from diagnose.cli.terminal import terminal
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain


@click.command(cls=Command, epilog="Example:  diagnose rules --rules my_rules/")
@rules_option
def rules(rules_dirs: tuple[Path, ...]) -> None:
    """List all checks."""
    loaded = all_rules(rules_dirs)
    width = max(len(rule.id) for rule in loaded)
    with writing():
        page = Page(terminal())
        for rule in loaded:
            kind = f"  {rule.class_:<13}  {rule.maturity}"
            page.line(Text.assemble((rule.id.ljust(width), "bold"), (kind, "dim")))
            page.hanging(plain(rule.title))
