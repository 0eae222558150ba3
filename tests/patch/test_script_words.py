"""A change is typed in the words of the job's own script: its options, its config's keys, or lines that it holds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from diagnose.diagnosis import Patch
from diagnose.patch.patches import flags, python_lines
from diagnose.patch.script_words import Script
from diagnose.probes.facts import script
from diagnose.trace.record import CaptureRecord

WORKERS = {"num_workers": 4}, {"dataloader_num_workers": 4}, "dataloader"
FUSED = {"torch.optim": "torch.optim.AdamW(..., fused=True)"}, {"optim": "adamw_torch_fused"}, "code"
COMPILE = {"torch.compile": "model = torch.compile(model)"}, {"torch_compile": True}, "code"
TRAINER = {"dataloader_num_workers": 4}, {"dataloader_num_workers": 4}, "training_arguments"
LIGHTNING = {"precision": "bf16-mixed"}, {"bf16": True}, "lightning_trainer"
LOADER, ADAMW = "DataLoader(..., num_workers=4)", "torch.optim.AdamW(..., fused=True)"
ARGUMENTS = "TrainingArguments(..., dataloader_num_workers=4)"
Change = tuple[dict[str, Any], dict[str, Any], str]


def option(flag: str, takes: str = "value", default: object = None) -> dict[str, object]:
    return {"flags": [flag], "takes": takes, "default": default, "file": "train.py", "line": 7}


def call(name: str, line: int = 30) -> dict[str, object]:
    return {"name": name, "file": "train.py", "line": line}


def typed(change: Change, command: str = "python train.py", **record: Any) -> list[str]:
    """The lines for a change in a job whose script is as the record has it."""
    of_script = {"options": [], "calls": [], "config": None} | record.pop("script", {})
    made, asked, target = change
    known = CaptureRecord({"script": of_script, "command": command.split(), **record})
    lines = Script.of(known).lines(Patch(target="training_arguments", set=asked), Patch(target=target, set=made))  # type: ignore[union-attr]
    return python_lines(Patch(target=target, set=made, typed=lines))


@pytest.mark.parametrize(
    ("change", "of_script", "lines"),
    [
        (WORKERS, {"options": [option("--workers")]}, ["--workers 4"]),
        (WORKERS, {"options": [option("--num-workers")]}, ["--num-workers 4"]),
        (WORKERS, {"config": {"data.num_workers": 0, "data.path": None}}, ["data.num_workers=4"]),
        (WORKERS, {"calls": [call("DataLoader")]}, [f"{LOADER}  # train.py:30"]),
        (WORKERS, {"calls": [call("DataLoader"), call("DataLoader", 40)]}, [LOADER]),
        (WORKERS, {}, [f"{LOADER}  # wherever it is made: the script itself names no DataLoader"]),
        (FUSED, {"options": [option("--opt-kwargs", "values")]}, ["--opt-kwargs fused=True"]),
        (FUSED, {"options": [option("--fused", "nothing")]}, ["--fused"]),
        (FUSED, {"config": {"optimizer.fused": False}}, ["optimizer.fused=true"]),
        (FUSED, {"options": [option("--opt")]}, [f"{ADAMW}  # --opt chooses it: the script itself names no AdamW"]),
        (FUSED, {"options": [option("--optim")], "calls": [call("AdamW")]}, [f"{ADAMW}  # train.py:30"]),
        (COMPILE, {"options": [option("--torchcompile", "maybe")]}, ["--torchcompile"]),
        (COMPILE, {"options": [option("--compile", "value")]}, ["model = torch.compile(model)"]),
        (TRAINER, {"calls": [call("HfArgumentParser")]}, ["--dataloader_num_workers 4"]),
        (TRAINER, {"calls": [call("TrainingArguments")]}, [f"{ARGUMENTS}  # train.py:30"]),
        (TRAINER, {"calls": [call("Seq2SeqTrainingArguments")]}, [f"{ARGUMENTS}  # train.py:30"]),
        (TRAINER, {}, [ARGUMENTS]),
        (LIGHTNING, {"calls": [call("LightningCLI")]}, ["--trainer.precision=bf16-mixed"]),
    ],
)  # fmt: skip
def test_the_line_is_one_that_the_user_writes(change: Change, of_script: dict[str, Any], lines: list[str]) -> None:
    assert typed(change, script=of_script) == lines


@pytest.mark.parametrize(
    ("command", "runs", "takes_it"),
    [
        ("t.py --workers 2", 2, True),
        ("t.py --workers=2", 2, True),
        ("t.py", 0, True),
        ("t.py --workers 2", 0, False),
        ("t.py", 8, False),
    ],
)
def test_an_option_of_something_else_is_told_by_what_runs(command: str, runs: int, takes_it: bool) -> None:
    of_script = {"options": [option("--workers", default=0)], "calls": [call("DataLoader")]}

    lines = typed(WORKERS, command, script=of_script, dataloader={"num_workers": runs})

    assert lines == (["--workers 4"] if takes_it else [f"{LOADER}  # train.py:30"])


def test_arguments_from_a_file_are_not_given_as_options() -> None:
    of_script = {"calls": [call("HfArgumentParser")]}

    assert typed(TRAINER, "python t.py a.json", script=of_script) == [
        "TrainingArguments(..., dataloader_num_workers=4)  # by a.json"
    ]
    assert typed(TRAINER, "python t.py --deepspeed a.json", script=of_script) == ["--dataloader_num_workers 4"]


def test_one_line_names_a_change_once() -> None:
    patch = Patch(target="training_arguments", set={"bf16": True}, typed=("--bf16 True",))

    assert (python_lines(patch), flags(patch)) == (["--bf16 True"], "")


def test_a_record_without_a_script_changes_no_line() -> None:
    assert Script.of(CaptureRecord({})) is None


def test_options_and_calls_are_read_without_a_warning_of_python() -> None:
    text = (
        'pattern = "\\d\\." + r"\\w" + "\\\\d"\n'
        'parser.add_argument("-j", "--workers", type=int, default=2)\n'
        'group.add_argument("--fused", action="store_true")\n'
        '@click.option("--compile/--no-compile", is_flag=True)\n'
        "def main():\n    loader = torch.utils.data.DataLoader(data)\n"
    )

    calls = script._calls_in(text)  # warnings are errors here
    options = [known for each in calls if (known := script._option(each))]

    assert [(o["flags"], o["takes"], o["default"]) for o in options] == [
        (["-j", "--workers"], "value", 2),
        (["--fused"], "nothing", None),
        (["--compile", "--no-compile"], "nothing", None),
    ]
    assert "DataLoader" in [script._name_of(each.func) for each in calls]
    assert script._calls_in("print 'no Python of ours'") == []


def test_values_of_a_config_that_may_be_secrets_are_not_recorded() -> None:
    text = "hub:\n  token: abc\n  password: 1234\noptimizer:\n  _target_: torch.optim.AdamW\n  fused: false\n"

    assert script._keys(text) == {
        "hub.token": None, "hub.password": None, "optimizer._target_": "torch.optim.AdamW", "optimizer.fused": False,
    }  # fmt: skip


LOOP = """
import time, torch
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, at):
        time.sleep(0.02)
        return torch.ones(8)
