"""A patch in the user's spellings, with the names of the versions that run the job."""

import subprocess
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from diagnose.diagnosis import Patch
from diagnose.patch.patches import diff, export_lines, flags, python_lines, spelled


def patch(target: str, **values: Any) -> Patch:
    return Patch(target=target, set=values)


def arguments(**values: Any) -> Patch:
    return patch("training_arguments", **values)


OLD, NEW = {"transformers": "4.40.2", "torch": "2.9.1"}, {"transformers": "5.23.0", "torch": "2.13.0+cpu"}


@pytest.mark.parametrize(
    ("given", "old", "new", "unknown"),
    [
        (
            patch("model_kwargs", dtype="bfloat16"),
            {"torch_dtype": "bfloat16"},
            {"dtype": "bfloat16"},
            {"dtype": "bfloat16"},
        ),
        (
            arguments(train_sampling_strategy="group_by_length"),
            {"group_by_length": True},
            {"train_sampling_strategy": "group_by_length"},
            {"train_sampling_strategy": "group_by_length"},
        ),
        (
            arguments(group_by_length=False),
            {"group_by_length": False},
            {"train_sampling_strategy": "random"},
            {"train_sampling_strategy": "random"},
        ),
        (
            arguments(evaluation_strategy="no"),
            {"evaluation_strategy": "no"},
            {"eval_strategy": "no"},
            {"eval_strategy": "no"},
        ),
        (
            arguments(gradient_checkpointing=True),
            {"gradient_checkpointing": True},
            {"activation_checkpointing": True},
            {"gradient_checkpointing": True},
        ),
        (
            patch("environment", PYTORCH_ALLOC_CONF="a:1"),
            {"PYTORCH_CUDA_ALLOC_CONF": "a:1"},
            {"PYTORCH_ALLOC_CONF": "a:1"},
            {"PYTORCH_ALLOC_CONF": "a:1"},
        ),
        (arguments(bf16=True), {"bf16": True}, {"bf16": True}, {"bf16": True}),
    ],
)
def test_names_follow_the_versions(
    given: Patch, old: dict[str, object], new: dict[str, object], unknown: dict[str, object]
) -> None:
    assert [spelled(given, versions).set for versions in (OLD, NEW, None)] == [old, new, unknown]


@pytest.mark.parametrize(
    ("name", "value", "first", "version_before"),
    [
        ("eval_strategy", "no", "4.41.0", "4.40.2"),
        ("train_sampling_strategy", "random", "5.2.0", "5.1.0"),
        ("activation_checkpointing", True, "5.23.0", "5.22.0"),
    ],
)
def test_a_name_is_new_from_its_first_version_on(name: str, value: object, first: str, version_before: str) -> None:
    assert name in spelled(arguments(**{name: value}), {"transformers": first}).set
    assert name not in spelled(arguments(**{name: value}), {"transformers": version_before}).set


@pytest.mark.long
def test_the_names_of_this_transformers_are_its_own() -> None:
    transformers = pytest.importorskip("transformers")
    given = arguments(eval_strategy="no", train_sampling_strategy="random", gradient_checkpointing=True)
    fields = transformers.TrainingArguments.__dataclass_fields__

    assert set(spelled(given, {"transformers": transformers.__version__}).set) <= set(fields)


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        (arguments(bf16=True, optim="adamw_torch"), ['TrainingArguments(..., bf16=True, optim="adamw_torch")']),
        (arguments(torch_empty_cache_steps=None), ["TrainingArguments(..., torch_empty_cache_steps=None)"]),
        (patch("model_kwargs", dtype="bfloat16"), ["from_pretrained(..., dtype=torch.bfloat16)"]),
        (patch("dataloader", num_workers=4), ["DataLoader(..., num_workers=4)"]),
        (patch("ddp", static_graph=True), ["DistributedDataParallel(..., static_graph=True)"]),
        (patch("environment", A=True, B="x y"), ["export A=1", "export B='x y'"]),
        (patch("ddp_strategy", static_graph=True), ["Trainer(..., strategy=DDPStrategy(static_graph=True))"]),
        (
            patch("accelerate_ddp", static_graph=True),
            ["Accelerator(..., kwargs_handlers=[DistributedDataParallelKwargs(static_graph=True)])"],
        ),
        (
            patch("ds_config", **{"bf16.enabled": True, "zero_optimization.stage": 1}),
            ['ds_config.json: {"bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}'],
        ),
        (patch("code", **{"torch.compile": "model = torch.compile(model)"}), ["model = torch.compile(model)"]),
        (
            Patch(target="training_arguments", set={"use_liger_kernel": True}, install=("pip install liger-kernel",)),
            ["pip install liger-kernel", "TrainingArguments(..., use_liger_kernel=True)"],
        ),
        (patch("unheard_of", x=[1, "a"]), ['unheard_of: x=[1, "a"]']),
        (arguments(), []),
    ],
)
def test_the_line_to_type_in_code(given: Patch, typed: list[str]) -> None:
    assert python_lines(given) == typed


def test_flags_are_those_of_a_script_with_training_arguments_only() -> None:
    assert flags(arguments(bf16=True, logging_steps=100, fsdp_config={"a": 1})) == (
        "--bf16 True --logging_steps 100 --fsdp_config '{\"a\": 1}'"
    )
    assert flags(patch("dataloader", num_workers=4)) == ""


def test_exports_are_for_the_environment_only() -> None:
    assert export_lines(arguments(bf16=True)) == []
    line = export_lines(patch("environment", PYTORCH_ALLOC_CONF="a:True;b"), OLD)[0]
    shown = subprocess.run(["sh", "-c", f"{line}; echo $PYTORCH_CUDA_ALLOC_CONF"], capture_output=True, text=True)

    assert shown.stdout == "a:True;b\n"


@pytest.mark.long
def test_hf_argument_parser_reads_the_flags(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import shlex

    given = arguments(bf16=True, dataloader_num_workers=4, logging_nan_inf_filter=False, optim="adamw_torch_fused")
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    words = ["--output_dir", str(tmp_path), "--use_cpu", "True", *shlex.split(flags(given))]
    assert isinstance(parser, ArgumentParser)
    [parsed] = parser.parse_args_into_dataclasses(words)

    assert {name: getattr(parsed, name) for name in given.set} == given.set


def test_a_diff_shows_what_was_there_where_it_is_known() -> None:
    given = arguments(bf16=True, optim="adamw_torch_fused", logging_steps=100)

    assert diff(given, {"optim": "adamw_torch", "logging_steps": 100}) == (
        " TrainingArguments(\n"
        "+    bf16=True,\n"
        '-    optim="adamw_torch",\n'
        '+    optim="adamw_torch_fused",\n'
        "+    logging_steps=100,\n"
        " )\n"
    )
    assert diff(patch("environment", A=1)) == ""
