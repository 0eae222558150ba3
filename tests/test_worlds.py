"""Changes in the words of what runs the training loop: TrainingArguments only where transformers' Trainer does."""

import re
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace
from over_all import over_all
from small_rules import known

from diagnose.diagnosis import Patch
from diagnose.facts import Fact, Facts, Scalar
from diagnose.patch.job_framework import framework_of, settings
from diagnose.patch.patches import python_lines
from diagnose.probes.frameworks import FRAMEWORKS
from diagnose.rule import Rule, load_rules

RULES = load_rules((), known())
ELSEWHERE = [None, *(each.name for each in FRAMEWORKS if not each.has_own_words)]
TRAINER, LIGHTNING, ACCELERATE, DEEPSPEED, BARE_LOOP = (each.name for each in FRAMEWORKS)
OF_A_TRAINER = {"empties_cache", "liger_asked", "filters_nan_losses", "training_loop", "compile_mode"}
OF_MODELS = {"attn_implementation", "dtype", "gradient_checkpointing"}
SHARED = {
    "gradient_accumulation_steps",
    "bf16",
    "fp16",
    "tf32",
    "padding",
}  # words of other tools, or of what is meant, too
TRAINERS_OWN = re.compile(
    r"(?<![\w.])(?:"
    + "|".join(sorted(set(settings()) - OF_MODELS - SHARED))
    + r")(?!\w)|TrainingArguments|\b(?:bf16|fp16|tf32)=True|adamw_torch|accelerator_config|fsdp_config"
)


def job(loop: str | None, **more: Scalar) -> Facts:
    """The facts of a job of which little is known."""
    given = {**({} if loop is None else {"training_loop": loop}), **more}
    return {name: Fact(name, value, known()[name]) for name, value in given.items()}


def sentences(rule: Rule) -> list[tuple[str, str]]:
    """What the rule may say, each with the facts on which that depends; what only a Trainer's facts bring left out."""
    patch = rule.patch
    conditional = [
        *rule.advice,
        *rule.not_when,
        *(patch.not_when if patch else ()),
        *([rule.negative] if rule.negative else []),
    ]
    told = [each.because for each in conditional if not (each.holds and each.holds.names & OF_A_TRAINER)]
    told += [each.what for each in rule.advice if not (each.holds and each.holds.names & OF_A_TRAINER)]
    return [] if rule.facts & OF_A_TRAINER else [*told, rule.says, rule.action, rule.do, rule.unless]


@over_all("rule, loop", product(RULES, ELSEWHERE))
def test_no_rule_tells_the_trainers_words_to_another_loop(rule: Rule, loop: str | None) -> None:
    facts, job_framework = job(loop), framework_of(job(loop))
    patch = rule.patch_for(facts) if rule.patch is None else replace(rule.patch, holds=None, not_when=())
    canonical = None if patch is None else Patch(target=patch.target, set=dict.fromkeys(patch.values, True))
    made = canonical and not rule.facts & OF_A_TRAINER and job_framework.patch(canonical)
    negative = [job_framework.named(what) for what in (rule.negative.what.split(", ") if rule.negative else [])]
    told = [rule.sentence(text, facts) for text in sentences(rule)]

    for text in [*told, *(python_lines(made) if made else []), *(made.set if made else []), *negative]:
        assert not TRAINERS_OWN.search(text), text


def test_the_trainer_hears_its_own_words() -> None:
    rule = next(rule for rule in RULES if rule.id == "data-wait")

    assert rule.advised(job(TRAINER)).startswith("Raise dataloader_num_workers until")
    assert rule.advised(job(BARE_LOOP)).startswith("Raise num_workers of the DataLoader until")


def test_nobody_hears_pytorchs_words_for_a_framework_that_is_not_known() -> None:
    with pytest.raises(LookupError, match="'Composer' is no training framework"):
        framework_of(job("Composer"))


