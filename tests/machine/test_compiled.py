"""What torch.compile did in silence: graph breaks, recompilations and failures, each with the user's line."""

import json
from pathlib import Path
from typing import Any

import pytest
from capture.bundles import facts
from capture.scripts import HOOKS, run
from click.testing import CliRunner
from machine.compiled_jobs import CASES, ONE_GRAPH, Record, compiled, job, record
from remedies.single_gpu_jobs import analysed

from diagnose.analysis import analyze
from diagnose.cli import main
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError
from diagnose.probes.facts.compiled import row_of
from diagnose.trace.torch_trace import torch_traces

each = pytest.mark.parametrize("name", CASES)


def rules(found: Diagnosis) -> set[str]:
    return {finding.rule for finding in found.findings}


@each
def test_the_fault_is_found_with_its_line(name: str, tmp_path: Path) -> None:
    severity, faulty, says = CASES[name]
    found = analysed(tmp_path, job(), faulty)
    finding = next(f for f in found.findings if f.rule == name)

    assert finding.severity == severity
    assert says in finding.says


@each
@pytest.mark.parametrize("sound", [ONE_GRAPH, {"compiled": False, "compilations": None}], ids=["one graph", "eager"])
def test_one_graph_and_no_graph_are_silent(name: str, sound: Record, tmp_path: Path) -> None:
    found = analysed(tmp_path, job(), sound)

    assert name not in rules(found)
    assert name not in {n.rule for n in found.not_judged}


@each
def test_without_an_account_it_is_not_judged(name: str, tmp_path: Path) -> None:
    assert name in {n.rule for n in analysed(tmp_path, job()).not_judged}


@pytest.mark.parametrize(
    "rows",
    [[{}], [{"file": 3, "function": None, "broken_at": 4}], [{"file": "a.py", "function": "f", "broken_at": -1}]],
)
def test_rows_of_another_kind_tell_nothing(rows: list[Record], tmp_path: Path) -> None:
    assert "graph-breaks" not in rules(analysed(tmp_path, job(), record(*rows)))


METRICS: dict[str, Any] = {"co_filename": "/job/train.py", "co_name": "forward", "co_firstlineno": 10}


@pytest.mark.parametrize(
    ("metrics", "row"),
    [
        ({"co_name": "torch_dynamo_resume_in_forward_at_17"}, {"function": "forward", "broken_at": 17}),
        (
            {"recompile_reason": "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"},
            {"again": "sizes change"},
        ),
        ({"recompile_reason": "0/0: L['key'] == 'hf_secret'"}, {"again": "a number or a text changes"}),
        (
            {"restart_reasons": {"Data-dependent branching\n  Explanation: hf_secret"}},
            {"because": ["Data-dependent branching"]},
        ),
        ({"restart_reasons": ["{'token': 1}"]}, {"because": []}),
        ({"restart_reasons": True}, {"because": []}),
        ({"fail_type": "Unsupported", "fail_user_frame_lineno": 12}, {"failed": "Unsupported", "failed_at": 12}),
        ({"fail_type": "an 'odd' one"}, {"failed": "an error"}),
    ],
)
def test_only_torchs_own_words_are_kept(metrics: dict[str, Any], row: dict[str, Any]) -> None:
    told = row_of({**METRICS, **metrics}, here="/job/")

    assert told == {**compiled(), **row}


def test_what_is_no_function_of_the_job_is_no_row() -> None:
    assert row_of({**METRICS, "is_forward": False}) is None
    assert row_of({}) is None


def test_a_folder_of_torch_trace_stands_in_for_the_capture(tmp_path: Path) -> None:
    traces, bundle = tmp_path / "traces", tmp_path / "run"
    traces.mkdir()
    bundle.mkdir()
    job().write(bundle / "rank0.json")
    broken = {**METRICS, "co_name": "torch_dynamo_resume_in_forward_at_17"}
    lines = ["V1122 19:00:00.1 7 torch/_dynamo/utils.py:1] " + json.dumps({"compilation_metrics": broken, "rank": 0}),
             "V1122 19:00:00.2 7 torch/x.py:1] " + json.dumps({"dynamo_start": {}}), "no JSON {"]  # fmt: skip
    (traces / "dedicated_log_torch_trace_rank_0_x.log").write_text("\n".join(lines), encoding="utf-8")

    done = CliRunner().invoke(main, ["analyze", str(bundle), "--torch-trace", str(traces), "--json"])

    assert done.exit_code == 0, done.output
    found = {finding["rule"]: finding["says"] for finding in json.loads(done.stdout)["findings"]}
    assert "/job/train.py:17 in forward" in found["graph-breaks"]


def test_a_folder_without_compilations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no compilation"):
        torch_traces(tmp_path)


SCRIPT = (
    HOOKS
    + """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
    def forward(self, batch):
        hidden = self.linear(batch)
        if hidden.sum() > 0:
            hidden = hidden * 2
        return hidden.square().mean()
model = torch.compile(Net(), backend="eager")
optimizer = torch.optim.AdamW(model.parameters())
rows = torch.randn(60, 8)
for (batch,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=2):
    model(batch).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)


@pytest.mark.capture
def test_a_job_with_a_graph_break_is_told_its_line(tmp_path: Path) -> None:
    traces = tmp_path / "torch-trace"
    run(SCRIPT, tmp_path, {}, TORCH_TRACE=str(traces), OMP_NUM_THREADS="1")
    line = 1 + SCRIPT[: SCRIPT.index("if hidden.sum()")].count("\n")
    rows = facts(tmp_path / "out")["compilations"]["compiled"]
    says = next(f.says for f in analyze(tmp_path / "out").findings if f.rule == "graph-breaks")

    assert line in [row["broken_at"] for row in rows]
    assert f":{line} in forward" in says
    assert [row["broken_at"] for row in torch_traces(traces).compiled[0]] == [row["broken_at"] for row in rows]
