"""`diagnose rules`: what can be found."""

from collections.abc import Iterable
from pathlib import Path

import click
from rich.text import Text

from diagnose.cli.exit_status import writing
from diagnose.cli.terminal import terminal
from diagnose.metrics import units
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.rule import Rule, load_rules

rules_option = click.option(
    "--rules",
    "rules_dirs",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="More rules; one with the name of a built-in rule replaces it. May be repeated.",
)


@click.command(epilog="Example:  diagnose rules --rules my_rules/")
@rules_option
def rules(rules_dirs: tuple[Path, ...]) -> None:
    """List the rules: name, class, maturity, title. Loading them checks them, their examples included."""
    loaded = all_rules(rules_dirs)
    width = max(len(rule.id) for rule in loaded)
    with writing():
        page = Page(terminal())
        for rule in loaded:
            kind = f"  {rule.class_:<13}  {rule.maturity}"
            page.line(Text.assemble((rule.id.ljust(width), "bold"), (kind, "dim")))
            page.hanging(plain(rule.title))


def all_rules(rules_dirs: Iterable[Path]) -> tuple[Rule, ...]:
    """The built-in rules and those in `rules_dirs`, checked against what is measured."""
    return load_rules(rules_dirs, units())
