"""PATCH.json: one patch, several, or a diagnosis; checked before the command starts."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from diagnose.capture.command import environment
from diagnose.diagnosis import Patch
from diagnose.errors import UserError
from diagnose.patch.job_framework import JobFramework
from diagnose.patch.patch_file import Request, read
from diagnose.patch.patches import reachable
from diagnose.probes.config import Config
from diagnose.probes.frameworks import BARE_LOOP, TRAINER
from diagnose.probes.protocol import PATCH

RULES = Path(__file__).parents[2] / "rules"


def diagnosis() -> dict[str, object]:
    first = {"rule": "python-host", "patch": None}
    second = {"rule": "unfused-optimizer", "patch": {"target": "training_arguments", "set": {"optim": "adamw_torch"}}}
    third = {"rule": "allocator-churn", "patch": {"target": "environment", "set": {"OMP_NUM_THREADS": 4}}}
    return {"schema_version": 1, "plan": [first, second], "findings": [first, second, third]}


@pytest.mark.parametrize(
    ("suffix", "wanted"),
    [
        ("", {"training_arguments": {"optim": "adamw_torch"}}),
        ("#allocator-churn", {"environment": {"OMP_NUM_THREADS": 4}}),
    ],
)
def test_a_diagnosis_gives_its_first_planned_patch_or_that_of_a_rule(
    tmp_path: Path, suffix: str, wanted: dict[str, object]
) -> None:
    (tmp_path / "d.json").write_text(json.dumps(diagnosis()))

    assert read(f"{tmp_path / 'd.json'}{suffix}").wanted == wanted


def test_several_patches_are_one_request(tmp_path: Path) -> None:
    patches = [{"target": "ddp", "set": {"static_graph": True}}, {"target": "ddp", "set": {"bucket_cap_mb": 50}}]
    (tmp_path / "p.json").write_text(json.dumps(patches))

    assert read(str(tmp_path / "p.json")).wanted == {"ddp": {"static_graph": True, "bucket_cap_mb": 50}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('"bf16"', "this is not a patch"),
        ("[1]", "this is not a patch"),
        ('{"target": "ddp"}', "this is not a patch"),
        ('{"target": "ddp", "set": [1]}', "this is not a patch"),
        ('{"target": "ddp", "set": {"static_graph": true}, "then": 1}', "this is not a patch"),
        ("[]", "nothing in the patch can be applied"),
        ('{"target": "ddp", "set": {"module": "os"}}', "not among the keys of ddp"),
        ('{"target": "kernel", "set": {"a": 1}}', "kernel is no target"),
        ('{"target": "environment", "set": {"LD_PRELOAD": "x.so"}}', "not among the keys of environment"),
        ('{"target": "ddp", "set": {"static_graph": 1}}', "expected true or false"),
        ('{"target": "dataloader", "set": {"num_workers": NaN}}', "expected a whole number"),
        (
            '[{"target": "ddp", "set": {"static_graph": true}}, {"target": "ddp", "set": {"static_graph": false}}]',
            "diff",
        ),
        ('{"plan": [{"rule": "a", "patch": null}]}', "no planned change has a patch"),
        ('{"plan": "x"}', "no planned change has a patch"),
    ],
)
def test_a_malformed_patch_is_an_error_of_the_user(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "p.json").write_text(content)

    with pytest.raises(UserError, match=says):
        read(str(tmp_path / "p.json"))


@pytest.mark.parametrize("target", ["ddp_strategy", "accelerate_ddp"])
def test_what_hands_settings_on_to_ddp_is_applied_there(tmp_path: Path, target: str) -> None:
    patch = {"target": target, "set": {"static_graph": True}, "install": []}
    (tmp_path / "p.json").write_text(json.dumps(patch))

    assert read(str(tmp_path / "p.json")).wanted == {"ddp": {"static_graph": True}}


def test_a_change_of_code_is_typed_and_not_applied(tmp_path: Path) -> None:
    patch = {"target": "code", "set": {"torch.compile": "model = torch.compile(model)"}}
    (tmp_path / "p.json").write_text(json.dumps(patch))

    with pytest.raises(UserError, match="it is typed: no run sets code"):
        read(str(tmp_path / "p.json"))


@pytest.mark.parametrize("argument", ["not-there.json", "not-there.json#rule", "."])
def test_a_patch_that_cannot_be_read_is_an_error_of_the_user(argument: str) -> None:
    with pytest.raises(UserError, match="cannot read the patch"):
        read(argument)


@pytest.mark.parametrize("command", [["train.py"], [sys.executable, "-I", "train.py"]])
def test_without_its_patch_the_command_does_not_start(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "train.py").write_text("open('started', 'w').close()")
    (tmp_path / "p.json").write_text(
        '{"target": "ddp", "set": {"static_graph": %s}}' % ("1" if len(command) < 2 else "true")
    )
    run = [sys.executable, "-m", "diagnose", "run", "--apply", "p.json", "--", *command]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 3
    assert done.stderr.startswith("Error: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.json", "train.py"]


def test_variables_reach_the_job_and_the_allocators_settings_are_kept() -> None:
    wanted = {"environment": {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "TOKENIZERS_PARALLELISM": False}}
    there = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:False", "A": "1"}
    env = environment(there, Config("/out", 3, 2), Path("s"), Request(wanted))

    merged = "max_split_size_mb:128,expandable_segments:True"
    assert (env["PYTORCH_ALLOC_CONF"], env["PYTORCH_CUDA_ALLOC_CONF"]) == (merged, merged)
    assert (env["TOKENIZERS_PARALLELISM"], env["A"]) == ("0", "1")
    assert json.loads(env[PATCH]) == {"set": wanted, "refused": [], "expected": None}


OF_EXPRESSIONS = {"bf16": True, "padding": "attention_mask", "data_collator": "longest"}  # all others are numbers


def test_every_patch_of_a_rule_can_be_applied() -> None:
    import tomllib

    tables = (tomllib.loads(path.read_text()).get("patch") for path in sorted(RULES.glob("*.toml")))
    patches = [
        Patch(target=table["target"], set={key: OF_EXPRESSIONS.get(key, 4) if str(value).startswith("=") else value})
        for table in tables
        if table
        for key, value in table["set"].items()
    ]
    of_a_trainer = JobFramework(TRAINER.name, {})

    assert len(patches) > 10
    assert [patch for patch in patches if not reachable(of_a_trainer.patch(patch) or patch)] == []


OF_BARE_LOOPS = [
    ({"optim": "adamw_torch_fused"}, {"optimizer": {"fused": True}}),
    ({"tf32": True}, {"torch": {"float32_matmul_precision": "high"}}),
    ({"torch_compile": True}, {"torch": {"compile": True}}),
    ({"gc_every_steps": 100}, {"gc": {"every_steps": 100}}),
    ({"dataloader_num_workers": 2}, {"dataloader": {"num_workers": 2}}),
    ({"ddp_static_graph": True}, {"ddp": {"static_graph": True}}),
]


@pytest.mark.parametrize(("asked", "wanted"), OF_BARE_LOOPS)
def test_what_a_bare_loop_is_told_to_type_is_what_a_run_sets(
    asked: dict[str, object], wanted: dict[str, object], tmp_path: Path
) -> None:
    made = JobFramework(BARE_LOOP.name, {}).patch(Patch(target="training_arguments", set=asked))
    assert made is not None
    (tmp_path / "p.json").write_bytes(msgspec.json.encode(made))

    assert reachable(made)
    assert read(str(tmp_path / "p.json")).wanted == wanted


@pytest.mark.parametrize("asked", [{"bf16": True}, {"per_device_train_batch_size": 8}, {"logging_steps": 9}])
def test_what_no_run_can_set_in_a_bare_loop_is_said_to_be_out_of_reach(
    asked: dict[str, object], tmp_path: Path
) -> None:
    made = JobFramework(BARE_LOOP.name, {}).patch(Patch(target="training_arguments", set=asked))
    assert made is not None
    (tmp_path / "p.json").write_bytes(msgspec.json.encode(made))

    assert not reachable(made)
    with pytest.raises(UserError, match="nothing in the patch can be applied"):
        read(str(tmp_path / "p.json"))
