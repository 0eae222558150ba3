"""The search over divisions: it finds the best of all that fit, reaches the global batch, and says what others lose."""

import json
import re
import tomllib
from dataclasses import replace

import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.launch import launch_file, model_kwargs, training_arguments
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.search import Stated, search, shardings
from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.errors import UserError
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import JobPlan, Sharding

NANOTRON, TRANSFORMERS = stack_of("nanotron"), stack_of("transformers")
OF_256 = Stated(global_batch=256)


def plan(model="8b", gpus=16, nodes=2, **more):
    name, shape = model_from(model)
    return JobPlan(name, shape, gpu_named("H100"), gpus, nodes, 4096, sharding=Sharding(dp=gpus), **more)


def fits(candidate):
    return memory_estimate(candidate).fits.runs


def test_every_ranked_configuration_fits_and_reaches_the_global_batch():
    found = search(plan(), NANOTRON, OF_256, fits)
    assert 0 < len(found.ranked) <= found.fitting < found.tried
    for entry in found.ranked:
        assert fits(entry.plan)
        assert entry.plan.global_batch == 256
        assert entry.step == predict_step(entry.plan, NANOTRON)


def test_the_best_is_first_and_the_others_lose_more_and_more():
    found = search(plan(), NANOTRON, OF_256, fits)
    losses = [found.loss(place) for place in range(len(found.ranked))]
    assert losses[0] == 0
    assert losses == sorted(losses)
    divisions = [entry.plan.sharding for entry in found.ranked]
    assert len(divisions) == len(set(divisions))


def test_tensor_parallelism_stays_inside_a_node_and_the_trainer_divides_only_data():
    everything = list(shardings(plan(gpus=32, nodes=4), NANOTRON))
    assert {division.tp for division in everything} == {1, 2, 4, 8}
    assert {division.zero for division in everything} == {0, 1}
    only_data = list(shardings(plan(gpus=32, nodes=4), TRANSFORMERS))
    assert {(division.dp, division.tp, division.pp) for division in only_data} == {(32, 1, 1)}
    assert [division.zero for division in only_data] == [0, 1, 2, 3]


def test_checkpointing_is_searched_only_where_it_was_left_open():
    kinds = {entry.plan.checkpointing for entry in search(plan("1b", 8, 1), NANOTRON, OF_256, lambda _: True).ranked}
    assert kinds == {"none"}
    stated = Stated(global_batch=256, switches=frozenset({"checkpointing"}))
    given = search(replace(plan(), checkpointing="full"), NANOTRON, stated, lambda _: True)
    assert {entry.plan.checkpointing for entry in given.ranked} == {"full"}


def test_a_global_batch_that_no_division_reaches_is_refused():
    with pytest.raises(UserError, match="use a multiple of 16 sequences"):
        search(plan(), TRANSFORMERS, Stated(global_batch=100), fits)


def test_fsdp_is_launched_by_accelerate_with_its_own_checkpointing():
    job = replace(plan(), sharding=Sharding(dp=16, zero=3), checkpointing="full", micro_batch=2, accumulation=8)
    name, text = launch_file(job, "transformers")
    assert name == "accelerate.yaml"
    for line in ("distributed_type: FSDP", "num_machines: 2", "num_processes: 16", "mixed_precision: bf16"):
        assert line in text.splitlines()
    assert "  fsdp_reshard_after_forward: true" in text
    assert "  fsdp_activation_checkpointing: true" in text
    assert training_arguments(job) == {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 8,
        "bf16": True,
        "optim": "adamw_torch_fused",
    }
    assert model_kwargs(job) == {"dtype": "float32", "attn_implementation": "sdpa"}


def test_ddp_checkpoints_in_the_trainer():
    ddp = replace(plan(), checkpointing="full")
    assert training_arguments(ddp)["gradient_checkpointing"] is True
    assert "distributed_type: MULTI_GPU" in launch_file(ddp, "transformers")[1]


def test_a_stack_with_settings_of_its_own_is_launched_by_them():
    job = replace(plan(), sharding=Sharding(dp=2, tp=8, zero=1), micro_batch=2, accumulation=8)
    name, text = launch_file(job, "nanotron")
    assert name == "nanotron.yaml"
    assert {"  tp: 8", "  dp: 2", "  zero_stage: 1"} <= set(text.splitlines())
    name, text = launch_file(job, "megatron")
    assert name == "megatron's arguments"
    assert {"--tensor-model-parallel-size 8", "--global-batch-size 32", "--use-distributed-optimizer"} <= set(
        text.splitlines()
    )
    assert "--use-megatron-fsdp" not in text


@pytest.mark.parametrize(
    ("sharding", "settings"),
    [
        (Sharding(dp=16), {"data_parallel_replicate_degree": 16, "data_parallel_shard_degree": 1}),
        (Sharding(dp=16, zero=3), {"data_parallel_shard_degree": 16, "fsdp_reshard_after_forward": "always"}),
        (Sharding(dp=8, pp=2, zero=2), {"fsdp_reshard_after_forward": "never", "local_batch_size": 8,
                                        "pipeline_parallel_microbatch_size": 2}),
    ],
)  # fmt: skip
def test_torchtitan_reads_its_division_as_toml(sharding, settings):
    job = replace(plan(), sharding=sharding, micro_batch=2, accumulation=4, checkpointing="selective")
    name, text = launch_file(job, "torchtitan")
    read = tomllib.loads(text)
    flat = {key: value for section in read.values() for key, value in section.items()}
    assert name == "torchtitan.toml"
    assert settings.items() <= flat.items()
    assert flat["global_batch_size"] == job.global_batch
    assert flat["mode"] == "selective"


