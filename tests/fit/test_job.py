"""A job that cannot be launched is refused with what is allowed."""

from typing import Any

import pytest
from fit_jobs import GPUS, job

from diagnose.errors import UserError
from diagnose.formulas.model import ModelShape
from diagnose.predict.memory.job import JobPlan, Sharding, check_sharding, stages_by_work

MODEL = "Llama-3.2-1B"  # 16 layers, 32 heads, 8 key and value heads


@pytest.mark.parametrize(
    ("sharding", "says"),
    [
        (Sharding(tp=3), "tp may be 1, 2, 4, 8, 16, 32"),
        (Sharding(pp=5), "pp may be 1, 2, 4, 8, 16"),
        (Sharding(pp=32, uneven_stages=True), "pp may be 1 to 16"),
        (Sharding(dp=4, replicas=3), "replicas may be 1, 2, 4"),
        (Sharding(zero=4), "3 (ZeRO-3 or FSDP FULL_SHARD)"),
        (Sharding(schedule="zb"), "schedule may be 1f1b, afab"),  # type: ignore[arg-type]
    ],
)
def test_a_sharding_that_the_model_cannot_have_names_those_that_it_can(sharding: Sharding, says: str) -> None:
    with pytest.raises(UserError) as error:
        job(MODEL, sharding)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"gpus": 8, "sharding": Sharding(dp=4)}, "use dp=8"),
        ({"gpus": 8, "sharding": Sharding(tp=16)}, "tp x pp must divide 8"),
        ({"gpus": 8, "sharding": Sharding(dp=8), "nodes": 3}, "nodes may be 1, 2, 4, 8"),
        ({"micro_batch": 0}, "micro_batch must be from 1 to 10,000,000"),
        ({"dtype": "int4"}, "bf16-mixed"),
        ({"optimizer": "adam"}, "adamw"),
        ({"attention": "flashy"}, "attention may be eager, sdpa, flash"),
        ({"checkpointing": "some"}, "checkpointing may be none, selective, full"),
    ],
)
def test_what_cannot_be_launched_is_refused_with_what_is_allowed(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as error:
        job(MODEL, **fields)
    assert says in str(error.value)


def test_the_batch_of_a_step_is_that_of_all_data_parallel_ranks() -> None:
    plan = job(MODEL, Sharding(dp=4, tp=2), micro_batch=3, accumulation=5, seq_len=1024)
    assert plan.global_batch == 4 * 3 * 5
    assert plan.tokens_per_step == 60 * 1024


def test_stages_by_work_give_the_first_ones_more_blocks_because_the_last_has_the_head() -> None:
    nanotron_1b = ModelShape(hidden=2048, layers=16, heads=32, ffn=8192, vocab=131072)
    # A block is 67.1 M weights and the head 268 M, four blocks: 20 in all, and 5 for each of four stages.
    plan = JobPlan("1B", nanotron_1b, GPUS["H100-SXM5-80GB"], gpus=4, sharding=Sharding(pp=4, uneven_stages=True))
    assert plan.layers_per_stage == (6, 5, 5, 0)


def test_a_model_of_any_size_that_a_file_may_state_is_divided_at_once() -> None:
    """One by one, a billion layers would take minutes."""
    endless = ModelShape(hidden=2048, layers=1 << 30, heads=1 << 30, ffn=8192, vocab=131072)

    stages = stages_by_work(endless, 4)
    assert (sum(stages), max(stages) - min(stages) <= 8) == (1 << 30, True)
    with pytest.raises(UserError, match="tp may be 1, 2, 4, 8"):
        check_sharding(endless, Sharding(tp=3))
