"""Documents of earlier versions are read by their commands, or refused in one sentence that says what to do."""

import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main

HERE = Path(__file__).parent
DATES = sorted(path.name for path in HERE.iterdir() if path.name[:1].isdigit())
READ = {
    ("analyze", "bundle"): r"verdict +data-bound.*num_workers=",
    ("analyze", "armed"): r"steps 2 to [\d,]+, .*window +step 300: every 300 steps\n +verdict +data-bound",
    ("series", "armed"): r"steps 2 to [\d,]+, \d+ samples, median [\d.]+ ms",
    ("series", "bundle/capture-rank0.json"): r"step times of\s+capture records",
    ("compare", "tune/run-0", "tune/run-1.json"): r"verdict +B is [\d.]+x faster",
    ("compare", "bundle", "diagnosis.json"): r"verdict +no difference",
    ("baseline", "check", "loader", "bundle", "--dir", "baselines"): r"verdict +no difference",
    ("fleet", "."): r"\d jobs not counted\n\ntogether ",
    ("scaling", "diagnosis.json"): r"\n +1 +\d+\.\d",
    ("ledger",): r"cpu-optimizer +1 .*\ndata-wait +1 ",
    ("tune", "--resume", "tune", "--runs", "3"): r"workers 16.* kept\n.*after 3 runs",
}
APPLIED = ("tune/patch.json", "diagnosis.json#data-wait")
VERSIONED = {
    "diagnosis.json": (("compare", "diagnosis.json", "bundle"), "diagnose analyze RUN --json"),
    "baselines/loader.json": (("baseline", "check", "loader", "bundle", "--dir", "baselines"), "diagnose baseline"),
    "tune/tune.json": (("tune", "--resume", "tune"), "--out"),
}


@pytest.fixture(params=DATES)
def documents(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which one version wrote each document; that version kept the user's ledger."""
    folder = tmp_path / "job"
    shutil.copytree(HERE / request.param, folder)
    for packed in folder.rglob("*.packed"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(folder / "data"))
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    monkeypatch.chdir(folder)
    return folder


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args, prog_name="diagnose")


@pytest.mark.usefixtures("documents")
@pytest.mark.parametrize("command", READ, ids=" ".join)
def test_each_command_reads_what_an_earlier_version_wrote(command: tuple[str, ...]) -> None:
    result = run(*command)

    assert (result.exit_code, result.stderr) == (0, "")
    assert re.search(READ[command], result.stdout, re.DOTALL), result.stdout


@pytest.mark.capture
@pytest.mark.parametrize("patch", APPLIED)
def test_a_run_makes_a_change_that_an_earlier_version_planned(patch: str, documents: Path) -> None:
    command = [sys.executable, "-m", "diagnose", "run", "--apply", patch, "--", sys.executable, "-c", "pass"]

    done = subprocess.run(command, cwd=documents, capture_output=True, text=True, check=True)

    assert "diagnose: to apply: DataLoader(..., num_workers=16, persistent_workers=True)" in done.stderr


@pytest.mark.parametrize("name", VERSIONED)
def test_a_document_of_another_version_is_refused_with_what_to_do(name: str, documents: Path) -> None:
    command, remedy = VERSIONED[name]
    text = (documents / name).read_text()
    (documents / name).write_text(re.sub(r'"schema_version": ?\d+', '"schema_version": 99', text, count=1))

    result = run(*command)

    assert (result.exit_code, result.stdout) == (3, "")
    assert re.fullmatch(r"Error: .*\n(  \w+: .*\n)+", result.stderr), result.stderr
    assert "its schema_version is 99, not " in result.stderr
    assert remedy in result.stderr


def test_a_promise_of_another_version_is_left_out_and_named(documents: Path) -> None:
    ledger = documents / "data" / "promises.jsonl"
    ledger.write_text(ledger.read_text().replace('{"format":1,', '{"format":99,', 1))

    result = run("ledger")

    assert result.exit_code == 0
    assert "data-wait" in result.stdout
    assert "cpu-optimizer" not in result.stdout
    assert "1 line" in " ".join(result.output.split())
