"""Ranges of predicted steps: as wide as what was never measured, and the reasons that the answer gives."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fit_jobs import job
from fitting.folds import Fold, factor, measured_runs, with_assumptions
from fitting.rates import Row
from fitting.rows import fms, llm_foundry, transformers
from public_tables import public_table

from diagnose.commands.fit.calibration import Calibration, family
from diagnose.commands.fit.stacks import StackRates, stack_of
from diagnose.commands.fit.stage_time import attention_share
from diagnose.commands.fit.step_time import predict_step
from diagnose.predict.memory.job import Sharding

LADDER = {"gpu": "H100-64GB-MN5", "dtype": "bf16", "liger": True, "seq_len": 1024, "micro_batch": 37}
TRANSFORMERS = stack_of("transformers")


def found(
    sharding: Sharding | None = None, *, stack: str = "transformers", model: str = "Llama-3.2-1B", **fields: Any
) -> Calibration:
    return predict_step(job(model, sharding, **(LADDER | fields)), stack_of(stack)).calibration


def test_a_job_like_measured_ones_says_on_how_many_rows_it_is_calibrated() -> None:
    calibration = found()
    assert calibration.says == f"calibrated on {calibration.rows} rows like this"
    assert calibration.rows >= 10
    assert calibration.factors == {}
    assert calibration.low_s < calibration.likely_s < calibration.high_s


@pytest.mark.parametrize(
    ("axis", "says", "changed"),
    [
        ("variant", "no row on H100-SXM5-80GB, only on H100-64GB-MN5", {"gpu": "H100-SXM5-80GB"}),
        ("board", "no row on A100-SXM4-80GB", {"gpu": "A100-SXM4-80GB"}),
        ("seq_len", "no row with sequences of 32,768 tokens", {"seq_len": 32768, "micro_batch": 1}),
        ("parameters", "no row of a model of 8.03B parameters", {"model": "Llama-3.1-8B"}),
        ("sharding", "never run with ZeRO-3 or FSDP FULL_SHARD", {"sharding": Sharding(dp=4, zero=3)}),
        ("nodes", "no row on 64 nodes", {"sharding": Sharding(dp=256), "nodes": 64}),
    ],
)
def test_what_was_never_measured_widens_the_range_and_is_named(axis: str, says: str, changed: dict[str, Any]) -> None:
    calibration = found(**changed)
    assert axis in calibration.factors
    assert says in calibration.says
    assert calibration.says.startswith("not calibrated: ")
    assert calibration.width > found().width


def test_independent_doubts_add_their_squares() -> None:
    stack = replace(TRANSFORMERS, assumed={}, uncertainty={**TRANSFORMERS.uncertainty, "board": 1.3, "parameters": 1.2})
    plan = job("Llama-3.2-3B", **(LADDER | {"gpu": "A100-SXM4-80GB", "micro_batch": 1}))
    calibration = predict_step(plan, stack).calibration
    slow = math.hypot(math.log(1.3), math.log(calibration.factors["parameters"]), -math.log(stack.span["node"][0]))
    assert set(calibration.factors) == {"board", "parameters"}
    assert math.log(calibration.high_s / calibration.likely_s) == pytest.approx(slow)


def test_a_size_a_little_beyond_counts_as_measured() -> None:
    assert "seq_len" not in found(seq_len=1100).factors
    assert "seq_len" in found(seq_len=1200).factors


def test_a_stack_that_nobody_measured_says_so() -> None:
    calibration = found(stack="other")
    assert calibration.rows == 0
    assert calibration.says.startswith("not calibrated: no run of this training stack is known")
    assert calibration.width > 1.2


def test_an_assumed_share_is_a_range_where_the_job_depends_on_it() -> None:
    stack = replace(TRANSFORMERS, assumed={"gather_exposed_share": (0.1, 1.0)})
    replicated, sharded = (
        predict_step(job("Llama-3.2-1B", Sharding(dp=32, zero=zero), nodes=8, **LADDER), stack).calibration
        for zero in (0, 3)
    )
    assert "assumptions" not in replicated.factors
    assert sharded.factors["assumptions"] > 1.02
    assert "gather exposed share is assumed (0.1 to 1)" in sharded.says


def test_sizes_that_were_measured_apart_are_not_measured_together() -> None:
    runs = TRANSFORMERS.measured[0]
    plan = job("Llama-3.2-1B", **LADDER)
    apart = [replace(runs, board=plan.gpu.key, kinds=("on one GPU",), parameters=(10**9, 2 * 10**9), seq_len=ends)
             for ends in ((512, 512), (2048, 2048))]  # fmt: skip
    calibration = predict_step(plan, replace(TRANSFORMERS, measured=tuple(apart))).calibration
    says = "transformers was run on such a board, division and size, but not together"
    assert calibration.says == f"not calibrated: {says}"


@pytest.mark.parametrize(("board", "chip"), [("H100-64GB-MN5", "H100"), ("A100-SXM4-80GB", "A100"), ("T4", "T4")])
def test_boards_of_one_chip_are_a_family(board: str, chip: str) -> None:
    assert family(board) == chip


# Attention by board and size of heads.


def test_attention_on_a100_reaches_more_of_its_peak_than_on_h100() -> None:
    stack = stack_of("llm-foundry")
    hopper, ampere = (attention_share(job("MPT-7b", gpu=gpu), stack) for gpu in ("H100-SXM5-80GB", "A100-SXM4-80GB"))
    assert 1.4 < ampere / hopper < 2.2


def test_heads_of_half_the_width_reach_less() -> None:
    stack = replace(TRANSFORMERS, narrow_head_attention=0.9)
    narrow, usual = (attention_share(job(model), stack) for model in ("Llama-3.2-1B", "Llama-3.1-8B"))
    assert narrow == pytest.approx(0.9 * usual)


@pytest.mark.parametrize("model", ["7b"])
def test_what_h100_gains_over_a100_at_32k_tokens_is_what_llm_foundry_measured(model: str) -> None:
    rows = [row for row in llm_foundry(public_table("llm_foundry_mpt.csv"))
            if row.model == model and row.plan.seq_len == 32768]  # fmt: skip
    ampere, hopper = (next(row for row in rows if family(row.plan.gpu.key) == chip) for chip in ("A100", "H100"))
    first, second = (predict_step(row.plan, stack_of("llm-foundry")).tokens_per_s_per_gpu for row in (ampere, hopper))
    assert second / first == pytest.approx(hopper.tokens_per_s_per_gpu / ampere.tokens_per_s_per_gpu, rel=0.15)


# Where the factors are from.


def fold(rows: list[Row], stack: StackRates) -> Fold:
    return Fold("transformers", "board", "x", rows, stack)


def row_off_by(factor_of_time: float) -> Row:
    plan = job("Llama-3.2-1B", **LADDER)
    stack = replace(TRANSFORMERS, span=dict.fromkeys(TRANSFORMERS.span, (1.0, 1.0)))
    return Row(plan, predict_step(plan, stack).tokens_per_s_per_gpu / factor_of_time, 1.0, "1B")


def test_a_factor_is_how_far_off_four_in_five_left_out_rows_are_at_most() -> None:
    exact = replace(TRANSFORMERS, span=dict.fromkeys(TRANSFORMERS.span, (1.0, 1.0)), assumed={})
    rows = [row_off_by(1 + 0.1 * at) for at in range(5)]
    assert factor([fold(rows, exact)]) == pytest.approx(1.3)


def test_each_fold_counts_once_however_many_rows_it_has() -> None:
    exact = replace(TRANSFORMERS, span=dict.fromkeys(TRANSFORMERS.span, (1.0, 1.0)), assumed={})
    many, one = fold([row_off_by(1.0)] * 50, exact), fold([row_off_by(1.4)], exact)
    assert factor([many, one]) == pytest.approx(1.4)


def test_what_rows_do_not_tell_is_taken_from_the_other_stacks_with_their_ends() -> None:
    stack = with_assumptions(TRANSFORMERS, set(), {"gather_exposed_share": [0.2, 1.0, 0.5]})
    assert stack.gather_exposed_share == pytest.approx(0.5)
    assert stack.assumed["gather_exposed_share"] == (0.2, 1.0)


def test_the_data_file_holds_the_rows_that_the_stack_was_fitted_on() -> None:
    assert set(measured_runs(list(transformers()))) == set(TRANSFORMERS.measured)


def test_four_in_five_runs_of_a_stack_that_is_in_no_fit_lie_in_the_range_of_other() -> None:
    """IBM's FSDP runs of Llama 2 7B to 70B on A100 and H100."""
    rows = list(fms(public_table("fms_fsdp.csv")))
    steps = [predict_step(row.plan, stack_of("other")) for row in rows]
    measured = [row.plan.tokens_per_step / row.plan.gpus / row.tokens_per_s_per_gpu for row in rows]
    inside = [step.fastest_s <= each <= step.slowest_s for step, each in zip(steps, measured, strict=True)]
    assert np.mean(inside) >= 0.8


def test_a_sharded_job_of_transformers_is_far_from_sure() -> None:
    plan = job("Llama-2-7b", Sharding(dp=96, zero=3), nodes=12, seq_len=4096, micro_batch=2)
    assert predict_step(plan, TRANSFORMERS).calibration.width > 1.5
