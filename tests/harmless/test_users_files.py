"""Files of the user's in the place where a command would write: none is removed, and none that the command runs."""

import subprocess
import sys
from pathlib import Path

import pytest

DIAGNOSE = (sys.executable, "-m", "diagnose")
USERS = ("patch.json", "ladder.csv", "run-0.json", "run-0.log", "tune.html", ".notes.part", ".patch.json.draft.part")
SCRIPT = "print('trained')\n"


def ended(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DIAGNOSE, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with a script and files that a tune has names for, too."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in USERS:
        (folder / name).write_text("mine")
    (folder / "train.py").write_text(SCRIPT)
    return folder


@pytest.mark.parametrize("out", [".", "../work", "elsewhere"])
def test_a_tune_leaves_a_folder_with_files_alone(out: str, work: Path) -> None:
    (work / "elsewhere").mkdir()
    (work / "elsewhere" / "patch.json").write_text("mine")
    before = contents(work), contents(work / "elsewhere")

    done = ended("tune", "--out", out, "--", sys.executable, "train.py", cwd=work)

    assert (done.returncode, "cannot be measured" in done.stderr) == (3, True)
    assert (contents(work), contents(work / "elsewhere")) == before
    name = "elsewhere-2" if out == "elsewhere" else "work-2"
    assert "holds other files, which stay: the tune is in" in done.stderr
    (there,) = [path for path in (work / name, work.parent / name) if path.exists()]
    assert {path.name for path in there.iterdir() if path.is_file()} == {"tune.lock", "run-0.log"}


@pytest.mark.parametrize("option", ["--report", "--html", "--markdown", "--json"])
@pytest.mark.parametrize(
    ("used", "command"),
    [
        ("train.py", [sys.executable, "train.py"]),
        ("train.py", [sys.executable, "-m", "train"]),
        ("pkg/__main__.py", [sys.executable, "-m", "pkg"]),
        ("settings.yaml", [sys.executable, "train.py", "--config=settings.yaml"]),
        ("settings.yaml", [sys.executable, "train.py", "@settings.yaml"]),
    ],
)
def test_no_report_takes_the_place_of_what_the_command_runs(
    option: str, used: str, command: list[str], work: Path
) -> None:
    (work / used).parent.mkdir(exist_ok=True)
    (work / used).write_text(SCRIPT)

    done = ended("run", option, work / used, "--", *command, cwd=work)

    assert (done.returncode, done.stdout) == (2, "")
    assert f"{option} would overwrite" in done.stderr
    assert (work / used).read_text() == SCRIPT


def test_no_report_takes_the_place_of_the_patch(work: Path) -> None:
    (work / "patch.json").write_text('{"target": "TrainingArguments", "set": {"bf16": true}}')
    before = contents(work)

    words = ("--json", "patch.json", "--apply", "patch.json#launch-bound")
    done = ended("run", *words, "--", sys.executable, "train.py", cwd=work)

    assert (done.returncode, contents(work)) == (2, before)
