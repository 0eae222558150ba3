"""What a patch does to TrainingArguments and models, and what of it is refused: one script each, in a fork."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from capture.scripts import run, said

from diagnose.probes.apply import constructors, model
from diagnose.probes.apply.job_patch import JobPatch

pytestmark = pytest.mark.skipif(find_spec("transformers") is None, reason="needs transformers")

ARGUMENTS = """
import dataclasses, os, sys, torch
import diagnose.probes.bootstrap.sitecustomize  # as in a process of `diagnose run --apply`
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
def made(**more):
    return TrainingArguments(output_dir=os.path.join(sys.argv[1], "o"), report_to=[], use_cpu=True, **more)
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=32, vocab_size=64)
model = LlamaForCausalLM._from_config(config, torch_dtype=torch.float32)
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield from range(4)
"""


def patched(folder: Path, body: str, patch: dict[str, dict[str, object]]) -> subprocess.CompletedProcess[str]:
    """The arguments and the model above, then `body`, in a process to which `patch` is handed."""
    return run(ARGUMENTS + textwrap.dedent(body), folder, {}, patch=patch)


def test_arguments_changed_after_they_were_made_are_patched_at_the_trainer(tmp_path: Path) -> None:
    body = """
    args = made()
    args.bf16, args.logging_steps = False, 7
    args.mixed_precision = os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # where one version or the other derives it
    trainer = Trainer(model=model, args=args, train_dataset=[{}])
    print(args.bf16, trainer.accelerator.mixed_precision, args.logging_steps)
    """
    patch = {"training_arguments": {"bf16": True, "logging_steps": 50}}

    assert patched(tmp_path, body, patch).stdout == "True bf16 50\n"


def test_what_the_constructor_rejects_is_refused_and_the_rest_applied(tmp_path: Path) -> None:
    body = "args = made(save_strategy='steps')\nprint(args.eval_strategy.value, args.logging_steps, args.tf32)\n"
    patch = {"training_arguments": {"tf32": True, "bf16": True, "fp16": True, "logging_steps": 50}}
    done = patched(tmp_path, body, patch)

    assert done.stdout == "no 50 None\n"
    assert [line.split(" (")[0] for line in said(done)] == [
        "diagnose: not applied: tf32",
        "diagnose: not applied: fp16",
    ]


def test_what_the_trainers_data_rules_out_is_taken_back(tmp_path: Path) -> None:
    body = """
    args = made(max_steps=2)
    print(args.dataloader_num_workers, args.dataloader_prefetch_factor)
    for each in (args, dataclasses.replace(args)):
        Trainer(model=model, args=each, train_dataset=Stream())
        print(each.dataloader_num_workers, each.dataloader_prefetch_factor)
    """
    patch = {
        "training_arguments": {
            "dataloader_num_workers": 3, "dataloader_prefetch_factor": 4, "train_sampling_strategy": "random"
        }
    }  # fmt: skip
    done = patched(tmp_path, body, patch)

    assert done.stdout == "3 4\n0 None\n0 None\n"
    assert said(done) == [
        "diagnose: not applied: dataloader_num_workers (each worker would repeat the data of an IterableDataset)",
        "diagnose: not applied: dataloader_prefetch_factor (it needs dataloader_num_workers above 0)",
    ]


def test_a_dataset_that_would_have_to_be_gone_through_is_not_grouped_by_length(tmp_path: Path) -> None:
    body = """
    class Endless(torch.utils.data.Dataset):  # for goes through it for ever: no index is out of its range
        def __len__(self):
            return 8
        def __getitem__(self, i):
            return {"input_ids": [1] * (i % 8 + 1)}
    for data in (Endless(), [{"input_ids": [1]}] * 8):
        args = made(max_steps=2)
        list(Trainer(model=model, args=args, train_dataset=data)._get_train_sampler() or ())
        print(getattr(args, "train_sampling_strategy", getattr(args, "group_by_length", None)))  # the latter before 5.2
    """
    patch = {"training_arguments": {"train_sampling_strategy": "group_by_length"}}
    done = patched(tmp_path, body, patch)

    assert done.stdout in ("random\ngroup_by_length\n", "False\nTrue\n")
    assert said(done)[0].startswith(
        "diagnose: not applied: train_sampling_strategy (lengths are taken by going through"
    )


def test_what_the_script_asks_for_too_is_left_as_it_is(tmp_path: Path) -> None:
    body = """
    args = made(max_steps=2, dataloader_num_workers=3)
    Trainer(model=model, args=args, train_dataset=Stream())
    print(args.dataloader_num_workers)
    """
    patch = {"training_arguments": {"dataloader_num_workers": 3}}
    done = patched(tmp_path, body, patch)

    assert (done.stdout, said(done)) == ("3\n", [])


def test_a_script_that_fails_by_itself_fails_as_it_does_without_a_patch(tmp_path: Path) -> None:
    done = patched(tmp_path, "made(bf16=True, fp16=True)\n", {"training_arguments": {"bf16": True}})

    assert done.returncode == 1
    assert "At most one of fp16 and bf16" in done.stderr
    assert said(done) == []


def test_a_model_that_cannot_take_the_patch_is_made_as_the_script_says(tmp_path: Path) -> None:
    if find_spec("flash_attn") or find_spec("kernels"):
        pytest.skip("flash attention may be had here")
    body = "print(model.config._attn_implementation, model.dtype)\n"
    patch = {"model_kwargs": {"attn_implementation": "flash_attention_3"}}
    done = patched(tmp_path, body, patch)

    assert (done.returncode, done.stdout) == (0, "sdpa torch.float32\n")
    assert "not applied: attn_implementation (" in said(done)[0]


@pytest.mark.slow
def test_a_mode_of_the_compiler_compiles_what_the_trainer_trains(tmp_path: Path) -> None:
    """Without a GPU torch compiles in this mode as in any other; the graphs themselves are not shown here."""
    body = """
    rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 4
    args = made(max_steps=2, per_device_train_batch_size=2, disable_tqdm=True, save_strategy="no")
    trainer = Trainer(model=model, args=args, train_dataset=rows)
    trainer.train()
    print(args.torch_compile, args.torch_compile_mode, torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0)
    """
    done = patched(tmp_path, body, {"training_arguments": {"torch_compile_mode": "reduce-overhead"}})

    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "True reduce-overhead True"


def test_a_dtype_takes_the_place_of_the_scripts_under_either_name(tmp_path: Path) -> None:
    patch = {"model_kwargs": {"dtype": "bfloat16"}}

    assert patched(tmp_path, "print(model.dtype)\n", patch).stdout == "torch.bfloat16\n"


def test_the_dtype_is_spelled_as_the_version_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(bfloat16="bf16"))
    for version, name in (("4.55.4", "torch_dtype"), ("4.56.0", "dtype"), ("5.23.0", "dtype")):
        monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(__version__=version))

        assert model.spelled({"torch_dtype": "x", "a": 1}, {"dtype": "bfloat16"}) == {"a": 1, name: "bf16"}


def test_a_process_without_a_session_is_not_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constructors, "session", lambda: None)

    assert constructors.values_for(JobPatch({"ddp": {"static_graph": True}}), "ddp") == {}
