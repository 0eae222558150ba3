"""What a record says that a job refuses, or has set, binds the advice of all its ranks."""

import json
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from whatif.predicted import GEMM

from diagnose.analysis import analyze
from diagnose.commands.tune.proposals import changes_of, why_not
from diagnose.diagnosis import Diagnosis, Patch
from diagnose.patch.patches import reachable
from diagnose.patch.refusals import ALREADY, Standing
from diagnose.trace.record import CaptureRecord, decoded
from diagnose.trace.refused import Refused, refused_by

REPEATED = {
    "target": "dataloader",
    "key": "num_workers",
    "value": None,
    "because": "each worker would repeat the data",
    "binds": "job",
    "unless_set": None,
}
TYPED = REPEATED | {"because": "another order: type it", "binds": "patch"}
CORES = {"cores": {"usable": 8, "local_ranks": 1}, "dataloader": {"num_workers": 0}}


def waiting(folder: Path, *records: dict[str, Any]) -> Diagnosis:
    """A job without loader workers that waits for data for most of its step, a rank for each record."""
    for rank, record in enumerate(records):
        job = Trace()
        for _ in range(5):
            with job.step():
                job.loader(ms=9)
                job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 2000)
                job.sync()
        job.write(folder / f"rank{rank}.json.gz")
        (folder / f"capture-rank{rank}.json").write_text(json.dumps({**CORES, **record}))
    return analyze(folder)


def sets_workers(patch: Patch | None) -> bool:
    return patch is not None and any("num_workers" in key for key in patch.set)


def told(diagnosis: Diagnosis) -> dict[str, str]:
    return {each.what: each.because for each in diagnosis.not_advised}


@pytest.mark.parametrize("part", ["refuses", "refused"])
def test_a_refused_change_is_advised_nowhere_and_what_else_helps_stands(part: str, tmp_path: Path) -> None:
    found = waiting(tmp_path, {part: [REPEATED]})
    patches = [each.patch for each in (*found.findings, *found.plan, found.next)]

    assert not any(map(sets_workers, patches))
    assert told(found)["num_workers of the DataLoader, persistent_workers of the DataLoader"] == REPEATED["because"]
    assert (found.next.rule, found.next.action) == ("data-wait", "load batches faster")
    assert "num_workers" not in found.next.do


def test_a_record_that_says_nothing_of_refusals_is_advised_as_ever(tmp_path: Path) -> None:
    refused_before = {"target": "dataloader", "key": "num_workers", "because": "each worker would repeat the data"}

    assert sets_workers(waiting(tmp_path, {"refused": [refused_before], "refuses": None}).next.patch)


def test_a_rank_that_refuses_binds_the_job(tmp_path: Path) -> None:
    assert not sets_workers(waiting(tmp_path, {"rank": 0}, {"rank": 1, "refuses": [REPEATED]}).next.patch)


def test_what_a_run_alone_refuses_is_typed_and_not_tried(tmp_path: Path) -> None:
    found = waiting(tmp_path, {"refuses": [TYPED]})

    assert sets_workers(found.next.patch)
    assert found.next.patch is not None
    assert not reachable(found.next.patch)
    assert [why_not(found, step, False) for step in found.plan if sets_workers(step.patch)] == [
        "no run can set it: another order: type it"
    ]
    assert not any(sets_workers(each.patch) for each in changes_of(found, True))


def standing(refused: Refused | None = None, **record: Any) -> Standing:
    return Standing((refused,) if refused else (), CaptureRecord(record))


ARGUMENTS = "training_arguments"
REFUSALS = {
    "by the name of another version": (
        Refused(ARGUMENTS, "group_by_length", True, "no lengths", "job"),
        Patch(target=ARGUMENTS, set={"train_sampling_strategy": "group_by_length"}),
        True,
    ),
    "by what a run sets": (
        Refused("optimizer", "fused", True, "no such form", "job"),
        Patch(target=ARGUMENTS, set={"optim": "adamw_torch_fused"}),
        True,
    ),
    "of another value": (
        Refused(ARGUMENTS, "bf16", True, "no bf16", "job"),
        Patch(target=ARGUMENTS, set={"bf16": False}),
        False,
    ),
    "of a part of the change": (
        Refused("dataloader", "persistent_workers", True, "no workers", "job"),
        Patch(target=ARGUMENTS, set={"dataloader_num_workers": 2, "dataloader_persistent_workers": True}),
        True,
    ),
    "without what the change sets, too": (
        Refused("dataloader", "persistent_workers", True, "no workers", "job", unless_set="num_workers"),
        Patch(target=ARGUMENTS, set={"dataloader_num_workers": 2, "dataloader_persistent_workers": True}),
        False,
    ),
}


@pytest.mark.parametrize("how", REFUSALS)
def test_a_refusal_is_of_a_change_in_every_form_of_it(how: str) -> None:
    refused, patch, is_refused = REFUSALS[how]

    assert standing(refused).against(patch) == (refused.because if is_refused else "")


IN_EFFECT = {
    "an argument": ({ARGUMENTS: {"tf32": True}}, Patch(target=ARGUMENTS, set={"tf32": True}), True),
    "an argument with another value": (
        {ARGUMENTS: {"logging_steps": 10}}, Patch(target=ARGUMENTS, set={"logging_steps": 100}), False,
    ),
    "an argument of another version": (
        {ARGUMENTS: {"group_by_length": True}},
        Patch(target=ARGUMENTS, set={"train_sampling_strategy": "group_by_length"}),
        True,
    ),
    "a part of the change": (
        {ARGUMENTS: {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}},
        Patch(target=ARGUMENTS, set={"dataloader_num_workers": 4, "dataloader_persistent_workers": True}),
        False,
    ),
    "a loader": (
        {"dataloader": {"pin_memory": True}}, Patch(target=ARGUMENTS, set={"dataloader_pin_memory": True}), True,
    ),
    "a wrapper": ({"ddp": {"static_graph": True}}, Patch(target=ARGUMENTS, set={"ddp_static_graph": True}), True),
    "a model": (
        {"model": {"attn_implementation": "sdpa"}}, Patch(target="model_kwargs", set={"attn_implementation": "sdpa"}),
        True,
    ),
    "a setting of torch": (
        {"torch_settings": {"cudnn_benchmark": True}}, Patch(target=ARGUMENTS, set={"cudnn_benchmark": True}), True,
    ),
    "a variable among others": (
        {"environment": {"PYTORCH_ALLOC_CONF": "a:1,expandable_segments:True"}},
        Patch(target="environment", set={"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        True,
    ),
    "a variable as an older torch reads it": (
        {"versions": {"torch": "2.6.0"}, "environment": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
        Patch(target="environment", set={"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        True,
    ),
    "nothing known": ({}, Patch(target=ARGUMENTS, set={"bf16": True}), False),
}  # fmt: skip


@pytest.mark.parametrize("what", IN_EFFECT)
def test_a_change_that_is_in_effect_is_not_advised(what: str) -> None:
    record, patch, in_effect = IN_EFFECT[what]

    assert standing(**record).against(patch) == (ALREADY if in_effect else "")


def test_entries_of_a_record_that_are_none_are_left_out() -> None:
    record = decoded({"refuses": [7, {"target": "dataloader"}, {**REPEATED, "binds": "nobody"}, REPEATED]})

    assert [each.key for each in refused_by(record)] == ["num_workers"]