def asked(*args: str) -> dict:
    done = CliRunner().invoke(main, ["fit", *args, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


ON_32 = ("--model", "llama-3.2-1b", "--gpu", "H100-64GB-MN5", "--seq-len", "1024", "--gpus", "32", "--nodes", "8")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("--micro-batch 37", {"micro_batch": 37, "accumulation": 1}),
        ("--micro-batch 7 --accumulation 3", {"micro_batch": 7, "accumulation": 3}),
        ("--accumulation 5", {"accumulation": 5}),
        ("--micro-batch 6 --global-batch 576", {"micro_batch": 6, "accumulation": 3}),
        ("--accumulation 2 --global-batch 1536", {"micro_batch": 24, "accumulation": 2}),
        ("--dtype bf16 --liger --micro-batch 37", {"dtype": "bf16", "liger": True, "micro_batch": 37}),
        ("--no-liger --compile --global-batch 448", {"liger": False, "compiled": True}),
        ("--attn eager --checkpointing full --micro-batch 2", {"attention": "eager", "checkpointing": "full"}),
    ],
)
def test_what_is_stated_stays_in_every_configuration(given: str, kept: dict) -> None:
    made = asked(*ON_32, *given.split())
    for plan_ in (made["plan"], *(entry["plan"] for entry in made["ranked"])):
        assert {name: plan_[name] for name in kept} == kept


def test_what_is_stated_and_what_was_varied_are_told() -> None:
    made = asked(*ON_32, "--dtype", "bf16", "--liger", "--micro-batch", "37")
    assert made["stated"] == ["bf16", "1024 tokens", "micro-batch 37", "Liger"]
    assert {"ZeRO stage", "checkpointing", "torch.compile"} <= set(made["varied"])
    assert not {"micro-batch", "Liger"} & set(made["varied"])


@pytest.mark.parametrize(("sequences", "sizes"), [(37 * 32, {1, 37}), (42 * 32, {1, 2, 3, 6, 7, 14, 21, 42})])
def test_every_divisor_of_a_rank_s_sequences_is_tried(sequences: int, sizes: set[int]) -> None:
    tried = set()
    search(
        plan("1b", 32, 4),
        TRANSFORMERS,
        Stated(global_batch=sequences),
        lambda each: tried.add(each.micro_batch) or True,
    )
    assert tried == sizes


def test_switches_are_searched_where_the_stack_the_model_and_the_gpu_have_them() -> None:
    def varied(model: str, gpu: str, stack: str) -> set[str]:
        of = model_from(model)[1]
        job = JobPlan("a", of, gpu_named(gpu), 8, 1, 1024, dtype="fp16-mixed", sharding=Sharding(dp=8))
        return set(search(job, stack_of(stack), Stated(micro_batch=1), lambda _: 1).varied) - {"ZeRO stage"}

    assert varied("1b", "H100", "transformers") == {"attention", "checkpointing", "Liger", "torch.compile"}
    assert varied("opt-1.3b", "H100", "transformers") == {"attention", "checkpointing", "torch.compile"}
    assert varied("1b", "V100", "transformers") == {"checkpointing", "Liger", "torch.compile"}
    assert {"checkpointing", "torch.compile"} <= varied("1b", "H100", "torchtitan")
    assert "Liger" not in varied("1b", "H100", "torchtitan")
    assert not {"Liger", "torch.compile", "attention"} & varied("1b", "H100", "nanotron")


def test_copies_and_shards_are_compared_at_the_same_batch() -> None:
    made = asked(*ON_32, "--dtype", "bf16", "--liger", "--micro-batch", "16")
    assert [each["zero"] for each in made["sharded"]] == [0, 1, 2, 3]
    assert made["sharded"][0]["fits"] == "yes"
    shards = min(each["total_bytes"] for each in made["sharded"])
    assert shards < made["sharded"][0]["total_bytes"]
    said = CliRunner().invoke(main, ["fit", *ON_32, "--micro-batch", "16"]).stdout
    assert "shards:     DDP: " in said


def test_where_copies_do_not_fit_the_comparison_says_so() -> None:
    said = CliRunner().invoke(main, ["fit", "--model", "8b", "--gpu", "H100", "--dp", "8", "--zero", "3"]).stdout
    assert "copies (DDP) do not fit: " in " ".join(said.split())


def test_one_gpu_is_told_the_change_that_makes_it_fastest() -> None:
    made = asked("--model", "1b", "--gpu", "H100", "--attn", "eager", "--seq-len", "1024")
    assert made["next"]["change"] == "SDPA instead of eager attention"
    assert made["next"]["gain"] > 1.3
    assert made["next"]["micro_batch"] > made["plan"]["micro_batch"]


def test_the_first_three_lines_say_whether_it_fits_how_fast_and_what_next() -> None:
    lines = CliRunner().invoke(main, ["fit", *ON_32, "--micro-batch", "16"]).stdout.splitlines()
    labels = [line.split()[0] for line in lines[: lines.index("")] if not line.startswith(" ")]
    assert labels == ["fits", "speed", "next"]
    assert re.match(r"fits +yes: [\d.]+ of [\d.]+ GB \([\d.]+-[\d.]+\); largest micro-batch \d+", lines[0])
