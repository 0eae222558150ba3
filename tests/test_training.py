"""Whether a job trains, what that decides, and how the report says it."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, FOREACH, GEMM, facts, without
from kineto import Trace
from more_traces import answer_for
from rich.console import Console

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.facts import Unknown
from diagnose.report.html import page
from diagnose.report.markdown import markdown
from diagnose.report.text import render
from diagnose.report.views.summary import NOTHING_TRAINS, About

FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)"
GRADIENT = "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float>(int)"
Work = Callable[[Trace], object]


def job(work: Work, **how: Any) -> Trace:
    """Steps of a forward pass and of `work`."""
    trace = Trace(trains=False, **how)
    for _ in range(4):
        with trace.step():
            trace.op("aten::mm", [[512, 512]] * 2, GEMM, 100)
            work(trace)
    return trace


def nothing(trace: Trace) -> None:
    """A forward pass alone."""


def backward(trace: Trace) -> None:
    with trace.backward("autograd::engine::evaluate_function: CompiledFunctionBackward"):
        trace.op("aten::mm", kernel=GEMM, gpu_us=50)


def replay(kernel: str) -> Work:
    """A CUDA graph that runs the kernel."""

    def work(trace: Trace) -> None:
        trace.event("cuda_runtime", "cudaGraphLaunch", 5)
        trace.launch(kernel, 50)

    return work


@pytest.mark.parametrize(
    ("work", "trains"),
    [
        (nothing, False),
        (backward, True),
        (lambda trace: trace.op("aten::convolution_backward", None, GEMM, 50), True),
        (lambda trace: trace.cpu_op("MmBackward", 5), True),
        (lambda trace: trace.event("user_annotation", "Optimizer.step#SGD.step", 5), True),
        (lambda trace: trace.event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", 5), True),
        (lambda trace: trace.event("python_function", "<built-in method run_backward of torch._C>", 5), True),
        (
            lambda trace: trace.event("python_function", "torch/nn/modules/module.py(9): register_backward_hook", 5),
            False,
        ),
        (
            lambda trace: trace.op("aten::conv_transpose2d", None, "cutlass_tensorop_s1688dgrad_optimized_tf32", 5),
            False,
        ),
        (lambda trace: trace.op("aten::_foreach_mul_", None, FOREACH, 50), False),
        (lambda trace: trace.op("aten::conv_transpose2d", None, "igemm_bwd_gtcx35_nhwc_fp16", 50), False),
        (replay(GRADIENT), True),
        (replay(FOREACH), True),
        (replay(FLASH), False),
    ],
)
def test_a_backward_pass_or_an_optimizer_is_training(work: Work, trains: bool) -> None:
    assert facts(job(work))["trains"].value is trains


@pytest.mark.parametrize(
    "built",
    [job(replay(ADD)).json(), without(job(nothing), "cpu_op", "user_annotation")],
    ids=["graphs", "no operators"],
)
def test_a_trace_that_cannot_show_it_leaves_it_open(built: dict[str, Any]) -> None:
    value = facts(built)["trains"].value

    assert isinstance(value, Unknown)
    assert value.capture_next.startswith("capture with")


def test_a_record_of_an_optimizer_is_enough(tmp_path: Path) -> None:
    (tmp_path / "capture-rank0.json").write_text(json.dumps({"optimizer": {"class": "AdamW"}}), encoding="utf-8")
    job(nothing).write(tmp_path / "rank0.json")

    assert analyze(tmp_path).trains is True


# -- what it decides -----------------------------------------------------------------------------------------------


def half_empty(trace: Trace) -> None:
    trace.memory(1024, allocated=1 << 30, reserved=1 << 30)


@pytest.mark.parametrize(
    ("built", "answer"),
    [
        (lambda: job(half_empty).json(), "quiet"),
        (lambda: job(lambda t: (half_empty(t), backward(t))).json(), "fires"),
        (lambda: without(job(half_empty), "cpu_op", "user_annotation"), "not judged"),
    ],
)
def test_a_larger_batch_is_for_what_trains(built: Callable[[], dict[str, Any]], answer: str, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(built()), encoding="utf-8")
    diagnosis = analyze(tmp_path)

    assert ("low-memory-use" in {f.rule for f in diagnosis.findings}) == (answer == "fires")
    assert ("low-memory-use" in {n.rule for n in diagnosis.not_judged}) == (answer == "not judged")


def of_training(diagnosis: Diagnosis) -> list[str]:
    """Settings of the Trainer that are proposed or advised against."""
    proposed = [
        key for f in diagnosis.findings if f.patch and f.patch.target == "training_arguments" for key in f.patch.set
    ]
    against = {"bf16", "tf32", "logging_nan_inf_filter", "optim", "gradient_checkpointing", "torch_compile"}
    return proposed + [n.what for n in diagnosis.not_advised if n.what in against]


@pytest.mark.parametrize("name", ["inference-vit-a", "graph-capture-bs32", "gemm-microbenchmark"])
def test_forward_passes_of_others_hear_nothing_of_training(name: str) -> None:
    diagnosis = answer_for(f"{name}.json.gz")

    assert diagnosis.trains is False
    assert of_training(diagnosis) == []
    assert not {"low-memory-use", "text-work-in-the-loop"} & {f.rule for f in diagnosis.findings}
    assert not any("tokenis" in f.do for f in diagnosis.findings)


# -- how it is said ------------------------------------------------------------------------------------------------


def printed(diagnosis: Diagnosis) -> str:
    console = Console(file=(text := io.StringIO()), width=200, color_system=None)
    render(diagnosis, console)
    return text.getvalue()


@pytest.mark.parametrize(("work", "said"), [(nothing, True), (backward, False)])
def test_the_head_of_every_report_says_that_nothing_trains(work: Work, said: bool, tmp_path: Path) -> None:
    diagnosis = analyze(job(work).write(tmp_path / "rank0.json"))
    forms = [printed(diagnosis), markdown(diagnosis, About("1")), page(diagnosis, About("1"))]

    assert [NOTHING_TRAINS[1:].split(":")[0] in " ".join(form.split()) for form in forms] == [said] * 3
    assert json.loads(diagnosis.to_json())["trains"] is (not said)
