"""Which run the numbers are of, and what is printed of a rule."""

import os
import shutil
from pathlib import Path

import pytest
from explain_answers import MEMORY_BOUND, SAMPLES, SLOW_LOADER, explain, sample

from diagnose.probes.protocol import DIAGNOSIS

YOURS = "eta 72.2 % x share that computes 26.6 %"


def test_a_trace_a_folder_and_a_kept_diagnosis_give_the_same_numbers(tmp_path: Path) -> None:
    folder, kept = tmp_path / "run", tmp_path / "answer.json"
    folder.mkdir()
    (folder / DIAGNOSIS).write_text(sample(MEMORY_BOUND).diagnosis.to_json())
    shutil.copy(folder / DIAGNOSIS, kept)

    for path in (SAMPLES / MEMORY_BOUND, folder, kept):
        done = explain("mfu", "--from", str(path))
        assert done.exit_code == 0, done.stderr
        assert YOURS in " ".join(done.stdout.split())
        assert f"run:        {path}"[:60] in done.stdout


def test_a_diagnosis_of_another_version_gives_way_to_the_traces_beside_it(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / MEMORY_BOUND, tmp_path)
    (tmp_path / DIAGNOSIS).write_text('{"schema_version": 0, "verdict": {}}')

    assert YOURS in " ".join(explain("mfu", "--from", str(tmp_path)).stdout.split())


def test_without_a_run_named_the_last_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for age, name in enumerate((MEMORY_BOUND, SLOW_LOADER)):
        folder = tmp_path / "diagnose-runs" / name.removesuffix(".json.gz")
        folder.mkdir(parents=True)
        (folder / DIAGNOSIS).write_text(sample(name).diagnosis.to_json())
        os.utime(folder, (1e9 - age, 1e9 - age))
    monkeypatch.chdir(tmp_path)

    told = explain("mfu").stdout

    assert "run:        diagnose-runs/synthetic-memory-bound" in told
    assert YOURS in " ".join(told.split())


def test_a_last_run_that_cannot_be_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "diagnose-runs" / "empty").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    done = explain("mfu")

    assert done.exit_code == 0
    assert "the last run is left out" in done.stderr
    assert "numbers:    For example" in done.stdout


@pytest.mark.parametrize(("name", "text"), [("steps.csv", "step,seconds\n1,0.5\n2,0.5\n3,0.5\n"), ("gone", "")])
def test_what_holds_no_diagnosis_is_unusable_input(tmp_path: Path, name: str, text: str) -> None:
    if text:
        (tmp_path / name).write_text(text)

    done = explain("mfu", "--from", str(tmp_path / name))

    assert done.exit_code == 3
    assert "Error: " in done.stderr
    assert "do: " in done.stderr


def test_the_conditions_of_a_rule_are_printed_only_if_asked_for() -> None:
    assert "data_wait_share > 0.20" in explain("data-wait", "--rule").stdout
    assert "data_wait_share > 0.20" not in explain("data-wait").stdout
    assert "critical if data wait is above 20 % of the step" in explain("data-wait").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mfu", "--rule"), "mfu (word) is none"),
        (("data-wait", "--rule", "--from", "x"), "choose one of"),
        ((), "Missing argument"),
    ],
)
def test_wrong_usage_says_what_is_wrong(words: tuple[str, ...], says: str) -> None:
    done = explain(*words)

    assert done.exit_code == 2
    assert says in done.stderr
