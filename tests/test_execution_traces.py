"""Shapes that a trace lacks, from the execution trace that torch wrote of the same process."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compared_runs import SAMPLES

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.trace import read, with_shapes
from diagnose.trace.execution import FOREIGN, UNREADABLE

GPU = SAMPLES / "synthetic-compute-bound.json.gz"
RECORDED = ("Input Dims", "Input type", "Concrete Inputs")
COMPARED = ("aten::conv2d", "aten::addmm", "aten::mm", "aten::cat", "aten::convolution_backward", "aten::_foreach_add_")
RECORDS_BOTH = """
import sys, torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
def step():
    torch.cat([model(torch.ones(2, 3, 8, 8)), torch.ones(2, 8)]).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
step()
observer = ExecutionTraceObserver()
observer.register_callback(sys.argv[1] + "/execution.json")
with profile(activities=[ProfilerActivity.CPU], execution_trace_observer=observer) as bare:
    step()
bare.export_chrome_trace(sys.argv[1] + "/bare.json")
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as shaped:
    step()
shaped.export_chrome_trace(sys.argv[2] + "/shaped.json")
"""


def told_type(kind: str) -> str:
    """What the observer calls what the profiler calls so."""
    lists = {"ScalarList": "GenericList[Int]", "TensorList": "GenericList[Tensor(float)]"}
    return {"Scalar": "Double", "": "None", **lists}.get(kind, f"Tensor({kind})")


def told_value(text: str) -> Any:
    """The value that the profiler writes as this text."""
    return [] if not text else float(text) if text.endswith(".") else json.loads(text.lower())


def divided(folder: Path, pid: int | None = None) -> Path:
    """The sample without its shapes, which are in an execution trace beside it, by numbers of their own."""
    trace: dict[str, Any] = json.loads(gzip.decompress(GPU.read_bytes()))
    nodes: list[dict[str, Any]] = []
    operators = [event for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    for number, event in enumerate(operators, 1000):
        dims, types, values = (event["args"].pop(name, []) for name in RECORDED)
        event["args"]["Record function id"] = number
        inputs = {"values": list(map(told_value, values)), "shapes": dims}
        inputs["types"] = list(map(told_type, [*types, *["Scalar"] * (len(values) - len(types))]))
        nodes.append({"name": event["name"], "inputs": inputs, "attrs": [{"name": "rf_id", "value": number}]})
    document = {"schema": "1.1.1-chakra.0.0.4", "pid": operators[0]["pid"] if pid is None else pid, "nodes": nodes}
    (folder / "execution.json").write_text(json.dumps(document))
    (folder / "trace.json").write_text(json.dumps(trace))
    return folder / "trace.json"


def test_mfu_is_known_as_it_is_with_shapes_of_its_own(tmp_path: Path) -> None:
    whole, bare = analyze(GPU), analyze(divided(tmp_path))

    assert whole.mfu.value is not None
    assert bare.mfu.value == whole.mfu.value
    assert bare.roofline == whole.roofline
    assert bare.trace.shapes_of == ("execution.json",)
    assert bare.trace.loss.kinds == ()


@pytest.mark.parametrize("spoil", ["process", "names", "text", "numbers"])
def test_what_does_not_belong_to_the_run_is_not_used_and_told(spoil: str, tmp_path: Path) -> None:
    trace = divided(tmp_path, pid=7 if spoil == "process" else None)
    file = tmp_path / "execution.json"
    text = file.read_text()
    if spoil == "names":
        file.write_text(text.replace('"aten::', '"other::'))
    if spoil == "text":
        file.write_text(text[:-3])
    if spoil == "numbers":
        trace.write_text(trace.read_text().replace("Record function id", "record function id"))

    found = analyze(trace)

    assert found.trace.loss.kinds == (UNREADABLE if spoil == "text" else FOREIGN,)
    assert found.trace.shapes_of == ()
    assert found.mfu.value is None


def test_a_folder_is_read_with_it(tmp_path: Path) -> None:
    divided(tmp_path)

    found = analyze(tmp_path)

    assert isinstance(found, Diagnosis)
    assert [Path(file).name for file in found.trace.files] == ["trace.json"]
    assert found.trace.shapes_of == ("execution.json",)


@pytest.mark.capture
def test_what_torch_records_gives_the_shapes_that_its_profiler_would(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-c", RECORDS_BOTH, str(tmp_path), str(elsewhere)]
    subprocess.run(command, check=True, capture_output=True)

    bare, shaped = with_shapes(read(tmp_path / "bare.json")), read(elsewhere / "shaped.json")

    sizes: list[list[tuple[str, bytes]]] = []
    for trace in (bare, shaped):
        rows = [row for row in range(len(trace)) if trace.shape[row] >= 0]
        named = [(trace.names[trace.name[row]], trace.shapes[trace.shape[row]][0]) for row in rows]
        sizes.append(sorted(one for one in named if one[0] in COMPARED))
    assert [(name, json.loads(raw)) for name, raw in sizes[0]] == [(name, json.loads(raw)) for name, raw in sizes[1]]
    assert {name for name, _ in sizes[0]} >= {"aten::conv2d", "aten::addmm", "aten::cat"}
