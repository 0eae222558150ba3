"""Public traces with an expert's label, which are not part of this project.

DIAGNOSE_REAL_TRACES names a folder with one folder for each labelled trace and LABELS.md, whose table has the columns
folder, class and accept; `accept` lists the answers that can be defended, separated by commas.
"""

import os
import re
from pathlib import Path

import pytest
from read_once import diagnosis_of

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError

VARIABLE = "DIAGNOSE_REAL_TRACES"
FOLDER = Path(os.environ.get(VARIABLE, ""))
PAIR = "nanogpt-h100-pair"
PRESENT = VARIABLE in os.environ and (FOLDER / "LABELS.md").is_file()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PRESENT, reason=f"{VARIABLE} names no folder with labelled traces"),
]


def labels() -> dict[str, set[str]]:
    """The classes to accept, by path of the trace or of the folder that holds one job's ranks."""
    if not PRESENT:
        return {}
    found = {}
    for line in (FOLDER / "LABELS.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) > 3 and (folder := re.fullmatch(r"`([\w.-]+)/`", cells[0])):
            accepted = set(re.split(r"\s*,\s*", cells[2]))
            files = sorted((FOLDER / folder[1]).glob("*.json*")) if folder[1] == PAIR else [FOLDER / folder[1]]
            found |= {str(path.relative_to(FOLDER)): accepted for path in files}
    return found


LABELS = labels()
each = pytest.mark.parametrize("name", LABELS)


def answer(name: str) -> Diagnosis:
    return diagnosis_of(FOLDER / name)


def test_labels_are_found() -> None:
    assert len(LABELS) >= 9
    assert all(accepted and all(a.endswith("-bound") for a in accepted) for accepted in LABELS.values())


@each
def test_the_class_is_one_that_the_expert_accepts(name: str) -> None:
    verdict = answer(name).verdict

    assert verdict.class_ in LABELS[name], verdict.because


@each
def test_the_ledger_adds_up_to_the_device_steps(name: str) -> None:
    found = answer(name)

    assert sum(e.ns for e in found.ledger) == found.steps.device_time_ns


@each
def test_at_most_10_percent_is_unexplained(name: str) -> None:
    assert sum(e.share for e in answer(name).ledger if e.class_ == "unexplained") <= 0.10


@each
def test_mfu_is_below_the_peak_or_unknown_with_a_reason(name: str) -> None:
    mfu = answer(name).mfu

    assert mfu.reason if mfu.value is None else 0 < mfu.value < 1


def test_two_runs_in_one_folder_are_refused_with_their_names() -> None:
    with pytest.raises(UserError, match="2 runs") as refusal:
        analyze(FOLDER / PAIR)

    assert str(refusal.value).count("--run") == 2


def test_a_loader_without_workers_is_the_first_finding() -> None:
    first = answer("resnet50-v100-workers0").findings[0]

    assert first.rule == "data-wait"
    assert first.patch is not None
    assert first.patch.set["num_workers"] >= 1


def test_the_speedup_that_workers_brought_lies_in_the_predicted_range() -> None:
    before, after = answer("resnet50-v100-workers0"), answer("resnet50-v100-workers4")
    predicted = before.findings[0].predicted_speedup

    per_step = [(d.steps.device_time_ns or 0) / d.steps.count for d in (before, after)]

    assert predicted is not None
    assert predicted[0] < per_step[0] / per_step[1] < predicted[1]


def test_workers_are_not_proposed_where_they_load_in_time() -> None:
    found = answer("resnet50-v100-workers4")

    assert not any("num_workers" in f.patch.set for f in found.findings if f.patch)
    assert "num_workers of the DataLoader" in {n.what for n in found.not_advised}


def test_the_rank_that_the_others_wait_for_is_named() -> None:
    assert [s.rank for s in answer("dlrm-8xv100").stragglers] == [7]


@each
def test_the_waterfall_adds_up_to_the_device_steps(name: str) -> None:
    found = answer(name)

    assert sum(p.ns for p in found.waterfall) == found.steps.device_time_ns
    assert sum(p.points for p in found.waterfall) == pytest.approx(100)


def test_forward_convolutions_in_fp32_are_held_against_fp32() -> None:
    found = answer("resnet50-v100-workers4")
    forward = next(e for e in found.roofline if (e.family, e.direction) == ("conv", "forward"))
    winograd = [e for e in found.roofline if e.family == "gemm" and e.direction == "forward"]

    assert (found.mfu.own_precision, found.mfu.own_peak_flops) == ("fp32", 15.7e12)
    assert forward.precision == "fp32"
    assert [e.note for e in winograd if (e.tflops or 0) > 15.7 and "fewer operations" in e.note]


def test_an_optimised_job_keeps_its_gpu_busy() -> None:
    for run in ("current", "hook"):
        path = next((FOLDER / PAIR).glob(f"*{run}*"))
        ledger = diagnosis_of(path).ledger
        assert sum(e.share for e in ledger if e.class_ not in ("host", "data", "unexplained")) > 0.97
