"""Defaults of options from a file: the nearest one counts, the command line wins, nothing is written because of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main

SAMPLE = Path(__file__).parent.parent / "sample_traces" / "synthetic-memory-bound.json.gz"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, below one for settings."""
    folder = tmp_path / "project" / "run"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def analyzed(*args: str) -> Result:
    return CliRunner().invoke(main, ["analyze", str(SAMPLE), *args])


def test_the_nearest_file_gives_the_defaults(run: Path) -> None:
    (run.parent / "pyproject.toml").write_text("[tool.diagnose.analyze]\nquiet = true\n")

    assert len(analyzed().output.splitlines()) <= 5
    (run / "diagnose.toml").write_text('[analyze]\nfail-on = "critical"\n')
    found = analyzed()
    assert len(found.output.splitlines()) > 20
    assert found.exit_code == 1


def test_the_command_line_wins(run: Path) -> None:
    (run / "diagnose.toml").write_text("[analyze]\npeak-tflops = 2000\n")

    assert "peak (2,000 TFLOP/s)" in analyzed().output
    assert "peak (4,000 TFLOP/s)" in analyzed("--peak-tflops", "4000").output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[analyze]\nhtml = 'x.html'\n", "--html is only taken from the command line"),
        ("[analyze]\nscheduler = 'tcp://elsewhere:1'\n", "--scheduler is only taken from the command line"),
        ("[analyze]\nfail-onn = 'critical'\n", "analyze has no option --fail-onn"),
        ("analyze = 3\n", "analyze is no table"),
        ("[analyze\n", "the settings cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(run: Path, text: str, said: str) -> None:
    (run / "diagnose.toml").write_text(text)
    found = analyzed()

    assert found.exit_code == 2
    assert said in found.output
    assert "diagnose.toml" in found.output
    assert not (run / "x.html").exists()


def test_a_value_of_the_wrong_type_is_refused_as_if_typed(run: Path) -> None:
    (run / "diagnose.toml").write_text("[analyze]\njobs = 'many'\n")

    assert analyzed().exit_code == 2


def test_help_works_with_a_broken_file(run: Path) -> None:
    (run / "diagnose.toml").write_text("[analyze\n")

    assert analyzed("--help").exit_code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_names_the_command(shell: str) -> None:
    found = CliRunner().invoke(main, ["completion", shell])

    assert found.exit_code == 0
    assert "_DIAGNOSE_COMPLETE" in found.output


@pytest.mark.long
def test_commands_and_options_are_completed() -> None:
    asked = {"_DIAGNOSE_COMPLETE": "bash_complete", "COMP_CWORD": "2", "COMP_WORDS": "diagnose analyze --ht"}
    done = subprocess.run(
        [sys.executable, "-m", "diagnose"], env=os.environ | asked, capture_output=True, text=True, check=False
    )

    assert done.stdout == "plain,--html\n"
