"""The numbers of a run in an explanation are those of its diagnosis."""

from pathlib import Path

import pytest
from diagnoses import diagnosis
from explain_answers import MEMORY_BOUND, SLOW_LOADER, explained, sample
from msgspec.structs import replace

from diagnose.commands.explain.numbers import numbers_of
from diagnose.commands.explain.run import Run
from diagnose.diagnosis import Doubt
from diagnose.facts import spoken
from diagnose.hardware.named import gpu_named


def yours(name: str, run: str) -> str:
    return " ".join(explained(name, sample(run)).yours)


def test_mfu_is_eta_times_the_share_that_computes() -> None:
    run = sample(MEMORY_BOUND)
    computes = sum(entry.share for entry in run.diagnosis.ledger if entry.class_ == "compute")
    mfu = run.diagnosis.mfu.own_value or run.diagnosis.mfu.value
    assert mfu is not None

    assert (
        f"eta {spoken(mfu / computes, 'share')} x share that computes {spoken(computes, 'share')} = "
        f"MFU {spoken(mfu, 'share')}" in yours("mfu", MEMORY_BOUND)
    )
    assert "eta 72.2 % x share that computes 26.6 % = MFU 19.2 %" in yours("mfu", MEMORY_BOUND)


def test_without_a_gpu_mfu_says_why_it_is_unknown() -> None:
    assert "not known" in yours("mfu", SLOW_LOADER)


def test_the_iron_law_is_the_sum_of_the_step() -> None:
    told = yours("iron law", MEMORY_BOUND)

    assert told.startswith("47.8 ms = 35.0 ms memory (D/BW: GPU memory) + 12.7 ms compute (O/(R·eta)).")


def test_the_roofline_has_the_ridges_of_the_runs_gpu() -> None:
    assert "bf16 295.2 FLOP/B (peak 989.4 TFLOP/s)" in yours("roofline", MEMORY_BOUND)


@pytest.mark.parametrize("gpu", ["H100", "V100"])
def test_without_a_run_the_roofline_has_the_ridges_of_the_table(gpu: str) -> None:
    board = gpu_named(gpu)
    peak, bandwidth = board.matrix_tflops, board.hbm_gbs
    assert peak is not None
    assert bandwidth is not None

    assert f"{gpu}: {board.matrix_dtype} {peak:.1f} TFLOP/s" in " ".join(explained("roofline").yours)
    assert f"ridge of {1000 * peak / bandwidth:.1f} FLOP/B" in " ".join(explained("roofline").yours)


def test_unfused_attention_counts_the_scores_of_a_layer() -> None:
    told = yours("unfused-attention", MEMORY_BOUND)

    assert "4 x 32 x 2,048 x 2,048 = 536,870,912 scores per layer: 1.0 GiB in bf16" in told
    assert "does 60.2 FLOP/B; the ridge of the GPU is 295.2 FLOP/B" in told


def test_memory_bound_names_the_longest_kernels_and_how_near_the_memory_they_are() -> None:
    assert "softmax fp32, 10.3 ms at 2600.0 GB/s, 77.6 % of the memory's speed" in yours("memory-bound", MEMORY_BOUND)


def test_data_wait_has_the_step_with_and_without_the_wait() -> None:
    run = sample(SLOW_LOADER)
    step = run.diagnosis.steps.time_ns / run.diagnosis.steps.count
    wait = next(entry.share for entry in run.diagnosis.ledger if entry.cause == "data-wait") * step

    assert f"{spoken(wait, 'ns')} of waiting and {spoken(step - wait, 'ns')} of the rest" in yours(
        "data-wait", SLOW_LOADER
    )
    assert f"at best {step / (step - wait):.2f}x" in yours("data-wait", SLOW_LOADER)


def test_what_to_do_is_the_branch_of_the_run() -> None:
    finding = sample(SLOW_LOADER).diagnosis.finding("data-wait")
    assert finding is not None

    [do] = explained("data-wait", sample(SLOW_LOADER)).do
    assert finding.do in do
    assert finding.action[1:] in do
    assert explained("unfused-attention", sample(SLOW_LOADER)).do == ("Nothing in this run.",)


def test_a_quiet_rule_says_what_it_looked_at() -> None:
    [told] = explained("exposed-communication", sample(MEMORY_BOUND)).yours

    assert told == "The rule stays quiet in this run: exposed communication none of the step."


def test_a_cause_has_its_time_in_the_step() -> None:
    entry = next(each for each in sample(MEMORY_BOUND).diagnosis.ledger if each.cause == "softmax")

    assert f"of each 47.8 ms step ({spoken(entry.share, 'share')})." in yours("softmax", MEMORY_BOUND)


def test_an_unknown_fact_says_why() -> None:
    assert yours("memory_peak_bytes", MEMORY_BOUND).startswith("Not known in this run: ")


def test_confidence_has_the_doubts_of_the_run() -> None:
    doubted = diagnosis()
    doubted = replace(doubted, verdict=replace(doubted.verdict, doubts=(Doubt(kind="few-steps", says="one step"),)))
    run = Run("runs/x", doubted, numbers_of(doubted))

    assert "Doubts, worst first: one step." in explained("confidence", run).yours
    assert Path(run.path).name == "x"
