"""What is told of a diagnosis: a line, figures, a document, and nothing that names the job."""

import json
from functools import cache
from typing import Any

import pytest
from integrations.told import diagnosed

from diagnose.probes.reporting import figures

LOADER, HEALTHY = "cpu-slow-loader.json.gz", "cpu-healthy.json.gz"


@cache
def _json(sample: str) -> str:
    return json.dumps(diagnosed(sample))


def diagnosis(sample: str = LOADER) -> dict[str, Any]:
    return dict(json.loads(_json(sample)))


@pytest.mark.parametrize(
    ("following", "says"),
    [
        (
            {"patch": {"target": "training_arguments", "set": {"dataloader_num_workers": 3}}},
            "dataloader_num_workers=3 buys 1.29x",
        ),
        (
            {"patch": {"target": "training_arguments", "set": {"bf16": True}}, "predicted_speedup": [1.0, 1.5]},
            "bf16=True buys 1.50x at most",
        ),
        ({"patch": None, "predicted_speedup": [0.85, 1.3]}, "next: data-wait (buys 1.30x at most, 0.85x at worst)"),
        ({"patch": None, "action": "use fused kernels"}, "next: use fused kernels (buys 1.29x)"),
        ({"patch": None, "predicted_speedup": None}, "next: data-wait (what it buys is not known)"),
        ({"patch": {"target": "code", "set": {"line": "open('/home/me')"}}}, "next: data-wait (buys 1.29x)"),
        ({"kind": "nothing"}, "nothing worth doing"),
        ({"kind": "capture"}, "the capture is at fault: read its report"),
    ],
)
def test_the_line_says_class_change_and_the_gain_that_is_promised(following: dict[str, Any], says: str) -> None:
    known = {"kind": "change", "rule": "data-wait", "action": "", "predicted_speedup": [1.29, 1.5]}

    assert figures.line(diagnosis() | {"next": known | following}) == f"data-bound, {says}"


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        (LOADER, "data-bound, num_workers=4, persistent_workers=True buys 1.36x"),
        (HEALTHY, "compute-bound, nothing worth doing"),
    ],
)
def test_the_line_of_a_sample(sample: str, says: str) -> None:
    assert figures.line(diagnosis(sample)) == says


def test_the_figures_are_those_of_the_report_and_the_classes_add_up_to_the_step() -> None:
    told = figures.scalars(diagnosis())
    classes = [told[f"diagnose/{name}_percent"] for name in figures.CLASSES]

    assert round(told["diagnose/step_ms"], 1) == 68.8
    assert round(told["diagnose/data_percent"], 1) == 47.1
    assert told["diagnose/window_step"] == 3
    assert told["diagnose/communication_percent"] == 0
    assert sum(classes) == pytest.approx(100)
    assert [round(told[f"diagnose/gain_{end}"], 2) for end in ("low", "high")] == [1.36, 1.89]


def test_what_is_not_known_has_no_figure() -> None:
    told = figures.scalars(diagnosis(HEALTHY))

    assert not told.keys() & {"diagnose/mfu_percent", "diagnose/gain_low", "diagnose/gain_high"}
    assert figures.scalars(diagnosis(HEALTHY) | {"mfu": {"value": 0.42}})["diagnose/mfu_percent"] == 42


def test_every_class_of_the_ledger_has_a_figure() -> None:
    from typing import get_args

    from diagnose.diagnosis.terms import CauseClass

    assert set(figures.CLASSES) == set(get_args(CauseClass))


def test_nothing_that_is_told_holds_a_path_a_host_or_an_argument() -> None:
    known = diagnosis()
    known["trace"]["files"] = ["/home/secret/rank0.json.gz"]
    known["ranks"][0]["host"] = "secret-host"
    known["setup"] = {"arguments.secret": "secret"}
    known["next"] |= {"says": "secret", "do": "secret", "where": [{"file": "secret.py"}]}
    known["findings"][0] |= {"says": "secret", "do": "secret", "where": [{"file": "secret.py"}]}
    settings = {"deepspeed": "/home/secret.json", "dataloader_num_workers": 3}
    for change in (known["next"], known["findings"][0]):
        change["patch"] = {"target": "training_arguments", "set": settings, "install": ["secret"], "by_run": {}}

    told = json.dumps([figures.line(known), figures.scalars(known), figures.document(known)])
    assert "secret" in json.dumps(known)
    assert "secret" not in told
    assert figures.document(known)["findings"][0]["settings"] == {"dataloader_num_workers": 3}
