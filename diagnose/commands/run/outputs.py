"""The outputs of `diagnose run` for a diagnosis: the printed report, the files that were asked for, and the last line.

Nothing here is written among the output of the command: the report is printed on stdout only if that is a terminal.
"""

import io
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from diagnose import __version__
from diagnose.cli.command import Option
from diagnose.cli.voice import guarded, say, stderr, stdout
from diagnose.commands.run.on_finding import FindingCommand
from diagnose.errors import printable
from diagnose.probes.protocol import REPORT

if TYPE_CHECKING:
    from diagnose.commands.run.answer import RunFinding
    from diagnose.diagnosis import Diagnosis

Command = TypeVar("Command", bound=Callable[..., Any])
_OF_FILES = {
    "report": "Write the report to FILE instead of printing it.",
    "html": "Also write the report as one HTML file, readable without network or JavaScript.",
    "markdown": "Also write the report as Markdown below 4,000 tokens.",
    "json": "Also write the diagnosis as JSON to FILE.",
}
_OF_ONE_WINDOW = ("html", "markdown")


def output_options(command: Command) -> Command:
    """Adds the options that `Outputs.of` reads."""
    command = click.option(
        "--no-report",
        cls=Option,
        idle_with={"print_line": ""},
        is_flag=True,
        help="Print no report; if no FILE is to be written and no --on-finding given, capture only.",
    )(command)
    command = click.option(
        "-q",
        "--quiet",
        cls=Option,
        idle_with=_idle("quiet") | {"no_report": "", "report": "", "arm": "--arm reports a run of many windows"},
        is_flag=True,
        help="Print only the verdict, its reason, the next change and its gain.",
    )(command)
    for name, says in reversed(_OF_FILES.items()):
        file = click.Path(path_type=Path)
        beside: dict[str, Any] = {"cls": Option, "writes": True, "idle_with": _idle(name)}
        command = click.option(f"--{name}", metavar="FILE", type=file, callback=_a_file, help=says, **beside)(command)
    return command


def _idle(name: str) -> dict[str, str]:
    """Options with which no such file is written, each with the reason."""
    page = f"--{name} needs a single window: after the run, diagnose analyze RUN/step-K --{name} FILE"
    return {"print_line": ""} | ({"arm": page} if name in _OF_ONE_WINDOW else {})


def _a_file(_context: click.Context, _option: click.Parameter, file: Path | None) -> Path | None:
    if file == Path("-"):
        raise click.BadParameter("standard output is the command's own: name a file")
    return file


def files_given(given: Mapping[str, Any]) -> Mapping[str, Path]:
    """The files that are to be written, by the options of `output_options` that name them."""
    return {name: given[name] for name in _OF_FILES if given[name] is not None}


