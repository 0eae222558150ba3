"""The look at containers of the job: it finds those that grow by name, and changes nothing."""

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from diagnose.probes.held.containers import GrowingContainers

JOB = """
import functools
kept = []
class Metric:
    def __init__(self): self.states = {"rows": []}
metric = Metric()
@functools.lru_cache(maxsize=None)
def mask(step): return step
def train(look):
    losses, steady = [], [1, 2, 3]
    for step in range(300):
        losses.append(float(step))
        kept.append(object())
        metric.states["rows"].append((step,))
        mask(step)
        if step % 100 == 50:
            found = look(step)
    return found, losses, steady
def shows(look):
    mine = 1
    look(0)
    return dict(locals())
"""
ASKS = """
import json
from diagnose.probes.held.containers import GrowingContainers
found, losses, steady = train(GrowingContainers().look)
print(json.dumps([found, len(losses), steady]))
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the user's own."""
    (tmp_path / "job_that_grows.py").write_text(JOB)
    monkeypatch.syspath_prepend(str(tmp_path))
    import job_that_grows  # type: ignore[import-not-found]

    monkeypatch.delitem(sys.modules, "job_that_grows")
    monkeypatch.setitem(sys.modules, "job_that_grows", job_that_grows)
    return job_that_grows


def test_what_grows_is_named_as_the_code_names_it(tmp_path: Path) -> None:
    """In a process of its own, where no test stands beside the job."""
    (tmp_path / "train.py").write_text(f"{JOB}\n{ASKS}")
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    found, losses, steady = json.loads(done.stdout)

    assert {one["name"] for one in found} == {"losses", "kept", "metric.states['rows']", "mask"}
    assert all(one["per_step"] == pytest.approx(1, abs=0.05) for one in found)
    assert (losses, steady) == (300, [1, 2, 3])


def test_a_function_that_asks_for_its_locals_gets_its_own(job: ModuleType) -> None:
    assert job.shows(GrowingContainers().look).keys() == {"look", "mine"}


def test_a_look_keeps_nothing_alive(job: ModuleType) -> None:
    class Batch:
        """A thing that a weak reference can follow."""

    def step(look: Any) -> "weakref.ref[Batch]":
        batch = Batch()
        look(1)
        return weakref.ref(batch)

    looks = GrowingContainers()
    gone = step(looks.look)
    gc.collect()

    assert gone() is None
