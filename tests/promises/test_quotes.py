"""A report quotes what earlier promises of a rule came to, from five on; the analysis itself knows none."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import diagnoses
import jsonschema
import pytest
from click.testing import CliRunner
from kept_promises import missed, promise
from rich.console import Console

from diagnose.cli import main
from diagnose.commands.ledger.keeping import record
from diagnose.commands.ledger.prediction import Prediction
from diagnose.commands.ledger.tally import quoting
from diagnose.diagnosis import Diagnosis, TrackRecord
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.text import render

EIGHT = (*map(promise, range(7)), missed(7))
QUOTE = "on this machine 7 of 8 such gains fell in the predicted range"
SAMPLE = Path(__file__).parents[2] / "sample_traces" / "cpu-slow-loader.json.gz"


def text(diagnosis: Diagnosis, details: bool = False) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    render(diagnosis, console, details=details)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


FORMS: dict[str, Callable[[Diagnosis], str]] = {
    "text": text,
    "html": lambda diagnosis: page(diagnosis, About("1")),
    "markdown": lambda diagnosis: markdown(diagnosis, About("1")),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_report_quotes_the_rules_record(form: str) -> None:
    before = diagnoses.data_bound()

    assert QUOTE in FORMS[form](quoting(before, EIGHT))
    assert "on this machine" not in FORMS[form](before)


def test_a_change_that_is_planned_later_has_its_record_too() -> None:
    later = [step.rule for step in diagnoses.data_bound().plan][1]
    of_later = [promise(number, rules=(later,)) for number in range(6)]

    assert "on this machine 6 of 6 such gains" in text(quoting(diagnoses.data_bound(), of_later), details=True)


def test_fewer_than_five_promises_are_not_quoted() -> None:
    assert quoting(diagnoses.data_bound(), EIGHT[:4]).track_records == ()
    assert quoting(diagnoses.data_bound(), EIGHT[:5]).track_records != ()


def test_of_rules_that_did_not_fire_nothing_is_quoted() -> None:
    others = tuple(promise(number, rules=("moe-imbalance",)) for number in range(9))

    assert quoting(diagnoses.data_bound(), others).track_records == ()


def test_the_record_counts_and_divides() -> None:
    (found,) = quoting(diagnoses.data_bound(), (*EIGHT, promise(9, date="2026-11-02"))).track_records

    of_middle = 1.4 / (1.3 * 1.5) ** 0.5
    assert found == TrackRecord(
        rule="data-wait",
        promises=9,
        inside=8,
        achieved_of_predicted=pytest.approx(of_middle),
        newest="2026-11-02",
    )


def test_the_json_holds_it_and_keeps_to_the_schema() -> None:
    quoted = json.loads(quoting(diagnoses.data_bound(), EIGHT).to_json())

    jsonschema.validate(quoted, Diagnosis.schema())
    assert [(entry["rule"], entry["promises"], entry["inside"]) for entry in quoted["track_records"]] == [
        ("data-wait", 8, 7)
    ]


def analysed(*options: str) -> list[dict[str, object]]:
    """The records that `diagnose analyze` quotes for a job with a slow loader."""
    done = CliRunner().invoke(main, ["analyze", str(SAMPLE), "--json", *options])
    assert done.exit_code == 0, done.output
    return list(json.loads(done.stdout)["track_records"])


def keep(promises: tuple[Prediction, ...]) -> None:
    assert all(record(each).done for each in promises)


def test_the_command_quotes_where_the_ledger_is_on_and_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    keep(EIGHT)

    assert [entry["rule"] for entry in analysed()] == ["data-wait"]
    assert analysed("--no-ledger") == []
    monkeypatch.setenv("DIAGNOSE_LEDGER", "off")
    assert analysed() == []


def test_a_damaged_ledger_stops_no_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    keep(EIGHT)
    (tmp_path / "promises.jsonl").write_bytes(b"\x00\xff[[[" * 9999)

    assert analysed() == []