WAYS: list[tuple[str, dict[str, Any], str | None, str]] = [
    ("training_arguments", {"dataloader_num_workers": 4}, None, "DataLoader(..., num_workers=4)"),
    ("training_arguments", {"bf16": True}, LIGHTNING, 'Trainer(..., precision="bf16-mixed")'),
    ("training_arguments", {"bf16": True}, ACCELERATE, 'Accelerator(..., mixed_precision="bf16")'),
    ("training_arguments", {"bf16": True}, DEEPSPEED, 'ds_config.json: {"bf16": {"enabled": true}}'),
    ("training_arguments", {"tf32": True}, BARE_LOOP, 'torch.set_float32_matmul_precision("high")'),
    ("training_arguments", {"torch_compile": True}, BARE_LOOP, "model = torch.compile(model)"),
    ("training_arguments", {"torch_compile_mode": "reduce-overhead"}, LIGHTNING,
     'model = torch.compile(model, mode="reduce-overhead")'),
    ("training_arguments", {"torch_compile": True}, DEEPSPEED, "engine.compile()"),
    ("training_arguments", {"gradient_accumulation_steps": 4}, LIGHTNING, "Trainer(..., accumulate_grad_batches=4)"),
    ("training_arguments", {"optim": "adamw_torch_fused"}, BARE_LOOP, "torch.optim.AdamW(..., fused=True)"),
    ("training_arguments", {"ddp_static_graph": True}, LIGHTNING,
     "Trainer(..., strategy=DDPStrategy(static_graph=True))"),
    ("ddp", {"gradient_as_bucket_view": True}, ACCELERATE,
     "Accelerator(..., kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)])"),
    ("training_arguments", {"per_device_train_batch_size": 8}, DEEPSPEED,
     'ds_config.json: {"train_micro_batch_size_per_gpu": 8}'),
    ("model_kwargs", {"attn_implementation": "sdpa"}, None,
     "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # is_causal=True for a causal one"),
    ("model_kwargs", {"dtype": "bfloat16"}, BARE_LOOP, "model = model.to(torch.bfloat16)"),
    ("environment", {"PYTORCH_ALLOC_CONF": "a:1"}, BARE_LOOP, "export PYTORCH_ALLOC_CONF=a:1"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "asked", "loop", "typed"), WAYS)
def test_the_change_as_typed_in_each_loop(target: str, asked: dict[str, Any], loop: str | None, typed: str) -> None:
    made = framework_of(job(loop)).patch(Patch(target=target, set=asked))

    assert made is not None
    assert python_lines(made) == [typed]


def test_a_model_of_transformers_is_loaded_so_in_any_loop() -> None:
    asked = Patch(target="model_kwargs", set={"attn_implementation": "sdpa"})

    assert framework_of(job(BARE_LOOP, model_type="llama")).patch(asked) == asked


def test_the_fused_form_is_that_of_the_optimizer_that_runs() -> None:
    asked = Patch(target="training_arguments", set={"optim": "adamw_torch_fused"})
    made = framework_of(job(BARE_LOOP, optimizer_name="Adam")).patch(asked)

    assert made == Patch(
        target="code",
        set={"torch.optim": "torch.optim.Adam(..., fused=True)"},
        by_run={"optimizer": {"fused": True}},
    )


def test_a_change_in_two_places_is_typed_line_by_line() -> None:
    asked = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
    made = framework_of(job(ACCELERATE)).patch(Patch(target="training_arguments", set=asked))

    assert made is not None
    assert python_lines(made) == ["DataLoader(..., batch_size=8)", "Accelerator(..., gradient_accumulation_steps=2)"]


def test_what_only_a_trainer_has_is_no_patch_elsewhere() -> None:
    asked = Patch(target="training_arguments", set={"logging_nan_inf_filter": False})

    assert framework_of(job(BARE_LOOP)).patch(asked) is None
    assert framework_of(job(TRAINER)).patch(asked) == asked


PACKAGES: list[tuple[str, dict[str, Any], Mapping[str, Scalar], tuple[str, ...]]] = [
    ("training_arguments", {"use_liger_kernel": True}, {}, ("pip install liger-kernel",)),
    ("training_arguments", {"use_liger_kernel": True}, {"liger_installed": False}, ("pip install liger-kernel",)),
    ("training_arguments", {"use_liger_kernel": True}, {"liger_installed": True}, ()),
    ("training_arguments", {"use_liger_kernel": False}, {}, ()),
    ("model_kwargs", {"attn_implementation": "flash_attention_3"}, {}, ("pip install kernels",)),
    ("model_kwargs", {"attn_implementation": "flash_attention_3"}, {"flash_attention_3_installed": True}, ()),
    ("model_kwargs", {"attn_implementation": "sdpa"}, {}, ()),
]


@pytest.mark.parametrize(("target", "asked", "there", "install"), PACKAGES)
def test_what_is_not_known_to_be_installed_comes_with_its_command(
    target: str, asked: dict[str, Any], there: Mapping[str, Scalar], install: tuple[str, ...]
) -> None:
    made = framework_of(job(TRAINER, **there)).patch(Patch(target=target, set=asked))

    assert made == Patch(target=target, set=asked, install=install)


def test_kernels_that_torch_brings_need_no_package() -> None:
    made = framework_of(job(BARE_LOOP)).patch(
        Patch(target="model_kwargs", set={"attn_implementation": "flash_attention_3"})
    )

    assert made is not None
    assert made.install == ()


def test_every_setting_of_a_patch_is_in_the_table() -> None:
    named = {key for rule in RULES if rule.patch and rule.patch.target in ("training_arguments", "model_kwargs")
             for key in rule.patch.values}  # fmt: skip

    assert named <= set(settings())
