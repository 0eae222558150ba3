"""A setting that is in force is not advised again: who makes what it is for decides what to type, and what is left."""

import json
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from whatif.predicted import GEMM

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding
from diagnose.patch.patches import python_lines

ARGUMENTS = {"optim": "adamw_torch_fused", "dataloader_num_workers": 4, "deepspeed": False}
ASKED = {"training_loop": "transformers Trainer", "training_arguments": ARGUMENTS}
UNFUSED = {"class": "AdamW", "fused": None, "foreach": None}


def job(folder: Path, record: dict[str, Any], *, loops: bool = False, loading_ms: float = 0) -> Diagnosis:
    """A job on a GPU whose optimizer loops over its tensors, or which waits for data."""
    trace = Trace()
    for _ in range(5):
        with trace.step():
            if loading_ms:
                trace.loader(ms=loading_ms)
            trace.op("aten::mm", [[4096, 4096]] * 2, GEMM, 2000)
            if loops:
                with trace.optimizer("AdamW"):
                    for _ in range(100):
                        trace.op("aten::add_", [[100, 100]] * 2, "void at::native::vectorized_elementwise_kernel", 10)
            trace.sync()
    trace.write(folder / "rank0.json.gz")
    (folder / "capture-rank0.json").write_text(json.dumps({"cores": {"usable": 8, "local_ranks": 1}, **record}))
    return analyze(folder)


def finding(found: Diagnosis, rule: str) -> Finding | None:
    return next((each for each in found.findings if each.rule == rule), None)


def typed(finding: Finding | None) -> list[str]:
    assert finding is not None
    assert finding.patch is not None
    return python_lines(finding.patch)


OPTIMIZERS = {
    "the Trainer, by another form": (
        {"optim": "adamw_torch"}, {"made_by": "transformers Trainer"},
        'TrainingArguments(..., optim="adamw_torch_fused")',
    ),
    "the script": ({}, {"made_by": "script"}, "torch.optim.AdamW(..., fused=True)"),
    "the script, by a record that does not say so": ({}, {}, "torch.optim.AdamW(..., fused=True)"),
    "the config of DeepSpeed": (
        {"deepspeed": True}, {"made_by": "DeepSpeed"}, 'ds_config.json: {"optimizer": {"params": {"fused": true}}}',
    ),
}  # fmt: skip


@pytest.mark.parametrize("maker", OPTIMIZERS)
def test_the_fused_form_is_set_where_the_optimizer_is_made(maker: str, tmp_path: Path) -> None:
    asked, made, line = OPTIMIZERS[maker]
    record = {**ASKED, "training_arguments": ARGUMENTS | asked, "optimizer": UNFUSED | made}
    found = finding(job(tmp_path, record, loops=True), "single-tensor-optimizer")

    assert typed(found) == [line]
    assert found is not None
    assert ("of the transformers Trainer has no effect here" in found.do) == ("optim=" not in line)


LOADERS = {
    "the Trainer": ({"dataloader_num_workers": 0}, {"made_by": "transformers Trainer"}, "TrainingArguments("),
    "the script": ({"dataloader_num_workers": 0}, {"made_by": "script"}, "DataLoader("),
    "the script, by a record that does not say so": ({}, {}, "DataLoader("),
}


@pytest.mark.parametrize("maker", LOADERS)
def test_workers_are_set_where_the_loader_is_made(maker: str, tmp_path: Path) -> None:
    asked, made, line = LOADERS[maker]
    record = {**ASKED, "training_arguments": ARGUMENTS | asked, "dataloader": {"num_workers": 0} | made}

    assert typed(finding(job(tmp_path, record, loading_ms=9), "data-wait"))[0].startswith(line)


def test_workers_that_persist_already_are_not_set_again(tmp_path: Path) -> None:
    record = {**ASKED, "dataloader": {"num_workers": 1, "persistent_workers": True}}
    record["training_arguments"] = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    found = finding(job(tmp_path, record, loading_ms=9), "data-wait")

    assert found is not None
    assert found.patch is not None
    assert found.patch.set.keys() == {"dataloader_num_workers"}


def padded(folder: Path, **asked: object) -> Diagnosis:
    """A job whose collator pads samples of many lengths to the longest of each batch."""
    padding = {
        "batches": 40, "tokens": 40_000, "padded_tokens": 17_000, "beyond_longest_tokens": 0, "share_error": 0.01,
        "least_share": 0.3, "most_share": 0.5, "least_length": 20, "most_length": 200, "most_beyond_longest": 0,
        "samples_by_tokens": [[n, 10] for n in range(20, 200, 10)],
    }  # fmt: skip
    batch = {"padding_share": 0.42, "padding": padding, "batches_seen": 4, "tokens": 1000, "shapes": {}}
    return job(folder, {**ASKED, "training_arguments": ARGUMENTS | asked, "batch": batch, "optimizer": UNFUSED})


def test_groups_by_length_that_leave_padding_are_followed_by_packing(tmp_path: Path) -> None:
    answer = padded(tmp_path, train_sampling_strategy="group_by_length")
    found = finding(answer, "padded-batches")

    assert [n.because[-19:] for n in answer.not_advised if "sampl" in n.what] == [": see padded-batches"[-19:]]
    assert found is not None
    assert found.patch is None
    assert found.action == "pack several samples into one sequence"
    assert "train_sampling_strategy is set already, and the fault is left" in found.do
    assert "sort the dataset" not in found.do


def test_samples_in_any_order_are_grouped_first(tmp_path: Path) -> None:
    found = finding(padded(tmp_path, train_sampling_strategy="random"), "padded-batches")

    assert typed(found) == ['TrainingArguments(..., train_sampling_strategy="group_by_length")']


def test_a_fused_optimizer_is_not_fused_again_and_what_is_left_is_told(tmp_path: Path) -> None:
    fused = UNFUSED | {"fused": True, "made_by": "transformers Trainer"}
    found = job(tmp_path, {**ASKED, "optimizer": fused}, loops=True)
    told = {each.what: each.because for each in found.not_advised}

    assert finding(found, "single-tensor-optimizer") is None
    assert told["optim"].startswith("it is set already, and the fault is left (single-tensor-optimizer ")
