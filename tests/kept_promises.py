"""Hand-built promises, and diagnoses of runs that put one to the test."""

from collections.abc import Mapping
from typing import Any

import diagnoses
from msgspec.structs import replace

from diagnose.commands.ledger.prediction import Prediction
from diagnose.diagnosis import Applied, Diagnosis, Patch
from diagnose.diagnosis.promise import CONFOUNDERS

WORKERS = Patch(target="dataloader", set={"num_workers": 4})


def promise(number: int = 0, **changes: Any) -> Prediction:
    """A gain of 1.4x promised for more workers, and measured; another `number` is another run."""
    known = {
        "date": "2026-05-04",
        "rules": ("data-wait",),
        "predicted": (1.3, None, 1.5),
        "achieved": (1.38, 1.4, 1.42),
        "inside": True,
        "hardware": "NVIDIA H100 80GB HBM3",
        "ranks": 8,
        "versions": {"torch": "2.8.0", "diagnose": "0.1.0"},
        "source": "apply",
        "key": f"{number:024x}",
    }
    return Prediction(**(known | changes))


def missed(number: int) -> Prediction:
    """One that gained less than promised."""
    return promise(number, achieved=(1.08, 1.1, 1.12), inside=False)


def _measured(speed: float | None) -> dict[str, Any]:
    noisy = None if speed is None else (speed / 1.02, speed, speed / 0.98)
    return {"measured_speedup": speed, "measured": noisy}


def run_with_a_patch(measured: float | None = 1.4, **changes: Any) -> Diagnosis:
    """A data-bound job of two ranks, run with more workers for which 1.3x to 1.5x were predicted."""
    of_patch = {"patches": (WORKERS,), "rule": "data-wait", "predicted_speedup": (1.3, 1.5), "noise_share": 0.02}
    return replace(
        diagnoses.data_bound(),
        applied=Applied(**(of_patch | _measured(measured) | changes)),
        versions={"torch": "2.8.0a0+git.buildhost", "transformers": "4.55.4", "python": "3.12"},
    )


def kept_at_any_speed(diagnosis: Mapping[str, Any]) -> dict[str, Any]:
    """The same diagnosis, as JSON, with promises that any speed keeps, however busy the machine of the run with the
    patch is: they rest on no fact that such a machine changes, and on medians, which no noise hides.
    """
    sure = {"predicted_speedup": [1e-6, 1e6], "usual_speedup": None, "evidence": []}
    return {
        **diagnosis,
        "findings": [{**finding, **sure} for finding in diagnosis["findings"]],
        "facts": [fact for fact in diagnosis["facts"] if fact["name"] not in CONFOUNDERS],
        "steps": {**diagnosis["steps"], "unprofiled_ns": [], "each_ns": []},
    }
