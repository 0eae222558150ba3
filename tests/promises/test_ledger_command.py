"""`diagnose ledger`: how often changes gained what was predicted, to read, to share and to forget."""

import json
import os
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from kept_promises import missed, promise

from diagnose.cli import main
from diagnose.commands.ledger.answer import LedgerReport
from diagnose.commands.ledger.keeping import record
from diagnose.commands.ledger.lines import prediction_in
from diagnose.commands.ledger.prediction import Prediction


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the promises of this test are kept."""
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def ledger(*options: object, answer: str | None = None) -> Result:
    arguments = ["ledger", *map(str, options)]
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, arguments, input=answer)


def keep_some() -> None:
    """Three of one rule, of which one was missed, and one of two rules."""
    for each in (promise(1), promise(2, date="2026-06-01"), missed(3), promise(4, rules=("gc-pauses", "small-batch"))):
        assert record(each).done


def test_an_empty_ledger_says_how_entries_come_to_be() -> None:
    said = " ".join(ledger().output.split())

    assert "no prediction has been measured on this machine yet" in said
    assert "diagnose run --apply d.json -- train.py" in said


def test_each_rule_has_a_line_and_all_of_them() -> None:
    keep_some()

    lines = [line.split() for line in ledger().output.splitlines()]
    lines = lines[lines.index([]) + 1 :]

    assert lines[1] == ["data-wait", "3", "2", "(66.7", "%)", "1.00", "2026-06-01"]
    assert lines[2] == ["gc-pauses", "1", "1", "(100.0", "%)", "1.00", "2026-05-04"]
    assert lines[4] == ["all", "rules", "4", "3", "(75.0", "%)", "1.00", "2026-06-01"]
    assert lines[-1] == ["appending", "on"]


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_page_keeps_what_counts(columns: int) -> None:
    keep_some()
    record(promise(9, rules=("a-rule-of-a-company-with-a-name-that-is-longer-than-any-page-is-wide",)))

    lines = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["ledger"]).output.splitlines()

    table = lines[lines.index("") + 1 :]
    table = table[: table.index("")]
    assert max(map(len, table)) <= columns
    assert [line.split()[:4] for line in table if line.startswith("data-wait")] == [["data-wait", "3", "2", "(66.7"]]


def test_it_says_what_is_left_out_and_why_nothing_is_appended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_some()
    with (folder / "promises.jsonl").open("a") as damaged:
        damaged.write("{}\n")
    monkeypatch.delenv("DIAGNOSE_LEDGER")
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    said = "".join(ledger().output.split())

    assert "promises.jsonl(1linecannotberead)" in said, "however the page breaks the folder's name"
    assert "appendingoff:SLURM_JOB_IDisset,andDIAGNOSE_LEDGER=onisnot" in said


@pytest.mark.parametrize("empty", [True, False])
def test_the_json_keeps_to_its_schema(empty: bool) -> None:
    if not empty:
        keep_some()

    found = json.loads(ledger("--json").stdout)

    jsonschema.validate(found, json.loads(CliRunner().invoke(main, ["schema", "--of", "ledger"]).stdout))
    assert LedgerReport.schema()["title"] == "LedgerReport"
    assert [(entry["rule"], entry["inside"]) for entry in found["rules"]] == (
        [] if empty else [("data-wait", 2), ("gc-pauses", 1), ("small-batch", 1)]
    )
    assert (found["all_rules"] or {}).get("promises") == (None if empty else 4)


def test_an_export_holds_the_promises_and_says_what_is_in_it(tmp_path: Path) -> None:
    keep_some()

    said = ledger("--export", tmp_path / "shared.json").output

    shared = json.loads((tmp_path / "shared.json").read_text())
    read = [prediction_in(json.dumps(entry).encode()) for entry in shared["promises"]]
    assert read[0] == promise(1)
    assert len(read) == 4
    assert shared["about"].keys() == set(Prediction.__struct_fields__)
    assert "wrote 4 predictions to" in said
    assert "no paths, hosts, scripts or networks" in said


def test_the_ledger_is_not_written_over_by_its_export(folder: Path) -> None:
    keep_some()
    before = (folder / "promises.jsonl").read_bytes()

    done = ledger("--export", folder / "promises.jsonl")

    assert done.exit_code == 2
    assert (folder / "promises.jsonl").read_bytes() == before


def test_forgetting_asks_and_not_in_a_pipe(folder: Path) -> None:
    keep_some()

    in_a_pipe = ledger("--clear", answer="y\n")
    assert (in_a_pipe.exit_code, (folder / "promises.jsonl").exists()) == (2, True)
    assert "pass --yes" in in_a_pipe.output

    forgotten = ledger("--clear", "--yes")
    assert forgotten.output == "4 predictions forgotten\n"
    assert list(folder.iterdir()) == []
    assert ledger("--clear", "--yes").output == "no predictions are kept\n"


@pytest.mark.parametrize(("answer", "kept"), [("n\n", True), ("y\n", False)])
def test_in_a_terminal_the_answer_counts(
    answer: str, kept: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_some()
    monkeypatch.setattr("diagnose.commands.ledger.command._is_asked_in_a_terminal", lambda: True)

    said = ledger("--clear", answer=answer).output

    assert "Forget 4 predictions in" in said
    assert (folder / "promises.jsonl").exists() is kept


def test_a_ledger_that_cannot_be_used_says_why(folder: Path) -> None:
    keep_some()
    os.chmod(folder / "promises.jsonl", 0o666)

    for options in ((), ("--json",), ("--clear", "--yes")):
        done = ledger(*options)
        assert done.exit_code == 3
        assert "not a file of the user's alone" in done.output


@pytest.mark.parametrize("options", [("--json", "--clear"), ("--yes",), ("--clear", "--export", "x")])
def test_options_that_contradict_each_other_are_refused(options: tuple[str, ...]) -> None:
    assert ledger(*options).exit_code == 2
