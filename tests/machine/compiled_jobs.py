"""For each rule about torch.compile a record of its faulty work, and that of a model in one graph."""

from collections.abc import Mapping
from typing import Any

from analysed import ADD
from faulty_traces import operators, steps
from kineto import Trace

from diagnose.diagnosis import Severity

Record = Mapping[str, Any]


def compiled(file: str = "train.py", function: str = "forward", **more: Any) -> dict[str, Any]:
    """One compilation as the record has it."""
    row = {"file": file, "line": 10, "function": function, "broken_at": None, "again": None, "failed": None}
    return {**row, "failed_at": None, "because": [], **more}


def record(*rows: Record) -> Record:
    """The record of a job that compiles."""
    return {"compiled": True, "compilations": {"compiled": list(rows)}}


ONE_GRAPH = record(compiled())
BROKEN = record(compiled(because=["Data-dependent branching"]), compiled(broken_at=17))
CASES: Mapping[str, tuple[Severity, Record, str]] = {
    "graph-breaks": ("warning", BROKEN, "train.py:17 in forward (Data-dependent branching)"),
    "recompilations": (
        "warning",
        record(compiled(), *[compiled(again="sizes change")] * 5),
        "train.py:10 in forward (sizes change), 5 times",
    ),
    "failed-compilations": (
        "warning",
        record(compiled(failed="BackendCompilerFailed", failed_at=12)),
        "train.py:12 in forward (BackendCompilerFailed)",
    ),
}


def job() -> Trace:
    """Steps of a product and of short kernels, which the host launches one by one."""
    return steps(operators(*[("aten::add", None, ADD, 2)] * 300))
