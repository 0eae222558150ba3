"""Attention that writes its scores on a CPU: named and promised within what it takes, unless it drops scores."""

from pathlib import Path

import pytest
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis

RULE = "unfused-attention-on-the-host"
HEADS, SCORES = [32, 512, 64], [32, 512, 512]


def attends(folder: Path, drops: bool = False, implementation: str | None = None, ms: float = 2) -> Diagnosis:
    """Steps of 10 ms, of which the chain of attention takes five times `ms`, or six times if it drops scores."""
    trace, us = Trace(gpu=None), 1000 * ms
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::bmm", us, [HEADS, [32, 64, 512]], "float")
            trace.cpu_op("aten::mul", us, [SCORES, []], "float")
            trace.cpu_op("aten::_softmax", us, [SCORES], "float")
            if drops:
                trace.cpu_op("aten::bernoulli_", us, [SCORES], "float")
            trace.cpu_op("aten::mul", us, [SCORES, SCORES], "float")
            trace.cpu_op("aten::bmm", us, [SCORES, HEADS], "float")
            trace.cpu_op("aten::mm", 10_000 - (6 if drops else 5) * us, [[512, 512], [512, 512]], "float")
    record = {"model": {"attn_implementation": implementation}} if implementation else None
    return analysed(folder, trace, record)


def test_a_chain_that_writes_its_scores_is_named_within_what_it_takes(tmp_path: Path) -> None:
    found = attends(tmp_path, ms=1)

    finding = next(each for each in found.findings if each.rule == RULE)
    assert found.fact("eager_attention_share") == pytest.approx(0.5, abs=0.02)
    assert found.fact("attention_dropout_share") == 0
    assert finding.severity == "critical"
    assert finding.predicted_speedup == pytest.approx((1 / (1 - 0.6 * 0.5), 1 / (1 - 0.97 * 0.5)), rel=0.06)


def test_attention_that_drops_scores_has_no_fused_kernel_on_a_cpu(tmp_path: Path) -> None:
    found = attends(tmp_path, drops=True, ms=1)

    assert found.fact("attention_dropout_share") == pytest.approx(0.1, abs=0.01)
    assert RULE not in {each.rule for each in found.findings}
    assert any("drops some of its scores" in each.because for each in found.not_advised)


def test_the_setting_is_typed_where_transformers_makes_the_model(tmp_path: Path) -> None:
    patches = [
        next(each for each in attends(tmp_path / str(known), implementation=known, ms=1).findings if each.rule == RULE)
        for known in ("eager", None)
    ]

    assert [each.patch is not None for each in patches] == [True, False]


def test_a_small_share_is_left_alone(tmp_path: Path) -> None:
    assert RULE not in {each.rule for each in attends(tmp_path, ms=0.1).findings}
