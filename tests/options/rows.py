"""Options of commands that start no job: the command line without the option beside the one with it."""

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.trace import cache

SAMPLES = Path(__file__).parents[2] / "sample_traces"
INPUT = re.compile(r"\{([\w.-]+)\}")


@dataclass(frozen=True)
class Row:
    """What an option of a command does, seen in what the command prints and writes with it and without it.

    Args:
        command: the words after `diagnose`.
        option: the option or argument that the row is about.
        given: how it is given, with whatever else only goes with it.
        rest: what follows in both command lines; `{name}` stands for an input, as `INPUTS` makes it.
        adds: what is printed with the option only, as a regular expression over the words of both streams.
        takes: what is printed without it only.
        changes: what is printed in both cases, with another text in its group.
        writes: files that are there with the option only, and what each holds.
        differs: files that are there in both cases, with other matches of a pattern.
        leaves_out: a pattern of files that are there without it only.
        codes: exit codes without the option and with it.
        beside: what goes before in both command lines.
        variables: of the environment; `{here}` stands for the folder of the command line, else as in `rest`.
        caches: whether also what is read in no time is cached, in `here/cache`.
    """

    command: str
    option: str
    given: str
    rest: str = ""
    adds: str = ""
    takes: str = ""
    changes: str = ""
    writes: Mapping[str, str] = field(default_factory=dict)
    differs: Mapping[str, str] = field(default_factory=dict)
    leaves_out: str = ""
    codes: tuple[int, int] = (0, 0)
    beside: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    caches: bool = False

    @property
    def without(self) -> str:
        """The command line that lacks the option."""
        return " ".join(filter(None, (self.command, self.beside, self.rest)))

    @property
    def with_it(self) -> str:
        """The command line that has it."""
        return " ".join(filter(None, (self.command, self.beside, self.given, self.rest)))


@dataclass(frozen=True)
class Ended:
    """A command line that ended: its code, its words on both streams, and the folder that it worked in."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def words(self) -> str:
        """What was printed, whatever the width of the page."""
        return " ".join(f"{self.stdout}\n{self.stderr}".split())

    def holds(self, file: str, pattern: str) -> bool:
        """Whether the file was written, with this in it."""
        path = self.folder / file
        return path.is_file() and re.search(pattern, path.read_bytes().decode(errors="replace")) is not None


Inputs = Callable[[str], Path]


def called(line: str, inputs: Inputs, variables: Mapping[str, str], folder: Path, caches: bool = False) -> Ended:
    """The command line, called within this process, in the empty folder."""
    words, before = words_of(line, inputs), Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables_of(variables, inputs, folder).items():
            patch.setenv(name, value)
        if caches:
            patch.setattr(cache, "SMALLEST_FILE_BYTES", 0)
            patch.setattr(cache, "SMALLEST_TEXT_BYTES", 0)
            patch.setenv("DIAGNOSE_CACHE_DIR", str(folder / "cache"))
        os.chdir(folder)
        try:
            done = CliRunner().invoke(main, words)
        finally:
            os.chdir(before)
    return Ended(done.exit_code, done.stdout, done.stderr, folder)


def words_of(line: str, inputs: Inputs) -> list[str]:
    """The words of a command line with the paths of its inputs."""
    return [INPUT.sub(lambda found: str(inputs(found[1])), word) for word in shlex.split(line)]


def variables_of(variables: Mapping[str, str], inputs: Inputs, folder: Path) -> dict[str, str]:
    """What is set beside what the tests have in common."""
    known = {name: value.replace("{here}", str(folder)) for name, value in variables.items()}
    return {"COLUMNS": "160"} | {
        name: INPUT.sub(lambda found: str(inputs(found[1])), value) for name, value in known.items()
    }


class Calls:
    """Command lines, each called once; many rows have the one without the option in common."""

    def __init__(self, inputs: Inputs, folder: Path) -> None:
        self._inputs, self._folder = inputs, folder
        self._ended: dict[object, Ended] = {}

    def __call__(self, row: Row, line: str) -> Ended:
        """What the command line came to."""
        key = line, row.caches, *sorted(row.variables.items())
        if key not in self._ended:
            folder = Path(tempfile.mkdtemp(dir=self._folder))
            self._ended[key] = called(line, self._inputs, row.variables, folder, row.caches)
        return self._ended[key]


def assert_effect(row: Row, without: Ended, with_it: Ended) -> None:
    """The option did what the row says, and without the option it was not so."""
    assert (without.code, with_it.code) == row.codes, with_it.words or without.words
    printed, written = row.adds or row.takes or row.changes, row.writes or row.differs or row.leaves_out
    assert printed or written or row.codes[0] != row.codes[1], "the row says nothing of the option"
    if row.adds:
        assert (found(row.adds, with_it), found(row.adds, without)) == (True, False), with_it.words
    if row.takes:
        assert (found(row.takes, without), found(row.takes, with_it)) == (True, False), without.words
    if row.changes:
        one, other = (re.findall(row.changes, ended.words) for ended in (without, with_it))
        assert [] not in (one, other), with_it.words
        assert one != other
    for file, pattern in row.writes.items():
        assert (with_it.holds(file, pattern), without.holds(file, ""), file) == (True, False, file)
    for file, pattern in row.differs.items():
        one, other = (re.findall(pattern, (ended.folder / file).read_text()) for ended in (without, with_it))
        assert one != other, file
    if row.leaves_out:
        assert ([*without.folder.glob(row.leaves_out)] != [], [*with_it.folder.glob(row.leaves_out)]) == (True, [])


def found(pattern: str, ended: Ended) -> bool:
    """Whether it was printed."""
    return re.search(pattern, ended.words) is not None
