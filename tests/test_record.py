"""The capture record beside a trace: facts it adds, and advice it takes back."""

import json
from pathlib import Path

import pytest
from kineto import Trace

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis
from diagnose.trace.record import record_beside


def launch_bound(folder: Path, record: object, options: Options | None = None) -> Diagnosis:
    job = Trace(gpu="NVIDIA H100 80GB HBM3")
    for _ in range(4):
        with job.step():
            for _ in range(40):
                job.op("aten::mul", dims=[[64, 64], [64, 64]], kernel="elementwise_kernel", gpu_us=3, host_us=20)
    job.write(folder / "rank0.json.gz")
    text = record if isinstance(record, str) else json.dumps(record)
    (folder / "capture-rank0.json").write_text(text)
    return analyze(folder, options=options)


def test_a_compiled_model_is_not_told_to_compile(tmp_path: Path) -> None:
    found = launch_bound(tmp_path, {"compiled": True})

    assert "launch-bound" not in [f.rule for f in found.findings]
    assert any(n.what == "torch.compile" and "compiled already" in n.because for n in found.not_advised)


def test_an_eager_model_is(tmp_path: Path) -> None:
    found = launch_bound(tmp_path, {"compiled": False})

    assert found.findings[0].rule == "launch-bound"


@pytest.mark.parametrize(
    ("listed", "fires"),
    [(["llama", "opt"], False), (["llama"], True), (None, True)],
    ids=["the installed Liger has it", "the installed Liger lacks it", "by the table"],
)
def test_liger_without_kernels_for_the_model(tmp_path: Path, listed: object, fires: bool) -> None:
    record = {"liger": {"asked": True}, "model": {"model_type": "opt"}, "versions": {"liger_model_types": listed}}

    found = launch_bound(tmp_path, record)

    assert ("liger-without-kernels" in [f.rule for f in found.findings]) is fires


def test_a_profiler_that_slows_the_step_is_said(tmp_path: Path) -> None:
    found = launch_bound(tmp_path, {"overhead_factor": 1.6})

    assert "profiler-distortion" in [f.rule for f in found.findings]


@pytest.mark.parametrize(
    ("recording", "world_size", "says"),
    [
        (
            {"asked_steps": 4, "steps": 2, "shapes": False, "cut_because": "4 steps with shapes take 2,560 MB"},
            1,
            "2 of 4 steps are recorded; shapes of tensors are not recorded; 4 steps with shapes take 2,560 MB",
        ),
        ({"asked_steps": 4, "steps": 4, "shapes": True, "recorded_ranks": 1}, 1, None),
        (
            {"asked_steps": 4, "steps": 4, "shapes": True, "recorded_ranks": 16},
            128,
            "16 of 128 ranks record by choice, the others keep step times",
        ),
        (None, 1, None),
    ],
    ids=["steps and shapes", "whole", "ranks", "not told"],
)
def test_what_of_a_capture_was_left_out_is_said(
    recording: object, world_size: int, says: str | None, tmp_path: Path
) -> None:
    found = launch_bound(tmp_path, {"world_size": world_size, "recording": recording})

    told = [finding.says for finding in found.findings if finding.rule == "cut-capture"]
    assert told == ([f"The capture was cut: {says}."] if says else [])


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"model": 3, "compiled": "yes"}', '{"model": {"model_type": 7}}']
)
def test_a_record_of_another_shape_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    found = launch_bound(tmp_path, text)

    assert found.findings[0].rule == "launch-bound"
    assert "padded-batches" in [n.rule for n in found.not_judged]


def test_values_are_read_by_path(tmp_path: Path) -> None:
    (tmp_path / "capture-rank3.json").write_text('{"a": {"b": 1.5, "c": true}, "d": "x"}')

    record = record_beside(tmp_path / "rank3.json.gz", 3)

    assert record.number("a.b") == 1.5
    assert record.flag("a.c") is True
    assert record.number("a.c") is None
    assert record.text("d") == "x"
    assert record.get("a.b.c") is None
    assert not record_beside(tmp_path / "rank4.json.gz", 4)


SLOW_DTYPE = """
title = "A rule of this test"
class = "memory"
maturity = "sandbox"
info = "has_gpu"
says = "Weights are wide."
do = "Load them narrow."
unless = "They are not."
see = []
[patch]
target = "model_kwargs"
set = { dtype = "bfloat16" }
[[example]]
name = "a GPU"
facts = { has_gpu = true }
expect = "info"
[[example]]
name = "none"
facts = { has_gpu = false }
expect = "quiet"
"""


@pytest.mark.parametrize(("version", "key"), [("5.23.0", "dtype"), ("4.50.0", "torch_dtype")])
def test_a_patch_is_spelled_for_the_versions_that_run_the_job(tmp_path: Path, version: str, key: str) -> None:
    for folder in ("rules", "run"):
        (tmp_path / folder).mkdir()
    (tmp_path / "rules" / "wide-weights.toml").write_text(SLOW_DTYPE)
    record = {"versions": {"transformers": version}, "model": {"model_type": "llama"}}
    found = launch_bound(tmp_path / "run", record, Options(rules_dirs=(tmp_path / "rules",)))

    [finding] = [f for f in found.findings if f.rule == "wide-weights"]
    assert finding.patch is not None
    assert list(finding.patch.set) == [key]


def test_a_capture_that_watched_for_collections_and_saw_none_counts_none(tmp_path: Path) -> None:
    watched = launch_bound(tmp_path, {"profiler": {"record_python_gc_info": True}})

    assert "gc-pauses" not in [n.rule for n in watched.not_judged]
