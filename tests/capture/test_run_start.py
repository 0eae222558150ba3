"""What the record has of a job's start: the batches that it reads and skips, and what the known calls take."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from capture.command_runs import Start, bundles, ended, script
from capture.scripts import BARE
from capture.test_run_time import whole_run
from capture.test_session import Clock
from needs import needs

from diagnose.probes.bootstrap.sitecustomize import _Imports
from diagnose.probes.protocol import CHECKPOINT_RANGE, DATA_WAIT_RANGE, IMPORT_RANGE, LOAD_MODEL_RANGE, MAP_RANGE
from diagnose.probes.recording.range_times import RangeTimes
from diagnose.probes.recording.run_time import READ_AHEAD, RunTime

pytest.importorskip("torch")


def skipped(batches: int, beside_ns: int) -> Any:
    """The record of a first step whose loop has taken so many batches before it, with other work beside each."""
    clock = Clock()
    times = RangeTimes(clock)
    run_time = RunTime(times, clock)
    run_time.watch()
    run_time.may_begin()
    for _ in range(batches + 1):
        run_time.fetches()
        times.opened(DATA_WAIT_RANGE)
        clock.now += 10
        times.closed(DATA_WAIT_RANGE)
        clock.now += beside_ns
    run_time.step_ended()
    return (run_time.facts() or {})["skipped"]


def test_many_batches_that_are_only_waited_for_are_skipped() -> None:
    assert skipped(20, beside_ns=1) == {"batches": 20, "ns": 220, "ranges_ns": {DATA_WAIT_RANGE: 200}}


def test_a_rollout_or_what_is_read_ahead_is_not_skipped() -> None:
    assert skipped(20, beside_ns=10) is None
    assert skipped(READ_AHEAD - 1, beside_ns=1) is None


def test_an_import_is_measured_once_with_what_it_imports_and_ends_where_it_fails() -> None:
    imports, began = _Imports(), []
    imports.began = lambda: began.append(True)

    def fails(module: object) -> None:
        imports.run(lambda _: None, module)
        raise ImportError("of the package")

    with pytest.raises(ImportError, match="of the package"):
        imports.run(fails, None)

    assert began == [True]
    assert imports.may_begin()
    assert imports.so_far()[1] is False


RESUMES = """
class Slow(torch.utils.data.IterableDataset):
    def __iter__(self):
        for _ in range(100):
            time.sleep(0.002)
            yield (torch.randn(8),)
import time
for number, (batch,) in enumerate(torch.utils.data.DataLoader(Slow(), batch_size=2)):
    if number >= 20:
        model(batch).square().mean().backward()
        optimizer.step()
finish()
"""


@pytest.mark.capture
def test_a_loop_that_resumes_reads_what_it_skips_before_its_first_step(tmp_path: Path) -> None:
    told = whole_run(BARE + RESUMES, tmp_path)

    assert told["skipped"]["batches"] == 20
    assert told["skipped"]["ns"] <= told["before"]["ns"]


STARTS = """
import sys, tempfile, time
import datasets, torch
from transformers import LlamaConfig, LlamaModel
sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 8}
with tempfile.TemporaryDirectory() as there:
    LlamaModel(LlamaConfig(**sizes)).save_pretrained(there)
    LlamaModel.from_pretrained(there)
    torch.save(1, there + "/one.pt")
    torch.load(there + "/one.pt")
rows = datasets.Dataset.from_dict({"a": list(range(100))})
rows.map(lambda row: {"b": row["a"]}, num_proc=2)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(40):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.002)
"""


@pytest.mark.slow
@pytest.mark.capture
def test_what_a_job_loads_and_maps_is_in_its_record_and_its_report(tmp_path: Path, start: Start) -> None:
    needs("transformers", "datasets")

    code, _, err = ended(start("--no-ledger", "--json", "report.json", "--", sys.executable, script(tmp_path, STARTS)))

    assert code == 0, err
    told = json.loads((bundles(tmp_path)[0] / "run-rank0.json").read_text())
    assert {IMPORT_RANGE, LOAD_MODEL_RANGE, CHECKPOINT_RANGE, MAP_RANGE} <= told["before"]["ranges_ns"].keys()
    assert told["maps"] == {"calls": 1, "computed": 1, "in_memory": 1, "processes": 2}
    begun = json.loads((tmp_path / "report.json").read_text())["goodput"]["start"]
    assert sum(begun["parts"].values()) == pytest.approx(begun["time_s"])
    assert "before the first step: " in err
