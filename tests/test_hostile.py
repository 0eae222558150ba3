"""Inputs made to break things: each is read or refused with one message, and none ends in a defect.

`hostile/ENDS.json` names the end of each: "read" is analysed, "either" may be refused, too. DIAGNOSE_HOSTILE_INPUTS
names a further folder of the same form.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.diagnosis import Diagnosis

OWN = Path(__file__).parent / "hostile"
MORE = os.environ.get("DIAGNOSE_HOSTILE_INPUTS", "")
SAMPLE = Path(__file__).parent.parent / "sample_traces" / "synthetic-memory-bound.json.gz"
VALIDATOR = jsonschema.Draft202012Validator(Diagnosis.schema())


def listed(folder: Path) -> list[tuple[Path, str]]:
    ends = folder / "ENDS.json"
    return [(folder / name, end) for name, end in json.loads(ends.read_text()).items()] if ends.is_file() else []


def cases() -> Iterator[Any]:
    for path, end in listed(OWN):
        yield pytest.param(path, end, id=f"{path.parent.name}/{path.name}")
    further = listed(Path(MORE)) if MORE else []
    for path, end in further:
        yield pytest.param(path, end, id=f"further {path.parent.name}/{path.name}")
    if not further:
        why = "set DIAGNOSE_HOSTILE_INPUTS to a folder with ENDS.json"
        yield pytest.param(OWN, "", id="further", marks=pytest.mark.skip(reason=why))


def settings_files() -> list[Path]:
    folders = [OWN / "settings", *([Path(MORE) / "settings"] if MORE else [])]
    return [path for folder in folders for path in sorted(folder.glob("*.toml*"))]


def placed(file: Path, folder: Path) -> str:
    """The name under which the file now lies in the folder; some end in .txt, since tools read a pyproject.toml."""
    name = file.name.removesuffix(".txt")
    (folder / name).write_bytes(file.read_bytes())
    return name


def asked(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def strict(text: str) -> Any:
    """JSON without the NaN and Infinity that Python takes."""
    return json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))


@pytest.mark.long
@pytest.mark.parametrize(("path", "end"), list(cases()))
def test_it_is_read_or_refused(path: Path, end: str) -> None:
    command = "series" if path.parent.name == "series" else "analyze"
    done = asked(command, str(path), "--json")

    if end == "either" and done.exit_code == 3:
        assert done.stderr.startswith("Error: ")
        return
    assert done.exit_code == 0, done.stderr
    found = strict(done.stdout)
    if command == "analyze":
        assert [error.message for error in VALIDATOR.iter_errors(found)] == []
        steps = found["steps"]
        whole = steps["time_ns"] if steps["device_time_ns"] is None else steps["device_time_ns"]
        assert sum(entry["ns"] for entry in found["ledger"]) == whole
        assert not [entry for entry in found["not_judged"] if "a bug in diagnose" in entry["because"]]


@pytest.mark.parametrize("options", [["--details", "--kernels", "3"], ["--markdown", "-"]], ids=" ".join)
@pytest.mark.parametrize("name", ["records/rec400", "records/recdtypes2", "traces/sdpa0", "fuzzed/2-129"])
def test_it_is_reported(name: str, options: list[str]) -> None:
    assert asked("analyze", str(OWN / name), *options).exit_code == 0


def test_what_a_record_cannot_hold_is_a_loss_that_is_told() -> None:
    found = strict(asked("analyze", str(OWN / "records" / "rec400"), "--json").stdout)
    printed = asked("analyze", str(OWN / "records" / "rec400"), "--details").output

    assert "record-value dataloader.prefetch_factor" in found["trace"]["loss"]["kinds"]
    assert "record-value dataloader.prefetch_factor" in " ".join(printed.split())
    assert next(f for f in found["facts"] if f["name"] == "prefetched_batches")["value"] is None


@pytest.mark.parametrize("file", settings_files(), ids=lambda file: file.name)
def test_settings_and_rules_are_wrong_usage(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = placed(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    rules = ["--rules", str(tmp_path)] if name.startswith("rule-") else []

    done = asked("analyze", str(SAMPLE), "--quiet", *rules)

    assert done.exit_code == 2
    assert name in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("file", settings_files(), ids=lambda file: file.name)
def test_settings_stop_no_job(file: Path, tmp_path: Path) -> None:
    placed(file, tmp_path)
    command = [sys.executable, "-m", "diagnose", "run", "--no-report", "--", sys.executable, "-c", "print('trained')"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "trained" in done.stdout


def test_a_clean_change_is_found() -> None:
    found = strict(asked("series", str(OWN / "series" / "s.csv"), "--json").stdout)

    (change,) = found["changes"]
    assert change["since_step"] == 20
    assert change["after_s"] == pytest.approx(2 * change["before_s"])


NOT_UTF8 = os.fsdecode(b"a\xff\xfeb")


@pytest.mark.parametrize("options", [["--json"], ["--details"], ["--markdown", "-"]], ids=" ".join)
def test_a_name_that_is_not_utf8(options: list[str], tmp_path: Path) -> None:
    folder = tmp_path / NOT_UTF8
    folder.mkdir()
    (folder / f"{NOT_UTF8}.json.gz").write_bytes(SAMPLE.read_bytes())

    done = asked("analyze", str(folder / f"{NOT_UTF8}.json.gz"), *options)

    assert done.exit_code == 0, done.stderr
    if options == ["--json"]:
        assert strict(done.stdout)["trace"]["files"][0].endswith("a\\xff\\xfeb.json.gz")


@pytest.mark.parametrize("name", ["x" * 300, "/".join(["y" * 250] * 20)], ids=["a part", "the path"])
def test_a_name_that_is_too_long(name: str) -> None:
    for arguments in (["analyze", name], ["series", name], ["run", "--apply", name, "--", "true"]):
        done = asked(*arguments)
        assert done.exit_code == 3
        assert "too long" in done.stderr
    assert asked("analyze", str(SAMPLE), "-q", "--rules", name).exit_code == 2
    assert asked("analyze", str(SAMPLE), "-q", "--html", name).exit_code == 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["analyze", str(SAMPLE), "-q"], 0),
        (["analyze", str(SAMPLE), "--markdown", "-"], 0),
        (["analyze", "x.json"], 3),
        (["analyze", str(SAMPLE), "-q", "--html", "x.html"], 3),
        (["series", "."], 3),
        (["rules"], 0),
        (["run", "--no-report", "--", "true"], 0),
    ],
    ids=lambda value: " ".join(map(str, value[:1])) if isinstance(value, list) else str(value),
)
def test_a_working_folder_that_is_gone(arguments: list[str], code: int, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    begin = f"import os, sys; os.rmdir({str(gone)!r}); from diagnose.cli import main; main({arguments!r})"

    done = subprocess.run([sys.executable, "-c", begin], cwd=gone, capture_output=True, text=True, check=False)

    assert done.returncode == code, done.stderr
