"""Lightning's Trainer: a step is a batch that updates, whatever its optimizers, with the ranges of any other loop."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from capture.bundles import facts, ranges
from capture.frameworks import LIGHTNING, real_and_in_order
from capture.scripts import run, said

pytestmark = pytest.mark.parametrize("package", real_and_in_order("lightning", "lightning_order"))


def captured(script: str, folder: Path, window: dict[str, object], package: str) -> tuple[Counter[str], dict[str, Any]]:
    """How many ranges of each name the trace of three steps holds, and the record."""
    done = run(package + LIGHTNING + script, folder, window, fresh=not package)
    assert done.returncode == 0, done.stderr
    assert said(done) == []
    return Counter({name: len(spans) for name, spans in ranges(folder / "out").items()}), facts(folder / "out")


def test_a_step_accumulates_and_has_its_ranges(tmp_path: Path, package: str) -> None:
    fit = "trainer(accumulate_grad_batches=2, gradient_clip_val=1.0).fit(Plain(), loader(60))\n"
    found, record = captured(fit, tmp_path, {"at_step": 12}, package)

    assert [name for name in found if name.startswith("Prof")] == [f"ProfilerStep#{n}" for n in (12, 13, 14)]
    assert all(found[f"diagnose.{name}"] == 6 for name in ("data_wait", "to_device", "forward", "backward"))
    assert all(found[f"diagnose.{name}"] == 3 for name in ("clip", "optimizer"))
    assert found["Optimizer.step#AdamW.step"] == 3
    assert (record["training_loop"], record["steps"]["source"]) == ("Lightning", "trainer")
    assert record["training_arguments"]["gradient_accumulation_steps"] == 2
    assert record["training_arguments"]["max_grad_norm"] == 1.0


def test_the_update_lies_within_the_optimizers_step_after_both_passes(tmp_path: Path, package: str) -> None:
    done = run(package + LIGHTNING + "trainer().fit(Plain(), loader(40))\n", tmp_path, {}, fresh=not package)
    assert done.returncode == 0, done.stderr
    found = ranges(tmp_path / "out")

    for step, backward, update in zip(
        *(sorted(found[name]) for name in ("Optimizer.step#AdamW.step", "diagnose.backward", "diagnose.optimizer")),
        strict=True,
    ):
        assert step[0] <= backward[0] < backward[1] <= update[0] < update[1] <= step[1]


def test_two_optimizers_of_a_batch_make_one_step(tmp_path: Path, package: str) -> None:
    found, record = captured("trainer().fit(Adversarial(), loader(40))\n", tmp_path, {}, package)

    assert sum(name.startswith("Prof") for name in found) == 3
    assert found["Optimizer.step#AdamW.step"] == found["Optimizer.step#SGD.step"] == 3
    assert found["diagnose.backward"] == found["diagnose.optimizer"] == 6
    assert found["diagnose.forward"] == 0  # the job's own `training_step` runs everything
    assert "gradient_accumulation_steps" not in record["training_arguments"]


def test_a_validation_is_named_and_the_loop_is_known_to_end(tmp_path: Path, package: str) -> None:
    fit = "trainer(val_check_interval=5, check_val_every_n_epoch=None, num_sanity_val_steps=0)"
    found, record = captured(fit + ".fit(Plain(), loader(8), loader(2))\n", tmp_path, {"at_step": 5}, package)

    assert found["diagnose.eval"] == 1
    assert record["steps"]["shortened"] is True
    assert record["training_arguments"]["eval_steps"] == 5


def test_stop_ends_the_training_after_the_window(tmp_path: Path, package: str) -> None:
    script = "made = trainer()\nmade.fit(Plain(), loader(2000))\nprint(made.global_step)\n"
    window = {"stop": True, "skip": 2, "control": 0, "sample_steps": 2}
    done = run(package + LIGHTNING + script, tmp_path, window, fresh=not package)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 20
    assert ranges(tmp_path / "out")
