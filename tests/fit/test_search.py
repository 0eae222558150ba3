"""The search over divisions: it finds the best of all that fit, reaches the global batch, and says what others lose."""

import tomllib
from dataclasses import replace

import pytest

from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.launch import launch_file, model_kwargs, training_arguments
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.search import search, shardings
from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.errors import UserError
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import JobPlan, Sharding

NANOTRON, TRANSFORMERS = stack_of("nanotron"), stack_of("transformers")


def plan(model="8b", gpus=16, nodes=2, **more):
    name, shape = model_from(model)
    return JobPlan(name, shape, gpu_named("H100"), gpus, nodes, 4096, sharding=Sharding(dp=gpus), **more)


def fits(candidate):
    return memory_estimate(candidate).fits


def test_every_ranked_configuration_fits_and_reaches_the_global_batch():
    found = search(plan(), NANOTRON, 256, fits)
    assert 0 < len(found.ranked) <= found.fitting < found.tried
    for entry in found.ranked:
        assert fits(entry.plan)
        assert entry.plan.global_batch == 256
        assert entry.step == predict_step(entry.plan, NANOTRON)


def test_the_best_is_first_and_the_others_lose_more_and_more():
    found = search(plan(), NANOTRON, 256, fits)
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
    kinds = {entry.plan.checkpointing for entry in search(plan("1b", 8, 1), NANOTRON, 256, lambda _: True).ranked}
    assert kinds == {"none"}
    given = search(replace(plan(), checkpointing="full"), NANOTRON, 256, lambda _: True)
    assert {entry.plan.checkpointing for entry in given.ranked} == {"full"}


def test_a_global_batch_that_no_division_reaches_is_refused():
    with pytest.raises(UserError, match="use a multiple of 16 sequences"):
        search(plan(), TRANSFORMERS, 100, fits)


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
