"""`diagnose explain` as a user calls it, and its explanations as values."""

import io
from functools import cache
from pathlib import Path

from click.testing import CliRunner, Result
from rich.console import Console

from diagnose.cli import main
from diagnose.cli.rule_files import all_rules
from diagnose.commands.explain.explaining import explanation_of
from diagnose.commands.explain.explanation import Explanation
from diagnose.commands.explain.naming import Subject, subject_named, subjects
from diagnose.commands.explain.run import Run, run_at
from diagnose.commands.explain.text import render
from diagnose.report.text.page import Page
from diagnose.rule import Rule

SAMPLES = Path(__file__).parent.parent / "sample_traces"
MEMORY_BOUND, SLOW_LOADER = "synthetic-memory-bound.json.gz", "cpu-slow-loader.json.gz"


@cache
def rules() -> dict[str, Rule]:
    return {rule.id: rule for rule in all_rules(())}


@cache
def sample(name: str) -> Run:
    return run_at(SAMPLES / name)


def named(text: str) -> Subject:
    return subject_named(text, rules())


def known() -> list[Subject]:
    """Everything that can be explained."""
    return subjects(rules())


def explained(text: str, run: Run | None = None) -> Explanation:
    return explanation_of(named(text), rules(), run)


def printed(told: Explanation, run: str = "") -> str:
    """The page of 80 columns."""
    console = Console(width=80, file=io.StringIO(), force_terminal=False)
    render(told, Page(console), run)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def explain(*words: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["explain", *words])
