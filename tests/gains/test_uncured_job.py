"""A change that cures nothing in a real job is never "as predicted", whatever the machine makes of its speed."""

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

JOB = Path(__file__).parent.parent / "advice" / "jobs" / "padded_to_max_length_looks_dynamic.py"
GROUPED = {"target": "training_arguments", "set": {"train_sampling_strategy": "group_by_length"}}
PATIENCE_S = 900


def diagnose(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diagnose", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=PATIENCE_S)


def ran(folder: Path, name: str, *options: str) -> tuple[dict[str, Any], str]:
    """The diagnosis of a run whose rows are all padded to one length, and its report."""
    told = diagnose(
        folder, "run", "--no-ledger", "--stop", "--out", name, "--json", f"{name}.json", *options, "--",
        sys.executable, str(JOB), "random",
    )  # fmt: skip
    return json.loads((folder / f"{name}.json").read_text()), " ".join(told.stderr.split())


def promised_of_grouping_alone(before: dict[str, Any]) -> dict[str, Any]:
    """The diagnosis as if it promised the gain of all padding for grouping alone."""
    finding = next(each for each in before["findings"] if each["rule"] == "padded-batches")
    ours = {**finding, "patch": GROUPED, "predicted_speedup": [1.2, 4.0]}
    return {**before, "findings": [ours], "plan": []}


def test_rows_that_are_all_padded_alike_are_not_cured_by_grouping(tmp_path: Path) -> None:
    before, _ = ran(tmp_path, "before")
    (tmp_path / "promise.json").write_text(json.dumps(promised_of_grouping_alone(before)))

    after, report = ran(tmp_path, "after", "--apply", "promise.json#padded-batches")
    compared = json.loads(diagnose(tmp_path, "compare", "before.json", "after.json", "--json", "--no-ledger").stdout)

    padding = next(each for each in after["applied"]["evidence"] if each["name"] == "padding_share")
    assert not padding["moved"]
    assert any(
        said in report for said in ("cannot be judged (", "(nothing was cured: padding_share", "measured unknown")
    )
    judgement, measured = compared["promise"]["judgement"], after["applied"]["measured"]
    assert judgement is None or judgement["standing"] in ("less", "unjudged")
    assert compared["promise"]["measured"] == (measured and pytest.approx(measured))
