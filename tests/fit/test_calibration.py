"""Rates of a diagnosed run in the place of a stack's: what is taken, what stays, and what is refused."""

import json

import pytest

from diagnose.commands.fit.diagnosed_rates import calibrated
from diagnose.commands.fit.stacks import stack_of
from diagnose.errors import UserError

STACK = stack_of("transformers")


def run(tmp_path, entries=(), facts=()):
    path = tmp_path / "run.json"
    peaks = [{"precision": "bf16", "flops_per_s": 1e15}]
    facts = [{"name": name, "value": value} for name, value in facts]
    path.write_text(json.dumps({"roofline": list(entries), "roofs": {"peaks": peaks}, "facts": facts}))
    return path


def kernels(family, flops, tflops, precision="bf16"):
    return {"family": family, "precision": precision, "flops": flops, "tflops": tflops}


def test_products_count_by_their_time_and_attention_by_its_causal_half(tmp_path):
    # 6e12 FLOPs in 10 ms and 2e12 in 10 ms are 400 TFLOP/s; fp32 is another peak's
    entries = [kernels("gemm", 6e12, 600), kernels("gemm", 2e12, 200), kernels("gemm", 1e12, 10, "fp32"),
               kernels("attention", 1e12, 300)]  # fmt: skip
    made = calibrated(STACK, run(tmp_path, entries))
    assert made.matrix_share == pytest.approx(0.4)
    assert made.matrix_half_width == 0
    assert made.attention_share == pytest.approx(0.15)
    assert made.elementwise_bytes == STACK.elementwise_bytes
    assert made.node_gbs == STACK.node_gbs
    assert made.source.startswith("matrix_share, matrix_half_width, attention_share of run.json; the rest ")


@pytest.mark.parametrize(("nodes", "expected"), [(2, 40.0), (1, None), (None, None)])
def test_the_network_is_told_by_a_run_of_several_nodes(tmp_path, nodes, expected):
    path = run(tmp_path, [kernels("gemm", 1e12, 500)], [("nodes", nodes), ("bus_bytes_per_s", 40e9)])
    assert calibrated(STACK, path).node_gbs == (expected or STACK.node_gbs)


def test_a_run_without_rates_and_a_file_that_is_no_diagnosis_are_refused(tmp_path):
    with pytest.raises(UserError, match="the run has no achieved rate"):
        calibrated(STACK, run(tmp_path, [kernels("gemm", None, None)]))
    for text in ("{}", "[]", "no json", ""):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(UserError, match="diagnosis"):
            calibrated(STACK, tmp_path / "other.json")
