"""Doubles, and a forward pass that runs again, on a CPU: named where they take time, with no more gain than that."""

from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis

RULES = (DOUBLES, RECOMPUTES) = ("double-precision", "recomputed-on-the-host")
SIZES = [[64, 64], [64, 64]]


def multiplies(dtype: str, gpu: str | None = None) -> Trace:
    """Steps of 10 ms, of which products take 8."""
    trace = Trace(gpu=gpu)
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::mm", 8000, SIZES, dtype)
            trace.cpu_op("aten::gelu", 2000, SIZES[:1], dtype)
    return trace


def test_doubles_come_first_within_what_they_take(tmp_path: Path) -> None:
    told = analysed(tmp_path, multiplies("double"))

    assert told.next.rule == DOUBLES
    assert told.fact("double_product_share") == pytest.approx(0.8, abs=0.01)
    cases = (1 / (1 - 0.5 * 0.8 - 0.3 * 0.2), 2.8)
    assert told.next.predicted_speedup == pytest.approx(cases, rel=0.05)


@pytest.mark.parametrize("dtype", ["float", "c10::BFloat16"])
def test_other_types_are_no_doubles(dtype: str, tmp_path: Path) -> None:
    assert DOUBLES not in {each.rule for each in analysed(tmp_path, multiplies(dtype)).findings}


def test_without_types_the_weights_tell(tmp_path: Path) -> None:
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::mm", 8000)
            trace.cpu_op("aten::gelu", 2000)

    told = analysed(tmp_path, trace, {"model": {"dtypes": {"float64": 100}}})

    assert told.next.rule == DOUBLES


def test_kernels_in_double_precision_are_named_by_their_names(tmp_path: Path) -> None:
    trace = Trace()
    for _ in range(5):
        with trace.step():
            trace.launch("void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x3_nn_align1>(Params)", 8000)
            trace.launch("void at::native::vectorized_elementwise_kernel<4, double>(int)", 1000)

    told = analysed(tmp_path, trace)

    assert told.fact("double_product_share") > 0.5
    assert told.next.rule == DOUBLES


def recomputing(folder: Path, free_bytes: int) -> Diagnosis:
    """Steps of 10 ms, of whose backward pass operators of a forward pass take 2."""
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::mm", 4000, SIZES, "float")
            with trace.backward("autograd::engine::evaluate_function: CheckpointFunctionBackward"):
                trace.cpu_op("aten::gelu", 1000, SIZES[:1], "float")
                trace.cpu_op("aten::native_layer_norm", 1000, SIZES[:1], "float")
                with trace.inside("autograd::engine::evaluate_function: MmBackward0"):
                    trace.cpu_op("aten::mm", 4000, SIZES, "float")
    record: dict[str, Any] = {
        "model": {"dtypes": {"float32": 1000}, "parameters": 1000, "trainable": 1000, "gradient_checkpointing": True},
        "machine_samples": {"gauges": {"available_bytes": {"window": [free_bytes] * 3}}},
        "cores": {"local_ranks": 1},
    }
    return analysed(folder, trace, record)


def test_a_forward_pass_that_runs_again_is_needless_where_the_host_has_memory(tmp_path: Path) -> None:
    told = recomputing(tmp_path, 8 << 30)

    assert told.fact("recompute_host_share") == pytest.approx(0.2, abs=0.02)
    assert (told.next.rule, told.next.severity) == (RECOMPUTES, "warning")
    cases = (1 / (1 - 0.6 * 0.2), 1 / (1 - 1.3 * 0.2))
    assert told.next.predicted_speedup == pytest.approx(cases, rel=0.04)


def test_it_is_kept_where_memory_is_short(tmp_path: Path) -> None:
    assert RECOMPUTES not in {each.rule for each in recomputing(tmp_path, 1000).findings}
