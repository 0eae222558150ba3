"""Predictions against what was measured: the ladder of Llama-3.2-1B, and public traces of one job before and after."""

import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from read_once import diagnosis_of

from diagnose.diagnosis import Diagnosis

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import calibration

        return calibration


def pair(calibration: ModuleType, rows: str, by: str):  # type: ignore[no-untyped-def]
    return next(each for each in calibration.pairs() if each.rows == rows and each.by.startswith(by))


@pytest.mark.parametrize(
    ("rows", "by", "error"),
    [
        ("15.1 to 15.3", "formula", 0.018),
        ("15.4 to 15.5", "formula", -0.027),
        ("15.6 to 15.7", "formula", -0.053),
        ("15.8 to 15.9", "formula", -0.118),
        ("15.4 to 15.5", "replay", -0.020),
        ("15.6 to 15.7", "replay", -0.047),
        ("15.5 to 15.6", "rule: unfused-attention", -0.045),
        ("15.5 to 15.6", "rule: unfused-attention, its kernels at 213 ms", 0.0),
        ("15.7 to 15.8", "rule: unfused-loss", -0.033),
    ],
)
def test_a_rung_is_foretold_from_the_one_before(calibration: ModuleType, rows: str, by: str, error: float) -> None:
    found = pair(calibration, rows, by)

    assert found.error == pytest.approx(error, abs=0.002)


@pytest.mark.parametrize(("rows", "saved"), [("15.3 to 15.4", 0.738), ("15.5 to 15.6", 0.65), ("15.7 to 15.8", 0.55)])
def test_bytes_are_a_lower_bound_of_what_is_saved(calibration: ModuleType, rows: str, saved: float) -> None:
    found = pair(calibration, rows, "formula: bytes")

    assert found.saving_share == pytest.approx((saved, saved), abs=0.005)


def test_no_rule_promises_more_than_the_ladder_gave(calibration: ModuleType) -> None:
    ruled = [each for each in calibration.pairs() if each.by.startswith(("rule", "replay"))]

    assert len(ruled) == 5
    assert all(each.predicted[0] <= each.measured for each in ruled)
    assert min(each.error for each in ruled) > -0.05


def test_the_parts_of_a_rung_add_up_to_its_step(calibration: ModuleType) -> None:
    row = calibration.ladder()["15.5"]

    found = calibration.parts_ms(row, calibration.SHAPE)

    assert sum(found.values()) == pytest.approx(500.7, abs=0.1)
    assert found["scores"] + found["score products"] == pytest.approx(194, abs=1)


def test_the_page_shows_the_table_that_the_command_prints(calibration: ModuleType) -> None:
    page = (Path(__file__).parents[2] / "docs" / "whatif.md").read_text(encoding="utf-8")

    assert calibration.table(calibration.pairs()) in page, "run python benchmarks/calibration.py"


# Public traces, which are not part of this project (see tests/test_real_traces.py).

VARIABLE = "DIAGNOSE_REAL_TRACES"
FOLDER = Path(os.environ.get(VARIABLE, ""))
PRESENT = VARIABLE in os.environ and (FOLDER / "LABELS.md").is_file()
real = pytest.mark.skipif(not PRESENT, reason=f"{VARIABLE} names no folder with labelled traces")


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Diagnosis]]:
    """The diagnoses by folder: one for the ranks of a job, two for a pair of jobs of one rank."""
    folders = sorted(path.parent for path in FOLDER.glob("*/*.json*") if path.parent.name != "damaged")
    return {
        path.name: [diagnosis_of(file) for file in sorted(path.glob("*.json*"))]
        if path.name.endswith("-pair")
        else [diagnosis_of(path)]
        for path in dict.fromkeys(folders)
    }


@real
def test_workers_are_foretold_to_buy_what_they_bought(answers: dict[str, list[Diagnosis]]) -> None:
    """The same training took 175.5 ms without loader workers and 126 ms (median) to 133 ms (mean) with four."""
    [found] = answers["resnet50-v100-workers0"]
    first = found.plan[0]

    assert first.rule == "data-wait"
    low, high = first.predicted_speedup or (0, 0)
    print(f"data-wait: {low:.2f}-{high:.2f}x predicted, {175.5 / 133:.2f}-{175.5 / 126:.2f}x achieved")
    assert low <= 175.5 / 133 < 175.5 / 126 <= 1.40 <= high


@real
def test_a_tuned_job_is_told_of_no_cure_for_its_host(answers: dict[str, list[Diagnosis]]) -> None:
    for found in answers["nanogpt-h100-pair"]:
        class_of = {finding.rule: finding.class_ for finding in found.findings}
        together = found.plan[-1].cumulative_speedup if found.plan else (1.0, 1.0)

        assert not {class_of[step.rule] for step in found.plan} & {"host", "data"}
        assert together is not None
        assert together[0] < 1.1


@real
def test_the_replay_of_real_steps_is_mostly_within_2_percent(answers: dict[str, list[Diagnosis]]) -> None:
    errors = {name: each.replay.strict_error for name, found in answers.items() for each in found}
    known = [error for error in errors.values() if error is not None]
    print({name: f"{error:.2%}" for name, error in errors.items() if error is not None})

    assert len(known) >= 8
    assert np.median(known) <= 0.02
