"""A bundle of `diagnose run`: its record gives the settings, and the steps without the profiler that go first."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from compared_runs import MS, SAMPLES
from msgspec.structs import replace

from diagnose.analysis import analyze
from diagnose.commands.compare.command import side_at
from diagnose.commands.compare.comparing import compare
from diagnose.trace.record import decoded
from diagnose.trace.record_setup import MOST_SETTINGS, setup_of


def bundle(folder: Path, control_ms: tuple[float, ...], **recorded: Any) -> Path:
    """A trace with a record beside it that timed so many steps before the window, and as many after it."""
    folder.mkdir()
    shutil.copy(SAMPLES / "cpu-healthy.json.gz", folder / "rank0.json.gz")
    ns = [round(ms * MS) for ms in control_ms]
    steps = {"control_before_ns": ns, "control_after_ns": ns}
    (folder / "capture-rank0.json").write_text(json.dumps({"steps": steps} | recorded))
    return folder


def test_steps_without_the_profiler_decide_and_the_record_says_what_changed(tmp_path: Path) -> None:
    before = bundle(tmp_path / "before", (30, 31, 29), dataloader={"num_workers": 0, "pin_memory": True})
    after = bundle(tmp_path / "after", (20, 21, 19), dataloader={"num_workers": 4, "pin_memory": True})

    found = compare(side_at(str(before)), side_at(str(after)))

    assert (found.verdict, found.before.steps, found.before.step) == ("better", 6, "step without the profiler")
    assert found.speedup is not None
    assert found.speedup[1] == pytest.approx(1.5)
    assert [(c.what, c.before, c.after) for c in found.configuration] == [("dataloader.num_workers", 0, 4)]
    assert found.difference_ns == 0
    assert not found.not_compared


def test_a_diagnosis_lists_the_steps_without_the_profiler(tmp_path: Path) -> None:
    steps = analyze(bundle(tmp_path / "run", (30, 31))).steps

    assert steps.unprofiled_ns == (30 * MS, 31 * MS, 30 * MS, 31 * MS)
    assert sum(steps.each_ns) == steps.time_ns


def test_settings_are_named_by_their_path_in_the_record() -> None:
    record = decoded(
        {
            "host": "node7",
            "model": {"class": "Llama", "config": {"num_hidden_layers": 16}, "dtypes": None},
            "batch": {"shapes": {"input_ids": [8, 1024]}, "tokens": 8192},
            "environment": {"OMP_NUM_THREADS": "1"},
            "compiled": False,
        }
    )

    assert setup_of(record) == {
        "model.class": "Llama",
        "model.config.num_hidden_layers": 16,
        "batch.shapes.input_ids": "8, 1024",
        "environment.OMP_NUM_THREADS": "1",
        "compiled": False,
    }


def test_a_record_gives_a_bounded_number_of_settings() -> None:
    record = decoded({"training_arguments": {f"setting_{number}": number for number in range(2 * MOST_SETTINGS)}})

    assert len(setup_of(record)) == MOST_SETTINGS


@pytest.mark.parametrize("count", [-3, 0, 1 << 61])
def test_a_diagnosis_with_an_odd_count_of_steps_breaks_nothing(count: int) -> None:
    sound = analyze(SAMPLES / "cpu-healthy.json.gz")
    odd = replace(sound, steps=replace(sound.steps, count=count, each_ns=()))

    for found in (compare(sound, odd), compare(odd, sound), compare(odd, odd)):
        assert found.verdict in ("better", "worse", "no_difference", "not_comparable")
        assert sum(row.ns for row in found.difference) == (found.difference_ns or 0)
