"""The command line of `diagnose tune`, as far as no job is started."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_up_jobs import MadeUpRuns, diagnosed, planned

from diagnose.cli import main
from diagnose.commands.ledger import file
from diagnose.commands.tune.answer import Rung, Settings, Tuning
from diagnose.commands.tune.settings import patches_of
from diagnose.commands.tune.state import TuneFolder, default_folder
from diagnose.diagnosis import Applied, Diagnosis


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["tune", *map(str, args)])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "Give either a command after `--` or --resume DIR"),
        (["--resume", "there", "--", "train.py"], "Give either a command after `--` or --resume DIR"),
        (["--resume", "there", "--out", "there"], "choose one of --resume and --out."),
        (["--runs", "0", "--", "train.py"], "0 is not in the range"),
        (["--budget", "soon", "--", "train.py"], "'--budget'"),
    ],
)
def test_wrong_usage(args: list[str], says: str) -> None:
    done = run(*args)

    assert done.exit_code == 2
    assert says in done.output


def test_there_has_to_be_a_tune_to_go_on_with(tmp_path: Path) -> None:
    done = run("--resume", tmp_path)

    assert done.exit_code == 3
    assert "there is no tune to continue" in done.output


def test_a_folder_is_one_commands(tmp_path: Path) -> None:
    TuneFolder(tmp_path).write(
        Tuning(command=("train.py",), rungs=(Rung(number=0, change="as it is", outcome="ok", decision="first"),))
    )
    done = run("--out", tmp_path, "--", "other.py")

    assert done.exit_code == 3
    assert "the folder holds the tune of another command" in done.output


def test_a_python_that_takes_no_hook_is_not_tuned(tmp_path: Path) -> None:
    done = run("--out", tmp_path, "--", "python", "-I", "train.py")

    assert done.exit_code == 3
    assert "Python runs with -I" in done.output


def test_a_tune_starts_the_whole_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "8")
    done = run("--out", tmp_path, "--", "train.py")

    assert done.exit_code == 3
    assert "a tune starts the whole job itself" in done.output


def test_a_command_that_is_not_there_ends_as_a_shell_ends(tmp_path: Path) -> None:
    assert run("--out", tmp_path, "--", "no-such-program-anywhere").exit_code == 127


def test_the_same_command_finds_its_folder_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, again, other = (
        default_folder(words) for words in (["train.py", "--lr", "1"], ["train.py", "--lr", "1"], ["train.py"])
    )

    assert one == again
    assert one != other
    assert one.name.startswith("tune-train-")


@pytest.mark.parametrize(("options", "kept"), [([], [("half",)]), (["--no-ledger"], [])])
def test_a_promise_that_a_run_put_to_the_test_is_kept_unless_not_wanted(
    options: list[str], kept: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(settings: Settings) -> Diagnosis:
        applied = Applied(patches=patches_of(settings), rule="half", predicted_speedup=(1.3, 2.0))
        plan = [] if settings else [planned("half", (1.3, 2.0), bf16=True)]
        return diagnosed(60.0 if settings else 100.0, plan, settings, applied=applied if settings else None)

    monkeypatch.setattr("diagnose.commands.tune.command.JobRuns", lambda *_: MadeUpRuns(job))
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path / "data"))
    done = run("--out", tmp_path / "tune", "--no-repeat", "--noise", "1%", *options, "--", sys.executable, "train.py")

    assert done.exit_code == 0, done.output
    assert [each.rules for each in file.read(tmp_path / "data").predictions] == kept
