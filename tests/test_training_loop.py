"""What runs the training loop: by the capture record, by the stack of an optimizer step, or by names in a trace."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import FactReport
from diagnose.probes.facts.loop_frames import loop_on_stack

PYTHON = "python_function"


def facts(folder: Path, *events: tuple[str, str], record: dict[str, Any] | None = None) -> dict[str, FactReport]:
    """The facts of a job in whose steps these events (category, name) occur."""
    job = Trace()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", [[512, 512]] * 2, GEMM, 500)
            for category, name in events:
                job.event(category, name, 10)
    path = job.write(folder / "rank0.json.gz")
    if record is not None:
        (folder / "capture-rank0.json").write_text(json.dumps(record))
    return {fact.name: fact for fact in analyze(path.parent).facts}


@pytest.mark.parametrize(
    ("category", "name", "loop"),
    [
        (PYTHON, "/opt/site-packages/transformers/trainer.py(3740): training_step", "transformers Trainer"),
        (PYTHON, "transformers/trainer.py(1): <module>", "bare loop"),
        ("user_annotation", "[pl][profile][Strategy]DDPStrategy.training_step", "Lightning"),
        (PYTHON, "pytorch_lightning/loops/fit_loop.py(201): run", "Lightning"),
        (PYTHON, "/opt/site-packages/accelerate/optimizer.py(150): step", "Accelerate"),
        ("cpu_op", "PreBackwardFunctionForModuleBackward", "DeepSpeed"),
        (PYTHON, "deepspeed/runtime/engine.py(2100): step", "DeepSpeed"),
        (PYTHON, "train.py(12): main", "bare loop"),
        ("cpu_op", "aten::relu", None),
    ],
)
def test_a_trace_tells_by_its_names(tmp_path: Path, category: str, name: str, loop: str | None) -> None:
    assert facts(tmp_path, (category, name))["training_loop"].value == loop


def test_the_trainer_is_told_from_what_it_uses(tmp_path: Path) -> None:
    uses = [(PYTHON, "accelerate/optimizer.py(150): step"), (PYTHON, "transformers/trainer.py(3740): training_step")]

    assert facts(tmp_path, *uses)["training_loop"].value == "transformers Trainer"


@pytest.mark.parametrize(
    ("record", "loop"),
    [
        ({"training_loop": "Lightning"}, "Lightning"),
        ({"training_loop": None, "training_arguments": {"bf16": True}}, "transformers Trainer"),
    ],
)
def test_the_record_tells(tmp_path: Path, record: dict[str, Any], loop: str) -> None:
    assert facts(tmp_path, record=record)["training_loop"].value == loop


@pytest.mark.parametrize("arguments", [None, {"bf16": True}])
def test_a_framework_that_is_not_known_is_no_bare_loop(tmp_path: Path, arguments: dict[str, Any] | None) -> None:
    record = {"training_loop": "Composer", "training_arguments": arguments}
    told = facts(tmp_path, (PYTHON, "train.py(12): main"), record=record)["training_loop"]

    assert (told.value, told.because) == (None, "'Composer' is no training framework that this version knows")


@pytest.mark.parametrize(
    ("modules", "loop"),
    [
        (["__main__"], None),
        (["transformers.trainer", "accelerate.optimizer"], "transformers Trainer"),
        (["lightning.pytorch.loops.fit_loop"], "Lightning"),
        (["accelerate.optimizer", "deepspeed.runtime.engine"], "Accelerate"),
        (["deepspeed.runtime.engine"], "DeepSpeed"),
        (["lightning.fabric.wrappers"], None),
    ],
)
def test_the_stack_tells_where_a_step_ends(tmp_path: Path, modules: list[str], loop: str | None) -> None:
    code = "def call(inner):\n    return inner()\n"
    (tmp_path / "module.py").write_text(code)
    ask = loop_on_stack
    for name in modules:
        call = runpy.run_path(str(tmp_path / "module.py"), run_name=name)["call"]
        call.__globals__["__name__"] = name
        ask = lambda call=call, inner=ask: call(inner)  # type: ignore[misc]  # noqa: E731

    assert ask() == loop


@pytest.mark.parametrize(
    ("versions", "liger", "attention"),
    [
        ({"liger_kernel": "0.8.5", "flash_attn_3": None, "kernels": None}, True, False),
        ({"liger_kernel": None, "flash_attn_3": None, "kernels": "0.10"}, False, True),
        ({"liger_kernel": None}, False, None),
    ],
)
def test_what_is_installed(tmp_path: Path, versions: dict[str, Any], liger: bool, attention: bool | None) -> None:
    found = facts(tmp_path, record={"versions": versions})

    assert found["liger_installed"].value is liger
    assert found["flash_attention_3_installed"].value is attention


@pytest.mark.parametrize(("name", "runs"), [("LigerFusedLinearCrossEntropyFunction", True), ("aten::add", False)])
def test_ligers_loss_is_told_by_its_name(tmp_path: Path, name: str, runs: bool) -> None:
    assert facts(tmp_path, ("cpu_op", name))["uses_liger_loss"].value is runs
