"""Advice on padding in real jobs: rows that are padded before they are batched get no grouping alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs

needs("torch")
pytest.importorskip("transformers")
pytest.importorskip("datasets")
pytestmark = [pytest.mark.capture, pytest.mark.slow]

JOBS = Path(__file__).parent / "jobs"
PADDED = JOBS / "padded_to_max_length_looks_dynamic.py"
PATIENCE_S = 900


def diagnosis(folder: Path, *job: object, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """Of a run of the job."""
    file = folder / "diagnosis.json"
    command = [sys.executable, "-m", "diagnose", "run", "--no-ledger", "--stop", "--json", file, *options, "--"]
    subprocess.run(
        list(map(str, [*command, sys.executable, *job])),
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    answer: dict[str, Any] = json.loads(file.read_text())
    return answer


def finding(answer: dict[str, Any]) -> dict[str, Any] | None:
    return next((each for each in answer["findings"] if each["rule"] == "padded-batches"), None)


def facts(answer: dict[str, Any]) -> dict[str, Any]:
    return {fact["name"]: fact["value"] for fact in answer["facts"]}


@pytest.mark.parametrize("how", ["random", "group_by_length"])
def test_rows_that_come_padded_are_unpadded_before_they_are_grouped(how: str, tmp_path: Path) -> None:
    answer = diagnosis(tmp_path, PADDED, how)
    found = finding(answer)

    assert (facts(answer)["padding_kind"], facts(answer)["static_padding_place"]) == ("static", "dataset")
    assert found is not None
    assert found["do"].startswith('Tokenise without padding="max_length"')
    assert list(found["patch"]["set"]) == ["padding", "train_sampling_strategy"]


def test_a_job_that_was_cured_hears_nothing_of_padding(tmp_path: Path) -> None:
    answer = diagnosis(tmp_path, PADDED, "longest")

    assert finding(answer) is None
    assert facts(answer)["padding_share"] < 0.05


def test_the_padding_is_cut_off_by_a_run_and_samples_are_grouped_by_their_real_length(tmp_path: Path) -> None:
    patch = tmp_path / "patch.json"
    grouped = {"train_sampling_strategy": "group_by_length"}
    patch.write_text(
        json.dumps(
            [{"target": "collator", "set": {"padding": "longest"}}, {"target": "training_arguments", "set": grouped}]
        )
    )
    answer = diagnosis(tmp_path, PADDED, "random", options=("--apply", str(patch)))

    assert answer["applied"]["refused"] == []
    assert facts(answer)["padding_share"] < 0.05


def test_samples_without_input_ids_are_never_to_be_grouped_by_the_trainer(tmp_path: Path) -> None:
    answer = diagnosis(tmp_path, JOBS / "group_by_length_cannot_be_applied.py", "random")
    found = finding(answer)

    assert found is not None
    assert found["patch"] is None
    assert "group_by_length" not in found["do"]
    assert "train_sampling_strategy" in [each["what"] for each in answer["not_advised"]]


@pytest.mark.parametrize("how", ["random", "group_by_length", "longest"])
def test_data_tells_the_same_kind_as_run(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "diagnose", "data", "--json", "--seconds", "2", "--", sys.executable]
    done = subprocess.run(
        [*command, str(PADDED), how], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    padding = json.loads(done.stdout[done.stdout.index("{") :])["padding"]

    assert (padding["kind"], padding["place"]) == (("dynamic", "") if how == "longest" else ("static", "dataset"))