def train(workers, fused):
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    for number, batch in zip(range(45), torch.utils.data.DataLoader(Slow(), batch_size=1, num_workers=workers)):
        model(batch).sum().backward()
        optimizer.step()
"""
ARGPARSE = """
import argparse, loop
parser = argparse.ArgumentParser()
parser.add_argument("-j", "--workers", type=int, default=0)
parser.add_argument("--fused", action="store_true")
given = parser.parse_args()
loop.train(given.workers, given.fused)
"""
HYDRA = """
import hydra, loop
@hydra.main(version_base=None, config_path=".", config_name="config")
def main(config):
    loop.train(config.data.num_workers, config.optimizer.fused)
main()
"""
PARSED = """
import time, torch
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=32, vocab_size=64)
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, at):
        time.sleep(0.02)
        ids = torch.randint(0, 64, (8,))
        return {"input_ids": ids, "labels": ids}
Trainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=Slow()).train()
"""
OF_TRAINER = [
    "--output_dir=o",
    "--max_steps=40",
    "--per_device_train_batch_size=2",
    "--report_to=none",
    "--use_cpu=True",
]
CONFIG = "data:\n  num_workers: 0\noptimizer:\n  fused: false\n  api_key: s3cr3t\n"
JOBS = {
    "argparse": (ARGPARSE, [], "--workers "),
    "HfArgumentParser": (PARSED, OF_TRAINER, "--dataloader_num_workers "),
    "Hydra": (HYDRA, ["+wandb.api_key=s3cr3t"], "data.num_workers="),
}


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_real_job_is_advised_in_its_scripts_own_words(job: str, tmp_path: Path) -> None:
    needs(*{"argparse": ["torch"], "HfArgumentParser": ["transformers", "accelerate"], "Hydra": ["hydra"]}[job])
    text, arguments, begins = JOBS[job]
    for name, content in {"train.py": text, "loop.py": LOOP, "config.yaml": CONFIG}.items():
        (tmp_path / name).write_text(content)
    command = [sys.executable, "-m", "diagnose", "run", "--out", "run", "--", sys.executable, "train.py", *arguments]
    env = os.environ | {"OMP_NUM_THREADS": "1", "DIAGNOSE_LEDGER": "off"}
    subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True)

    found = json.loads((tmp_path / "run" / "diagnosis.json").read_text())["findings"]
    [waits] = [finding for finding in found if finding["rule"] == "data-wait"]

    assert waits["patch"]["typed"][0].startswith(begins)
    assert "s3cr3t" not in (tmp_path / "run" / "capture-rank0.json").read_text()
