"""Each option that click lists has a run that shows its effect, and each command runs as a program of its own."""

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from options.inputs import Inputs
from options.jobs import PATIENCE_S, PROGRAM
from options.rows import Row, called, variables_of, words_of
from options.tables import COVERED, ROWS
from options.tree import commands, spellings

from diagnose.cli import main

FIRST = {row.command: row for row in reversed(ROWS)} | {"metrics": Row("metrics", "", "")}  # of each command
OF_THE_MOMENT = {"doctor"}  # what it finds differs from moment to moment, such as the room on the disk
SAYS = "write a row, or an effect on a real job, in the table of the command: tests/options/of_*.py"


def test_each_option_has_a_run_that_shows_its_effect() -> None:
    assert sorted(spellings() - COVERED) == [], SAYS


def test_no_table_speaks_of_an_option_that_is_not_there() -> None:
    assert sorted(COVERED - spellings()) == []


@pytest.mark.parametrize("command", commands())
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_printed_and_nothing_is_done(command: str, option: str) -> None:
    done = CliRunner().invoke(main, [*command.split(), option], prog_name="diagnose")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {' '.join(['diagnose', *command.split()])} ")
    assert "Example:  diagnose" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("command", FIRST)
def test_the_program_says_what_the_function_says(command: str, inputs: Inputs, tmp_path: Path) -> None:
    line, variables = FIRST[command].with_it, FIRST[command].variables
    inside = called(line, inputs, variables, tmp_path)
    done = subprocess.run(
        [str(PROGRAM), *words_of(line, inputs)],
        cwd=tmp_path, env=os.environ | variables_of(variables, inputs, tmp_path),
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (inside.code, inside.stderr)
    assert done.stdout == inside.stdout or command in OF_THE_MOMENT
