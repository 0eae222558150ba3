"""Command: explain a name, with the numbers of a run."""

from collections.abc import Mapping
from pathlib import Path

import click

from diagnose.cli.announcing import announced
from diagnose.cli.command import Command, Option
from diagnose.cli.exit_status import writing
from diagnose.cli.rule_files import all_rules, rules_option
from diagnose.cli.terminal import terminal
from diagnose.commands.explain.explaining import explanation_of
from diagnose.commands.explain.naming import Subject, completed, subject_named
from diagnose.commands.explain.rule_text import print_rule
from diagnose.commands.explain.run import Run, last_run, run_at
from diagnose.commands.explain.text import render
from diagnose.errors import UserError
from diagnose.report.text.page import Page
from diagnose.rule import Rule
from diagnose.trace import Loading


@click.command(cls=Command, epilog="Example:  diagnose explain late rank --from diagnose-runs/2026-01-02_03-04-05")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=completed)
@click.option(
    "--from",
    "from_run",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="Take the numbers of this run: its folder, a trace, or the JSON of analyze (default: the last run).",
)
@click.option(
    "--rule",
    "as_rule",
    is_flag=True,
    cls=Option,
    idle_with={"from_run": "the conditions of a rule hold no numbers of a run"},
    help="Print the conditions, advice and examples of a rule as its file has them.",
)
@rules_option
def explain(names: tuple[str, ...], from_run: Path | None, as_rule: bool, rules_dirs: tuple[Path, ...]) -> None:
    """Explain a finding, a term, or a metric, with the numbers of your last run.

    NAME is a rule, a class such as memory-bound, a cause of the table, a metric, or a word: mfu, roofline, iron law,
    operator dispatch, late rank, confidence, profiler overhead, fragmentation, fp16 against bf16.
    """
    rules = {rule.id: rule for rule in all_rules(rules_dirs)}
    subject = subject_named(" ".join(names), rules)
    if as_rule:
        _print_rule(subject, rules)
        return
    run = _last() if from_run is None else _read(from_run)
    with writing():
        render(explanation_of(subject, rules, run), Page(terminal()), run.path if run else "")


def _read(path: Path) -> Run:
    with announced(path) as watch:
        return run_at(path, Loading(cache=True, jobs=None, watch=watch))


def _print_rule(subject: Subject, rules: Mapping[str, Rule]) -> None:
    if subject.kind != "rule":
        raise click.UsageError(f"--rule prints a rule, and {subject} is none. `diagnose rules` lists them.")
    with writing():
        print_rule(rules[subject.id], Page(terminal()))


def _last() -> Run | None:
    """The last run, if there is one that can be read."""
    path = last_run()
    try:
        return None if path is None else _read(path)
    except UserError as error:
        click.echo(f"diagnose: the last run is left out: {' '.join(error.format_message().split())}", err=True)
        return None
