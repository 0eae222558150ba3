"""What a patch changes in loops without a Trainer: optimizers, settings, the collector, compilation.

Each runs as a job would; what is refused is said, and the loop trains as it does without the patch.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from capture.scripts import run, said
from needs import needs

needs("torch")

START = """
import gc, sys, torch
import diagnose.probes.bootstrap.sitecustomize  # as in a process of `diagnose run --apply`
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
def loop(optimizer, model=model, steps=30):
    for step in range(steps):
        model(torch.ones(2, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def ran(folder: Path, body: str, patch: dict[str, dict[str, object]] | None) -> subprocess.CompletedProcess[str]:
    """The model above and `body`, in a process to which `patch` is handed."""
    return run(START + textwrap.dedent(body), folder, {}, patch=patch, fresh=patch is not None and "gc" in patch)


def record(folder: Path) -> dict[str, Any]:
    """What was recorded of the run."""
    return json.loads((folder / "out" / "capture-rank0.json").read_text())


FUSED: dict[str, dict[str, object]] = {"optimizer": {"fused": True}}


@pytest.mark.parametrize(
    "made",
    [
        "torch.optim.AdamW(model.parameters())",
        "torch.optim.SGD([{'params': model[0].parameters()}, {'params': model[2].parameters(), 'lr': 0.1}], lr=0.2)",
        "type('Own', (torch.optim.Adam,), {})(model.named_parameters(), foreach=None)",
    ],
)
def test_an_optimizer_is_made_in_the_form_of_the_patch(made: str, tmp_path: Path) -> None:
    body = f"optimizer = {made}\nloop(optimizer)\nprint([g['fused'] for g in optimizer.param_groups])\n"
    done = ran(tmp_path, body, FUSED)

    assert "False" not in done.stdout
    assert "None" not in done.stdout
    assert (record(tmp_path)["applied"], said(done)) == (FUSED, [])


REFUSED_FORMS = {
    "torch.optim.Adamax(model.parameters())": "Adamax of this torch has no such form",
    "torch.optim.AdamW(model.parameters(), foreach=True)": "`fused` and `foreach` cannot be `True` together.",
    "torch.optim.AdamW([{'params': p} for p in model.parameters()], differentiable=True)": "differentiable",
    "Own(model.parameters(), {'lr': 0.1})": "no optimizer of torch.optim was made",
}


@pytest.mark.parametrize("made", REFUSED_FORMS)
def test_a_form_that_the_optimizer_does_not_take_is_refused(made: str, tmp_path: Path) -> None:
    body = f"""
    class Own(torch.optim.Optimizer):
        def step(self):
            pass
    optimizer = {made}
    loop(optimizer, steps=0 if optimizer.defaults.get("differentiable") else 30)
    print(optimizer.param_groups, [p.tolist() for p in model.parameters()])
    """
    plain = ran(tmp_path / "plain", body, None)
    patched = ran(tmp_path / "patched", body, FUSED)

    assert (plain.returncode, patched.stdout) == (0, plain.stdout), patched.stderr
    if "differentiable" not in made:
        assert [entry["key"] for entry in record(tmp_path / "patched")["refused"]] == ["fused"]
    assert REFUSED_FORMS[made] in said(patched)[0]


def test_a_loaded_state_that_takes_the_form_away_is_told(tmp_path: Path) -> None:
    body = """
    optimizer = torch.optim.AdamW(model.parameters())
    state = optimizer.state_dict()
    state["param_groups"][0]["fused"] = None
    optimizer.load_state_dict(state)
    loop(optimizer)
    """
    done = ran(tmp_path, body, FUSED)

    assert record(tmp_path)["applied"] == {}
    assert "a state that the job loads into its optimizer" in said(done)[0]


SETTINGS = """
torch.set_float32_matmul_precision("highest")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loop(optimizer)
print(torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark)
"""


def test_settings_of_torch_stand_when_the_loop_runs(tmp_path: Path) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("cuDNN may be had here")
    patch: dict[str, dict[str, object]] = {"torch": {"float32_matmul_precision": "high", "cudnn_benchmark": True}}
    done = ran(tmp_path, SETTINGS, patch)

    assert done.stdout == "high False\n"
    assert record(tmp_path)["applied"] == {"torch": {"float32_matmul_precision": "high"}}
    assert said(done) == ["diagnose: not applied: cudnn_benchmark (there is no GPU, and cuDNN runs on one alone)"]


def test_a_job_that_asks_for_the_same_results_keeps_its_convolutions(tmp_path: Path) -> None:
    body = "torch.use_deterministic_algorithms(True)\n" + SETTINGS
    done = ran(tmp_path, body, {"torch": {"cudnn_benchmark": True}})

    assert done.stdout == "highest False\n"
    assert said(done) == ["diagnose: not applied: cudnn_benchmark (the job asks for deterministic algorithms)"]


def test_a_setting_that_the_loop_sets_back_is_not_in_use(tmp_path: Path) -> None:
    body = """
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(30):
        loop(optimizer, steps=1)
        torch.set_float32_matmul_precision("highest")
    """
    done = ran(tmp_path, body, {"torch": {"float32_matmul_precision": "high"}})

    assert record(tmp_path)["applied"] == {}
    assert said(done) == ["diagnose: not applied: float32_matmul_precision (the job sets it to highest)"]


COLLECTIONS = """
runs = []
gc.callbacks.append(lambda phase, known: runs.append(known["generation"]) if phase == "start" else None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loop(optimizer, steps=1)
del runs[:]
loop(optimizer, steps=40)
print(sorted(runs), gc.isenabled(), gc.get_freeze_count() > 0)
"""


def test_the_collector_runs_every_so_many_steps(tmp_path: Path) -> None:
    done = ran(tmp_path, COLLECTIONS, {"gc": {"every_steps": 10}})

    assert done.stdout == "[1, 1, 1, 1] False True\n"
    assert record(tmp_path)["applied"] == {"gc": {"every_steps": 10}}


COMPILED = """
torch.compiler.set_stance("default")
def without_a_compiler(graph, inputs):
    print("compiled", sum(node.op == "call_module" or node.op == "call_function" for node in graph.graph.nodes) > 2)
    return graph
original = torch.nn.Module.compile
torch.nn.Module.compile = lambda self, **more: original(self, backend=without_a_compiler, **more)
class Around(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return self.inner(x) * 2
inner = Around(model)
outer = Around(inner)
"""


@pytest.mark.parametrize("called", ["inner", "outer"])
def test_the_module_that_the_loop_calls_is_compiled_in_place(called: str, tmp_path: Path) -> None:
    body = f"""
    loop(torch.optim.SGD(model.parameters(), lr=0.1), {called})
    print([m is {called} for m in (inner, outer) if m._compiled_call_impl is not None], *model.state_dict())
    """
    done = ran(tmp_path, COMPILED + textwrap.dedent(body), {"torch": {"compile": True}})

    assert done.stdout == "compiled True\n[True] 0.weight 0.bias 2.weight 2.bias\n", done.stderr
    assert record(tmp_path)["applied"] == {"torch": {"compile": True}}


NOT_COMPILED = {
    "loop(torch.optim.SGD(model.parameters(), lr=0.1))":
        "Sequential is torch's own class, which Module.compile leaves as it is: type model = torch.compile(model)",
    "loop(torch.optim.SGD(model.parameters(), lr=0.1), torch.compile(model, backend='eager'))":
        "the model is compiled already",
    "other = torch.nn.Linear(8, 1); loop(torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1))":
        "no module holds all parameters of the optimizer",
    "loop(torch.optim.SGD(model.parameters(), lr=0.1), model.forward)":
        "no module that holds the optimizer's parameters was called",
}  # fmt: skip


@pytest.mark.parametrize("body", NOT_COMPILED)
def test_a_model_that_cannot_be_compiled_in_place_is_left_alone(body: str, tmp_path: Path) -> None:
    done = ran(tmp_path, body, {"torch": {"compile": True}})

    assert (done.returncode, record(tmp_path)["applied"]) == (0, {})
    assert said(done) == [f"diagnose: not applied: compile ({NOT_COMPILED[body]})"]


ACCELERATE = """
accelerator = Accelerator(cpu=True)
ready, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
loop(optimizer, ready)
print(accelerator.mixed_precision)
"""
WITHOUT_BF16 = """
from accelerate.state import AcceleratorState
def read(state, precision=AcceleratorState.mixed_precision.fget):
    if precision(state) == "bf16":  # found once the state of all Accelerators is made
        raise ValueError("no bf16 here")
    return precision(state)
AcceleratorState.mixed_precision = property(read)
"""


def test_an_accelerator_is_made_with_the_patch_or_as_the_script_says(tmp_path: Path) -> None:
    needs("accelerate")
    patch: dict[str, dict[str, object]] = {"accelerator": {"mixed_precision": "bf16"}}
    made = ran(tmp_path / "bf16", "from accelerate import Accelerator\n" + ACCELERATE, patch)
    refused = ran(tmp_path / "without", WITHOUT_BF16 + "from accelerate import Accelerator\n" + ACCELERATE, patch)

    assert (made.stdout, said(made)) == ("bf16\n", [])
    assert (refused.returncode, refused.stdout) == (0, "no\n"), refused.stderr
    assert said(refused) == ["diagnose: not applied: mixed_precision (ValueError: no bf16 here)"]
