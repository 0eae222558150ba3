"""Each output has a file of its own, and none is an input: wrong usage before any work is done."""

import gzip
import os
import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from armed_folders import SAMPLES
from click.testing import CliRunner
from options.commands import called, commands

from diagnose.cli import main

ARGUMENTS = {
    ("analyze",): ["t.json.gz"],
    ("run",): ["--", "train.py"],
    ("compare",): ["t.json.gz", "t.json.gz"],
    ("baseline", "check"): ["base", "t.json.gz"],
    ("fleet",): ["runs"],
    ("watch",): ["runs"],
    ("fit",): ["--table", "t.csv", "--heat-map"],
}
PAIRS = [
    pytest.param(words, one.opts[-1], other.opts[-1], id="".join((*words, one.opts[-1], other.opts[-1])))
    for words, command in commands()
    for one, other in combinations([each for each in command.params if getattr(each, "writes", False)], 2)
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(SAMPLES / "cpu-healthy.json.gz", tmp_path / "t.json.gz")
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def straight(path: Path) -> str:
    return path.name


def whole(path: Path) -> str:
    return str(path)


def linked(path: Path) -> str:
    os.symlink(path, path.parent / "link")
    return "link"


def through_a_folder(path: Path) -> str:
    os.symlink(path.parent, path.parent / "again")
    return f"again/{path.name}"


@pytest.mark.parametrize("spelled", [straight, whole, linked, through_a_folder])
@pytest.mark.parametrize(("words", "one", "other"), PAIRS)
def test_two_outputs_into_one_file(
    words: tuple[str, ...], one: str, other: str, spelled: Callable[[Path], str], here: Path
) -> None:
    done = called(*words, one, "out.x", other, spelled(here / "out.x"), *ARGUMENTS[words])

    assert (done.exit_code, done.stdout) == (2, "")
    assert "would be one file" in done.stderr
    assert not (here / "out.x").exists()


def test_no_two_outputs_are_forgotten() -> None:
    assert len(PAIRS) > 15
    named = {words: [p.name for p in command.params if getattr(p, "writes", False)] for words, command in commands()}
    assert named[("analyze",)] == ["html", "markdown", "tables", "annotate"]
    assert named[("run",)] == ["out", "report", "html", "markdown", "json"]


@pytest.mark.parametrize("option", ["--html", "--markdown", "--annotate"])
@pytest.mark.parametrize("spelled", [straight, whole, linked, through_a_folder])
def test_an_output_that_is_the_trace(option: str, spelled: Callable[[Path], str], here: Path) -> None:
    before = (here / "t.json.gz").read_bytes()

    done = called("analyze", "t.json.gz", option, spelled(here / "t.json.gz"))

    assert (done.exit_code, "would overwrite what is read" in done.stderr) == (2, True)
    assert (here / "t.json.gz").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "runs", "--annotate", "runs/rank0.json.gz"),
        ("analyze", "t.json.gz", "--metrics", "m.txt", "--html", "m.txt"),
        ("run", "--apply", "p.json", "--json", "p.json", "--", "true"),
        ("run", "--apply", "p.json#data-wait", "--json", "p.json", "--", "true"),
        ("fleet", "runs", "--accounting", "runs/jobs.csv", "--tables", "runs"),
        ("fleet", "runs", "--html", "runs/rank0.json.gz"),
        ("baseline", "save", "t", "t.json", "--dir", "."),
        ("baseline", "save", "rank0", "runs", "--dir", "runs"),
        ("baseline", "check", "base", "t.json.gz", "--html", ".diagnose-baselines/base.json"),
    ],
)
def test_an_output_that_is_another_input(words: tuple[str, ...], here: Path) -> None:
    (here / ".diagnose-baselines").mkdir()
    shutil.copy(here / "t.json.gz", here / "runs" / "rank0.json.gz")
    (here / "runs" / "rank0.json").write_bytes(gzip.decompress((here / "t.json.gz").read_bytes()))
    shutil.copy(here / "runs" / "rank0.json", here / "t.json")
    for name in ("m.txt", "p.json", "runs/jobs.csv", ".diagnose-baselines/base.json"):
        (here / name).write_text("mine")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}

    done = called(*words)

    assert (done.exit_code, "would overwrite" in done.stderr) == (2, True), done.output
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


def test_a_page_that_was_written_beside_the_traces_is_renewed(here: Path) -> None:
    shutil.copy(here / "t.json.gz", here / "runs" / "rank0.json.gz")
    (here / "runs" / "report.md").write_text("of before")

    done = called("analyze", "runs", "-q", "--markdown", "runs/report.md")

    assert done.exit_code == 0, done.stderr
    assert (here / "runs" / "report.md").read_text() != "of before"


def test_a_baseline_beside_the_traces_is_kept_anew(here: Path) -> None:
    shutil.copy(here / "t.json.gz", here / "runs" / "rank0.json.gz")
    kept = [called("baseline", "save", "base", "runs", "--dir", "runs/kept").exit_code for _ in range(2)]

    assert kept == [0, 0]


def test_a_table_in_the_folder_of_tables(here: Path) -> None:
    (here / "tables").mkdir()

    done = called("analyze", "t.json.gz", "--tables", "tables", "--html", "tables/causes.csv")

    assert (done.exit_code, "would be one file" in done.stderr) == (2, True)


def test_what_is_thrown_away_may_be_so_twice() -> None:
    done = called("analyze", "t.json.gz", "-q", "--html", os.devnull, "--markdown", os.devnull)

    assert done.exit_code == 0, done.stderr


def test_standard_output_twice() -> None:
    done = CliRunner().invoke(main, ["analyze", "t.json.gz", "--markdown", "-", "--html", "/dev/stdout"])

    assert (done.exit_code, "would be one file" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "t.json.gz", "--html", "-"),
        ("compare", "t.json.gz", "t.json.gz", "-o", "-"),
        ("run", "--json", "-", "--", "true"),
        ("fleet", "runs", "--tables", "-"),
    ],
)
def test_a_dash_is_no_name_of_a_file(words: tuple[str, ...], here: Path) -> None:
    done = called(*words)

    assert (done.exit_code, done.stdout) == (2, "")
    assert not (here / "-").exists()


def test_a_page_into_what_is_printed(here: Path) -> None:
    import subprocess
    import sys

    with open("both.html", "wb") as both:
        command = [sys.executable, "-m", "diagnose", "analyze", "t.json.gz", "--html", "both.html"]
        done = subprocess.run(command, stdout=both, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, "what is printed" in done.stderr) == (2, True)
