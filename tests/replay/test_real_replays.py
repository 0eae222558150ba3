"""The replay on public traces, which are not part of this project (see tests/test_real_traces.py)."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from replay.replayed import replay_of

from diagnose.arrays import Coded, Floats
from diagnose.predict.replay import HostSpeeds, Replay, StepChange, passes, replay
from diagnose.predict.replay.costs import ReplayCosts
from diagnose.timeline import Timeline, timeline_of
from diagnose.trace import read

VARIABLE = "DIAGNOSE_REAL_TRACES"
FOLDER = Path(os.environ.get(VARIABLE, ""))
PRESENT = VARIABLE in os.environ and (FOLDER / "LABELS.md").is_file()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PRESENT, reason=f"{VARIABLE} names no folder with labelled traces"),
]

FILES = sorted(FOLDER.glob("*/*.json*")) if PRESENT else []
TRACES = [str(p.relative_to(FOLDER)) for p in FILES if p.parent.name != "damaged"]
MS = 1_000_000


@cache
def loaded(name: str) -> tuple[Timeline, Replay]:
    line = timeline_of(read(FOLDER / name), 0)
    return line, replay_of(line)


def in_folder(folder: str) -> tuple[Timeline, Replay]:
    return loaded(next(name for name in TRACES if name.startswith(folder)))


@pytest.mark.parametrize("name", TRACES)
def test_the_replay_gives_the_measured_step_within_5_percent(name: str) -> None:
    found = loaded(name)[1]
    print(f"{name}: strict error {found.strict_error:.2%}")

    assert found.strict_error <= 0.05, found.because
    assert found.valid


@pytest.mark.skipif(passes._loop is None, reason="the compiled loop is not installed")
@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("in_runs", [True, False])
def test_both_loops_give_the_same_clocks(name: str, in_runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def by_both(costs: ReplayCosts) -> Iterator[Floats]:
        for one, other in zip(passes.compiled_passes(costs), passes.reference_passes(costs), strict=True):
            assert one.tobytes() == other.tobytes()
            compared.append(len(costs.links))
            yield one

    monkeypatch.setattr(replay, "passes", by_both)
    if not in_runs:
        monkeypatch.setattr(replay, "runs_of", lambda costs: None)
    found = replay_of(loaded(name)[0])
    assert found.step_ns() == pytest.approx(loaded(name)[1].step_ns(), rel=1e-5)
    assert found.step_ns(StepChange(host={"dispatch": 0.3, "sync": 0.7}, communication=0.9, overlap=True)) > 0
    assert compared


def test_and_mostly_within_2_percent() -> None:
    assert len(TRACES) >= 9
    assert np.median([loaded(name)[1].strict_error for name in TRACES]) <= 0.02


def test_the_step_without_waiting_for_data_is_the_one_that_workers_gave() -> None:
    found = in_folder("resnet50-v100-workers0")[1]

    without = found.step_ns(StepChange(host={"data-wait": 0}))

    assert found.step_ns() == pytest.approx(175.5 * MS, rel=0.03)
    assert without == pytest.approx(118 * MS, rel=0.03)
    measured = in_folder("resnet50-v100-workers4")[1].measured_ns
    assert without < measured < 1.13 * without, "workers cost the host something that no replay knows"


def test_where_the_device_is_98_percent_busy_the_host_buys_nothing() -> None:
    found = in_folder("nanogpt-h100-pair")[1]

    assert found.step_ns(StepChange(host_speeds=HostSpeeds(0.01))) == pytest.approx(found.step_ns(), rel=0.005)


def test_where_the_host_is_the_limit_faster_kernels_buy_nothing() -> None:
    line, found = in_folder("cnn-ddp-a100")

    assert found.step_ns(StepChange(kernels=Coded.of(np.full(len(line.gpu), 0.5)))) == pytest.approx(
        found.step_ns(), rel=0.005
    )
    assert found.step_ns(StepChange(host_speeds=HostSpeeds(0.5))) == pytest.approx(0.5 * found.step_ns(), rel=0.02)
