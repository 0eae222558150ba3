"""The answers of an agent's tools: Markdown or text below 4,000 tokens, and the tables behind it."""

import io
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from diagnose import __version__, analysis
from diagnose.cli.exit_status import defect, explained
from diagnose.cli.loading import loading_of
from diagnose.cli.rule_files import all_rules
from diagnose.cli.terminal import terminal
from diagnose.commands.agents import run_state
from diagnose.commands.agents.catalog import PATHS, TOOLS
from diagnose.commands.agents.roots import Roots
from diagnose.commands.agents.tables import Tables
from diagnose.commands.agents.tool import ToolCall
from diagnose.commands.analyze.command import options_of
from diagnose.commands.armed import text as armed_text
from diagnose.commands.armed.answer import armed_run
from diagnose.commands.armed.arming import is_armed
from diagnose.commands.compare.command import side_from
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.markdown import comparison_markdown
from diagnose.commands.compare.views import comparison_view
from diagnose.commands.explain import text as explain_text
from diagnose.commands.explain.explaining import explanation_of
from diagnose.commands.explain.naming import subject_named
from diagnose.commands.explain.run import run_at
from diagnose.commands.fit import text as fit_text
from diagnose.commands.fit.counts import costed_forecast
from diagnose.commands.fit.models import model_from, model_named
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable
from diagnose.formulas.model import ModelShape
from diagnose.report.markdown import MOST_TOKENS, markdown
from diagnose.report.markdown.github import tokens
from diagnose.report.tables import CapacityTable, tables_of
from diagnose.report.text.page import Page
from diagnose.report.views.summary import About

CSV, JSON = "text/csv", "application/json"
_FOR_TABLES = 400  # tokens of the line that names them
_WIDTH = 100  # cells of an answer as text
_LONGEST_ERROR = 2_000  # characters
_OF_PLAN = ("verdict", "applied", "notes", "plan", "cost", "not_advised", "not_judged")


class Answers:
    """Answers of the tools about files in the roots, one question at a time."""

    def __init__(self, roots: Roots) -> None:
        self.roots, self.tables = roots, Tables()
        self._one_at_a_time = threading.Lock()
        self._told: Mapping[str, Callable[[ToolCall], str]] = {
            "analyze": self._analyzed,
            "plan": self._planned,
            "compare": self._compared,
            "explain": _explained,
            "fit": self._forecast,
        }

    def answer(self, name: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """The answer, and whether it is an error with what failed, why, and what to do. It never raises."""
        try:
            if name not in TOOLS:
                raise UserError(f"no tool {printable(name)[:40]!r}", do=f"call one of {', '.join(TOOLS)}")
            with self._one_at_a_time, self.roots.confined():
                return cut(self._told[name](TOOLS[name].call(self._in_roots(arguments)))), False
        except Exception as error:
            return message_of(error), True

    def resource(self, uri: str) -> tuple[str, str]:
        """The text of a resource, and its media type: a table of an answer, or the state of a run.

        Raises:
            UserError: there is none of that address.
        """
        if not run_state.is_state(uri):
            return self.tables.page(uri), CSV
        with self._one_at_a_time, self.roots.confined():
            return run_state.page(self.roots, uri), JSON

    def resources(self) -> list[tuple[str, str, str, str]]:
        """The address, name, description and media type of each table that is kept, and of each run in the roots."""
        with self._one_at_a_time, self.roots.confined():
            runs = [(uri, name, "state of a run", JSON) for uri, name in run_state.listed(self.roots)]
        return [*((uri, name, f"{rows:,} rows", CSV) for uri, name, rows in self.tables.listed()), *runs]

    def _in_roots(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """The arguments with the full paths of the files that they name."""
        found = dict(arguments)
        for name, value in arguments.items():
            if isinstance(value, str) and name in PATHS:
                found[name] = str(self.roots.inside(value))
        return found

    def _analyzed(self, call: ToolCall) -> str:
        path = call.given["path"]
        if all(call.given[name] is None for name in ("run", "rank", "step")) and is_armed(path):
            run = armed_run(Path(path), options_of(call.given, loading_of(call.given, None)))
            assert run is not None
            return _as_text(lambda console: armed_text.render(run, console, printable(path)))
        return self._of_diagnosis(call)

    def _planned(self, call: ToolCall) -> str:
        return self._of_diagnosis(call, _OF_PLAN)

    def _of_diagnosis(self, call: ToolCall, only: tuple[str, ...] | None = None) -> str:
        diagnosis = _diagnosed(call)
        tables = self.tables.keep(diagnosis.to_json().encode(), tables_of(diagnosis))
        return markdown(diagnosis, About(__version__, call.typed), MOST_TOKENS - _FOR_TABLES, only) + f"\n{tables}\n"

    def _compared(self, call: ToolCall) -> str:
        before, after = (side_from(call.given[name], call.given) for name in ("before", "after"))
        found = compare(before, after, floor_share=call.given["noise"])
        tables = {
            table.title.lower(): CapacityTable(dict.fromkeys(table.heads, str), table.rows)
            for table in comparison_view(found).tables
        }
        line = self.tables.keep(found.to_json().encode(), tables)
        return comparison_markdown(found, About(__version__, call.typed), MOST_TOKENS - _FOR_TABLES) + f"\n{line}\n"

    def _forecast(self, call: ToolCall) -> str:
        made = costed_forecast(call.given, self._model)
        return _as_text(lambda console: fit_text.render(made, console))

    def _model(self, text: str) -> tuple[str, ModelShape]:
        """The model of a file in the roots, else of that name; it never reveals whether a file exists elsewhere."""
        path = self.roots.find(text)
        return model_named(text) if path is None else model_from(str(path))


def message_of(error: Exception) -> str:
    """The text of an error that an agent reads: what failed, why, and what to do."""
    told = explained(error)
    return (defect(error) if told is None else told.format_message())[:_LONGEST_ERROR]


def cut(text: str, most: int = MOST_TOKENS) -> str:
    """The first lines that have at most so many tokens, and whether there are more."""
    if tokens(text) <= most:
        return text
    told, kept = "(cut: the answer is longer than an agent may be told)", list[str]()
    left = most - tokens(told) - 1
    for line in text.splitlines():
        left -= tokens(line) + 1
        if left < 0:
            break
        kept.append(line)
    return "\n".join([*kept, told])


def _diagnosed(call: ToolCall) -> Diagnosis:
    return analysis.analyze(Path(call.given["path"]), options=options_of(call.given, loading_of(call.given, None)))


def _explained(call: ToolCall) -> str:
    rules, path = {rule.id: rule for rule in all_rules(())}, call.given["from_run"]
    run = None if path is None else run_at(path)
    told = explanation_of(subject_named(" ".join(call.given["names"]), rules), rules, run)
    return _as_text(lambda console: explain_text.render(told, Page(console), run.path if run else ""))


def _as_text(write: Callable[[Console], None]) -> str:
    to = io.StringIO()
    write(terminal(file=to, force_terminal=False, color_system=None, width=_WIDTH))
    return to.getvalue()
