"""Whether it is the model that is compiled, where the trace alone tells."""

import pytest
from analysed import GEMM, facts
from kineto import Trace

from diagnose.facts import Unknown

TRITON = "triton_poi_fused_add_0"


def job(eager: int, compiled: int, in_optimizer: int = 0) -> Trace:
    """Steps of a model's kernels, some launched by compiled code, and an optimizer that may be compiled."""
    trace = Trace()
    for _ in range(4):
        with trace.step():
            for _ in range(eager):
                trace.op("aten::mm", [[512, 512]] * 2, GEMM, 20)
            if compiled:
                with trace.annotation("Torch-Compiled Region: 0/0"):
                    for _ in range(compiled):
                        trace.op("aten::mm", [[512, 512]] * 2, GEMM, 20)
            with trace.optimizer("Muon"):
                for _ in range(in_optimizer):
                    trace.launch(TRITON, 10)
    return trace


@pytest.mark.parametrize(
    ("eager", "compiled", "in_optimizer", "expected"),
    [
        (20, 20, 0, True),
        (89, 11, 0, True),
        (91, 9, 0, False),
        (20, 0, 20, False),
        (0, 0, 20, True),
    ],
    ids=["half", "more than a tenth", "less than a tenth", "the optimizer alone", "nothing but the optimizer runs"],
)
def test_a_model_is_compiled_where_compiled_code_launches_its_kernels(
    eager: int, compiled: int, in_optimizer: int, expected: bool
) -> None:
    assert facts(job(eager, compiled, in_optimizer))["is_compiled"].value is expected


def test_without_compiled_code_it_is_not_told() -> None:
    assert isinstance(facts(job(20, 0))["is_compiled"].value, Unknown)
