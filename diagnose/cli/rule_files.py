"""The option `--rules`: the user's own rules in addition to the built-in ones."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from diagnose.rule import Rule

rules_option = click.option(
    "--rules",
    "rules_dirs",
    metavar="DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Add the rules in a folder; one named like a built-in rule replaces it. May be repeated.",
)


def all_rules(rules_dirs: Iterable[Path]) -> "tuple[Rule, ...]":
    """The built-in rules and those in `rules_dirs`, checked against what is measured."""
    from diagnose.metrics import units
    from diagnose.rule import load_rules

    return load_rules(rules_dirs, units())
