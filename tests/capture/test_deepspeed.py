"""DeepSpeed's engines: a step is the engine's, at the accumulation boundary, however many groups are stepped there."""

from collections import Counter
from pathlib import Path

import pytest
from capture.bundles import facts, ranges
from capture.frameworks import DEEPSPEED, TRAINER_ON_DEEPSPEED, real_and_in_order
from capture.scripts import run, said

either = pytest.mark.parametrize("package", real_and_in_order("deepspeed", "deepspeed_order"))
real, in_order = real_and_in_order("deepspeed", "deepspeed_order")


def captured(script: str, folder: Path, package: str) -> Counter[str]:
    """How many ranges of each name the trace of three steps holds."""
    done = run(package + script, folder, {}, fresh=not package)
    assert done.returncode == 0, done.stderr
    assert said(done) == []
    found = Counter({name: len(spans) for name, spans in ranges(folder / "out").items()})
    assert sum(name.startswith("ProfilerStep#") for name in found) == 3
    return found


@either
def test_a_step_is_the_engines_and_not_each_groups(tmp_path: Path, package: str) -> None:
    found = captured(DEEPSPEED + "loop(engine(), 75)\n", tmp_path, package)
    record = facts(tmp_path / "out")

    assert found["Optimizer.step#AdamW.step"] == 12  # four groups
    assert (found["diagnose.forward"], found["diagnose.backward"], found["diagnose.optimizer"]) == (9, 9, 3)
    assert record["training_loop"] == "DeepSpeed"
    assert record["training_arguments"]["gradient_accumulation_steps"] == 3
    assert record["training_arguments"]["bf16"] is True
    assert record["model"]["class"] == "Sequential"


@either
def test_a_resumed_engine_counts_on(tmp_path: Path, package: str) -> None:
    resumed = "made = engine()\nmade.global_steps = 1000\nloop(made, 75)\n"
    done = run(package + DEEPSPEED + resumed, tmp_path, {"at_step": 1012}, fresh=not package)

    assert done.returncode == 0, done.stderr
    assert facts(tmp_path / "out")["steps"]["first_active_step"] == 1012


ACCELERATE = """
from accelerate.utils.deepspeed import DeepSpeedEngineWrapper
made = engine(gradient_accumulation_steps=1)
wrapped = DeepSpeedEngineWrapper(made)
for number, (batch,) in enumerate(loader(50), 1):
    wrapped.backward(made(batch).square().mean(), sync_gradients=number % 2 == 0)
"""


@either
def test_accelerate_says_where_the_boundary_is(tmp_path: Path, package: str) -> None:
    found = captured(DEEPSPEED + ACCELERATE, tmp_path, package)

    assert (found["diagnose.backward"], found["diagnose.optimizer"]) == (6, 3)


TWO = """
one, other = engine(gradient_accumulation_steps=1), engine(gradient_accumulation_steps=1)
for (batch,) in loader(30):
    for each in (one, other):
        each.backward(each(batch).square().mean())
        each.step()
"""


@either
def test_two_engines_make_one_step(tmp_path: Path, package: str) -> None:
    assert captured(DEEPSPEED + TWO, tmp_path, package)["diagnose.optimizer"] == 6


@pytest.mark.parametrize("package", [real])
def test_under_transformers_trainer_its_step_counts_once(tmp_path: Path, package: str) -> None:
    found = captured(TRAINER_ON_DEEPSPEED + "trainer(20).train()\n", tmp_path, package)
    record = facts(tmp_path / "out")

    assert found["diagnose.backward"] == 9
    assert found["diagnose.optimizer"] == 3
    assert (record["training_loop"], record["steps"]["source"]) == ("transformers Trainer", "trainer")
    assert record["optimizer"]["class"] == "AdamW"


PIPELINE = """
from deepspeed_order import PipelineEngine
made = engine(kind=PipelineEngine)
batches = iter(loader(75))
for _ in range(25):
    made.train_batch(batches)
"""


@pytest.mark.parametrize("package", [in_order])
def test_a_pipelines_step_is_a_batch_of_all_its_micro_batches(tmp_path: Path, package: str) -> None:
    script = DEEPSPEED.replace("def engine(**more)", "def engine(kind=None, **more)").replace(
        "config=config | more)", "config=config | more, kind=kind)"
    )
    found = captured(script + PIPELINE, tmp_path, package)

    assert (found["diagnose.forward"], found["diagnose.backward"], found["diagnose.optimizer"]) == (9, 9, 3)
