"""What is kept of a run that put a patch to the test: what was promised, what came, on what; and nothing else."""

import json
from typing import Any

import diagnoses
import pytest
from kept_promises import WORKERS, run_with_a_patch
from msgspec.structs import asdict, replace

from diagnose.commands.ledger import prediction
from diagnose.commands.ledger.lines import line_of, prediction_in
from diagnose.commands.ledger.prediction import Prediction, prediction_of, prediction_of_patch
from diagnose.diagnosis import NotApplied
from diagnose.diagnosis.promise import Change
from diagnose.version import __version__


def promised(**of_patch: Any) -> Prediction:
    found = prediction_of_patch(run_with_a_patch(**of_patch))
    assert found is not None
    return found


def test_a_run_with_a_patch_is_one_promise() -> None:
    found = promised()

    assert found.rules == ("data-wait",)
    assert found.predicted == (1.3, None, 1.5)
    assert found.achieved == pytest.approx((1.4 / 1.02, 1.4, 1.4 / 0.98), rel=1e-5)
    assert found.inside
    assert (found.hardware, found.ranks, found.source) == ("NVIDIA PG506-230", 2, "apply")


@pytest.mark.parametrize(
    ("predicted", "measured", "inside"),
    [
        ((1.3, 1.5), 1.2, False),
        ((1.3, 1.5), 1.296, True),  # prints as 1.30x
        ((1.3, 1.5), 1.6, False),
        ((1.3, None), 9.0, True),
    ],
)
def test_inside_is_what_the_report_calls_as_predicted(predicted: Any, measured: float, inside: bool) -> None:
    assert promised(predicted_speedup=predicted, measured=measured).inside is inside


MOVED = Change(name="data_wait_share", unit="share", before=0.4, after=0.01, moved=True)
STILL = Change(name="padding_share", unit="share", before=0.421, after=0.43, moved=False)
CROWDED = Change(name="core_wait_share", unit="share", before=0.65, after=0.31, moved=True)


def test_a_prediction_that_cannot_be_judged_is_not_kept() -> None:
    assert prediction_of_patch(run_with_a_patch(evidence=(STILL,))) is None
    assert prediction_of_patch(run_with_a_patch(confounders=(CROWDED,))) is None
    assert promised(evidence=(MOVED, STILL)).inside


@pytest.mark.parametrize(
    "nothing",
    [
        {"measured": None},
        {"predicted_speedup": None},
        {"rule": ""},
        {"refused": (NotApplied(key="prefetch_factor", because="it is in use"),)},
        {"predicted_speedup": (0.0, 1.5)},
        {"measured": 1e12},
    ],
    ids=["no measurement", "no prediction", "no rule", "a part is not in use", "no speed", "beyond all measure"],
)
def test_without_a_whole_promise_nothing_is_kept(nothing: Any) -> None:
    assert prediction_of_patch(run_with_a_patch(**nothing)) is None
    assert prediction_of_patch(diagnoses.data_bound()) is None


def test_a_build_of_ones_own_is_kept_without_its_name() -> None:
    found = promised()

    assert found.versions == {"torch": "2.8.0a0", "transformers": "4.55.4", "diagnose": __version__.partition("+")[0]}


def test_nothing_of_the_users_is_in_a_line() -> None:
    run = run_with_a_patch()
    ranks = tuple(replace(rank, host="node17.example.com") for rank in run.ranks)
    files = replace(run.trace, files=("/home/ada/secret/train.json",))

    line = line_of(prediction_of_patch(replace(run, ranks=ranks, trace=files)) or pytest.fail("no promise")).decode()

    assert json.loads(line).keys() == set(Prediction.__struct_fields__)
    assert not any(word in line for word in ("node17", "ada", "secret", "train", "buildhost", "num_workers"))
    assert len(line) < 600


def test_the_same_run_has_one_key_and_another_run_another() -> None:
    run = run_with_a_patch()
    longer = replace(run, steps=replace(run.steps, time_ns=run.steps.time_ns + 1))

    keys = [
        found.key
        for found in (
            prediction_of_patch(run),
            prediction_of_patch(run, "compare", achieved=(1.35, 1.39, 1.44)),
            prediction_of_patch(longer),
            prediction_of(run, ["gc-pauses"], (1.0, None, 1.1), (None, 1.05, None), "tune"),
        )
        if found is not None
    ]

    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_without_a_gpu_the_cpu_is_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_with_a_patch()
    on_cpu = replace(run, ranks=tuple(replace(rank, device="CPU") for rank in run.ranks))
    monkeypatch.setattr(prediction, "this_cpu", lambda: "AMD EPYC 9554")

    assert (prediction_of_patch(on_cpu) or pytest.fail("no promise")).hardware == "AMD EPYC 9554"


def test_this_machine_has_a_cpu_with_a_name() -> None:
    assert prediction.this_cpu().strip() != ""


def test_a_promise_is_read_back_as_it_was_written() -> None:
    found = replace(promised(), rules=("data-wait", "gc-pauses"))

    assert asdict(prediction_in(line_of(found)) or pytest.fail("not read")) == asdict(found)
    assert WORKERS.target not in line_of(found).decode()