@dataclass(frozen=True)
class Outputs:
    """The outputs of a diagnosis.

    Args:
        files: by the option that asks for each.
        printed: whether the report is printed.
        quiet: whether of it only the first lines are.
        command: the command line that the report names as its own.
        on_finding: the command that gets each finding; None if there is none.
    """

    files: Mapping[str, Path]
    printed: bool
    command: str
    quiet: bool = False
    on_finding: FindingCommand | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], words: Sequence[str], environment: Mapping[str, str]) -> "Outputs":
        """The outputs that the options of `output_options` and `on_finding_option` ask for.

        Args:
            given: the options.
            words: follow `diagnose run`.
            environment: of the command that gets the findings.
        """
        files, told = files_given(given), given["on_finding"]
        printed = not given["no_report"] and "report" not in files
        line = shlex.join(["diagnose", "run", *words])
        command = None if told is None else FindingCommand(told, environment)
        return cls(files, printed, line, given.get("quiet", False), command)

    @property
    def wanted(self) -> bool:
        """Whether any output of a capture is wanted."""
        return self.printed or bool(self.files) or self.on_finding is not None

    def tell(self, findings: "Callable[[], Iterable[RunFinding]]") -> None:
        """Pass findings on to the command that gets them, if there is one."""
        if (command := self.on_finding) is not None:
            guarded(lambda: command.tell(findings()), command.failing)

    def publish(self, diagnosis: "Diagnosis", folder: Path, shown: str, again: bool = False) -> str:
        """Print and write each wanted output; return the job's last line: verdict, next change, places of the report.

        Args:
            diagnosis: the diagnosis of the capture.
            folder: the capture's own, which gets the report, too.
            shown: the folder as it is printed.
            again: it takes the place of one that was printed and passed on before.
        """
        from diagnose.report.views.brief import brief

        of_bundle = f"{shown}/{REPORT}"
        kept, written = self.write(diagnosis, folder, of_bundle)
        if self.printed and not again:
            guarded(partial(_print, diagnosis, of_bundle if kept else shown, self.quiet))
        if written and not again:
            say(f"wrote {', '.join(written)}")
        if not again:
            self.tell(lambda: _findings(diagnosis, folder))
        places = ", ".join([*([of_bundle] if kept else []), *written]) or "none"
        return f"{brief(diagnosis)}; report: {places}"

    def write(self, diagnosis: "Diagnosis", folder: Path, shown: str) -> tuple[bool, list[str]]:
        """Write the capture's own report, `shown` where it cannot be, and the files that were asked for.

        Return whether the first is written, and the names of the others that are.
        """
        kept = guarded(lambda: _write(_text(diagnosis, self.command), folder / REPORT), f"no {shown}")
        return kept, [name for option in self.files if (name := self._written(option, diagnosis))]

    def _written(self, name: str, diagnosis: "Diagnosis") -> str:
        """The file's name as it is printed, "" if it cannot be written."""
        to = self.files[name]
        done = guarded(lambda: _write(_FORMS[name](diagnosis, self.command), to), f"no --{name} file")
        return printable(str(to)) if done else ""


def _findings(diagnosis: "Diagnosis", folder: Path) -> "Iterable[RunFinding]":
    from diagnose.commands.run.findings import of_diagnosis

    return of_diagnosis(diagnosis, folder)


def _print(diagnosis: "Diagnosis", report: str, quiet: bool) -> None:
    """Print the first screen, or its first lines, and where the rest is, on stdout if it is a terminal, else on stderr.

    It is printed in one piece, because the job prints, too.
    """
    from diagnose.cli.terminal import terminal
    from diagnose.report.text import render_brief, render_first_screen

    beside = sys.stdout is None or not sys.stdout.isatty()
    console = terminal(stderr=beside)
    with console.capture() as page:
        (render_brief if quiet else render_first_screen)(diagnosis, console)
    voice = stderr() if beside else stdout()
    voice.say(f"\n{page.get()}report    {report}\n")


def _text(diagnosis: "Diagnosis", _command: str) -> str:
    from diagnose.cli.terminal import terminal
    from diagnose.report.text import render

    page = io.StringIO()
    render(diagnosis, terminal(file=page, force_terminal=False))
    return page.getvalue()


def _html(diagnosis: "Diagnosis", command: str) -> str:
    from diagnose.report.html import About, page

    return page(diagnosis, About(__version__, command))


def _markdown(diagnosis: "Diagnosis", command: str) -> str:
    from diagnose.report.markdown import markdown
    from diagnose.report.views.summary import About

    return markdown(diagnosis, About(__version__, command))


def _json(diagnosis: "Diagnosis", _command: str) -> str:
    return diagnosis.to_json()


def _write(text: str, file: Path) -> None:
    """Replace the file once all is written; a device or a pipe with a reader is written to directly."""
    from diagnose.cli.whole_file import whole_file

    if file.is_fifo():
        os.close(os.open(file, os.O_WRONLY | os.O_NONBLOCK))  # refused if nobody would ever read
    with whole_file(file) as into:
        into.write(text.encode("utf-8"))


_FORMS: dict[str, Callable[["Diagnosis", str], str]] = {
    "report": _text,
    "html": _html,
    "markdown": _markdown,
    "json": _json,
}
