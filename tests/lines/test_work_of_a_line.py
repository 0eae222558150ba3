"""What a line calls in a library counts for it; the training loop of a library, and torch around the model, do not."""

from pathlib import Path
from typing import Any

import pytest
from lines.lines_jobs import finding
from lines.test_own_python import waiting

from diagnose.judge.user_code import LEAST_SHARE

MAIN = ["train.py", 7, "main"]
PROCESS = ("transformers/image_processing_base.py", "__call__"), ("transformers/image_transforms.py", "resize")


def stack(doing: str, samples: int, *below: tuple[str, str], calls: str | None = None) -> dict[str, Any]:
    """Samples of line 7 of `main`."""
    called = [list(function) for function in below]
    return {"frames": [MAIN], "doing": doing, "calls": calls, "below": called, "samples": samples}


def share(folder: Path, *stacks: dict[str, Any]) -> object:
    """Of the Python outside of operators, what is at the line; Python is 40 % of each step."""
    taken = sum(each["samples"] for each in stacks)
    told = waiting(folder, ("main", "step", None, 1), stacks=list(stacks), samples=taken, in_user_code=taken)
    return next(fact.value for fact in told.facts if fact.name == "own_python_share")


def test_a_processor_that_the_line_of_the_model_calls_counts_for_it(tmp_path: Path) -> None:
    assert share(tmp_path, stack("forward", 70), stack("step", 30, *PROCESS)) == pytest.approx(0.3 / 0.4)


def test_the_loop_of_a_training_library_is_not_the_users(tmp_path: Path) -> None:
    assert share(tmp_path, stack("forward", 30), stack("loop", 70, ("transformers/trainer.py", "train"))) == 0


@pytest.mark.parametrize(
    ("stacks", "calls"),
    [
        ([stack("step", 60, *PROCESS), stack("step", 40, PROCESS[0])], "image_transforms.py: resize"),
        ([stack("step", 40, *PROCESS), stack("step", 60, PROCESS[0])], "image_processing_base.py: __call__"),
        ([stack("step", 60, calls="save"), stack("step", 40, calls="load")], "save"),
        ([stack("step", 40, calls="save"), stack("step", 40, calls="load"), stack("step", 20)], ""),
    ],
    ids=["most is in one", "its caller has most", "a call into torch or C", "no one has half"],
)
def test_the_deepest_call_with_half_of_the_time_is_named(
    stacks: list[dict[str, Any]], calls: str, tmp_path: Path
) -> None:
    taken = sum(each["samples"] for each in stacks)
    found = finding(waiting(tmp_path, ("main", "step", None, taken), stacks=stacks), "python-host")

    assert found.where[0].share > LEAST_SHARE
    assert found.where[0].calls == calls


LOOP = ("transformers/trainer.py", "train"), ("accelerate/utils/operations.py", "forward")
MODEL = (*LOOP, ("transformers/models/llama/modeling_llama.py", "rotate_half"))


def test_a_trainers_line_names_the_function_of_the_model(tmp_path: Path) -> None:
    trains = [stack("backward", 60, *LOOP), stack("forward", 40, *MODEL)]
    told = waiting(tmp_path, ("main", "step", None, 100), stacks=trains)

    assert told.user_code is not None
    [function] = told.user_code.functions
    assert (function.calls, function.calls_share) == ("modeling_llama.py: rotate_half", 0.4)


def test_too_few_samples_judge_no_python(tmp_path: Path) -> None:
    told = waiting(tmp_path, ("main", "step", None, 10), ("log", "step", None, 9))

    assert "python-host" not in {each.rule for each in told.findings}
    [unknown] = [each for each in told.not_judged if each.rule == "python-host"]
    assert "19 of 19 samples of the training thread in 10 steps show your code" in unknown.because


def test_a_capture_without_samples_is_judged_as_before(tmp_path: Path) -> None:
    assert finding(waiting(tmp_path), "python-host").severity == "critical"
