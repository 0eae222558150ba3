"""A device of which no activity is understood is named and counted; a file that is not torch's is refused."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM, digest, without
from click.testing import CliRunner
from kineto import Trace
from trace_files import saved

from diagnose.analysis import Options, analyze
from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace import Loading
from diagnose.trace.vocabulary import is_of_torch, is_of_unknown_device

OF_OTHERS = ["mtia_ccp_events", "mtia_runtime", "hpu_op", "xpu_runtime", "privateuse1_driver", "glow_runtime"]
UNDERSTOOD = ["kernel", "gpu_memcpy", "cuda_runtime", "cuda_driver", "cpu_op", "user_annotation", "python_function"]
OLD = ["Operator", "Runtime", "Kernel", "Memcpy"]


def job(*more: str) -> Trace:
    """Two steps, with two events of each further category."""
    built = Trace()
    for _ in range(2):
        with built.step():
            built.op("aten::mm", [[512, 512], [512, 512]], GEMM, 100)
            for category in more:
                built.event(category, "work", 50)
    return built


def foreign() -> dict[str, Any]:
    """Only events of an accelerator that has categories of its own, and its job's operators."""
    return without(
        job("mtia_ccp_events", "mtia_runtime"), "kernel", "cuda_runtime", "cuda_driver", "gpu_user_annotation"
    )


def other_tools(category: str = "PERF") -> dict[str, Any]:
    event = {"ph": "X", "cat": category, "name": "Layout", "pid": 1, "tid": 1, "ts": 10, "dur": 5}
    return {"traceEvents": [event, event | {"cat": "cc"}]}


@pytest.mark.parametrize("category", OF_OTHERS)
def test_categories_of_other_devices(category: str) -> None:
    assert is_of_unknown_device(category)
    assert is_of_torch(category)


@pytest.mark.parametrize("category", ["enqueue", "dequeue"])
def test_torch_npus_host_has_categories_that_other_tools_use_too(category: str) -> None:
    assert is_of_unknown_device(category)
    assert not is_of_torch(category)


@pytest.mark.parametrize("category", [*UNDERSTOOD, *OLD])
def test_categories_that_are_understood(category: str) -> None:
    assert is_of_torch(category)
    assert not is_of_unknown_device(category)


def test_an_unknown_device_decides_nothing_and_comes_first(tmp_path: Path) -> None:
    answer = analyze(saved(tmp_path / "trace.json", foreign()))

    assert answer.verdict.class_ == "undecided"
    assert "2 events of" in answer.verdict.because
    assert answer.next.rule == "unknown-device"


@pytest.mark.parametrize("category", OF_OTHERS)
def test_a_device_whose_kernels_are_known_is_accounted_like_any_other(category: str, tmp_path: Path) -> None:
    answer = analyze(job(category).write(tmp_path / "trace.json"))

    assert answer.verdict.class_ == analyze(job().write(tmp_path / "cuda.json")).verdict.class_ != "undecided"
    assert "unknown-device" not in {finding.rule for finding in answer.findings}


def test_a_job_on_ascend_is_no_job_on_the_cpu(tmp_path: Path) -> None:
    """What runs on the device has no category in torch_npu's traces, nor have the calls of its runtime."""
    job_on_ascend = Trace(gpu=None)
    for _ in range(3):
        with job_on_ascend.step():
            with job_on_ascend.inside("aten::mm", [[512, 512], [512, 512]]):
                job_on_ascend.event("enqueue", "Enqueue@aclnnMatmul", 10)
            job_on_ascend.event("dequeue", "Dequeue@aclnnMatmul", 10)
            job_on_ascend.event("", "MatMulV2", 80, **{"Task Type": "AI_CORE", "Stream Id": 2})
            job_on_ascend.host(1000)

    answer = analyze(job_on_ascend.write(tmp_path / "trace_view.json"))

    assert (answer.verdict.class_, answer.next.rule) == ("undecided", "unknown-device")


def test_its_time_is_not_taken_for_the_hosts(tmp_path: Path) -> None:
    answer = analyze(saved(tmp_path / "trace.json", foreign()))
    known = {fact.name: fact.value for fact in answer.facts}

    assert [entry.cause for entry in answer.ledger] == ["unknown-device"]
    assert (known["unknown_device_events"], known["host_share"], known["python_share"]) == (4, None, None)
    assert known["unknown_device_categories"] == "mtia_ccp_events, mtia_runtime"


def test_a_cuda_job_has_no_unknown_device(tmp_path: Path) -> None:
    answer = analyze(job().write(tmp_path / "trace.json"))

    assert answer.verdict.class_ != "undecided"
    assert {f.name: f.value for f in answer.facts}["unknown_device_events"] == 0


@pytest.mark.parametrize(
    "options",
    [Options(), Options(loading=Loading(memory_bytes=1 << 20)), Options(loading=Loading(jobs=2))],
    ids=["as ever", "little memory", "two processes"],
)
@pytest.mark.parametrize("kind", ["plain", "gzip", "folder"])
def test_a_file_without_a_category_of_torch_is_refused_with_those_it_has(
    kind: str, options: Options, tmp_path: Path
) -> None:
    path = saved(tmp_path / "trace.json", other_tools())
    if kind == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))

    with pytest.raises(UserError, match="not a PyTorch profiler trace") as refusal:
        analyze(path.parent if kind == "folder" else path, options=options)

    assert "of the categories PERF, cc, none of which torch.profiler writes" in str(refusal.value)


def test_the_command_exits_with_3(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["analyze", str(saved(tmp_path / "t.json", other_tools()))]).exit_code == 3


def test_events_without_any_category_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its events have no category"):
        analyze(saved(tmp_path / "t.json", {"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 5}]}))


def test_a_single_operator_is_enough(tmp_path: Path) -> None:
    content = other_tools()
    content["traceEvents"].append(content["traceEvents"][0] | {"cat": "cpu_op", "name": "aten::mm"})

    assert analyze(saved(tmp_path / "t.json", content)).trace.events == 3


def test_operators_whose_sizes_tell_no_flops_count_none() -> None:
    content = json.loads(json.dumps(job().json()))
    for event in content["traceEvents"]:
        if event["name"] == "aten::mm":
            event["args"]["Input Dims"] = [[512, 512], []]

    assert digest(content).families.flops.sum() == 0
    assert digest(job()).families.flops.sum() == 2 * 2 * 512**3
