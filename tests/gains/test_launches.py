"""What torch.compile and CUDA graphs leave of the launches, by each trace's own host time and kernels.

No test here runs a CUDA graph: what one leaves is modelled, and held to the one step that was measured on a GPU.
"""

import os
from pathlib import Path

import pytest
from analysed import ADD, COMM, GEMM, facts
from kineto import Trace
from read_once import diagnosis_of
from whatif.predicted import steps

from diagnose.attribution.causes import EXPOSED, IDLE
from diagnose.diagnosis import Diagnosis, Finding

SAMPLES = Path(__file__).parents[2] / "sample_traces"
COMPILED, REPLAYED = "launch-bound", "launches-one-by-one"
WAITING = ("dlrm-8xv100", "cnn-ddp-a100")  # their steps wait for the device
TRACES = {  # variable of the folder, name: how wide torch.compile's gain was with the same factors for all traces
    ("", "synthetic-tiny-kernels.json.gz"): 2.28,
    ("", "h200-small-kernels.json.gz"): 2.62,
    ("", "h200-uncached-allocations.json.gz"): 1.54,
    ("DIAGNOSE_REAL_TRACES", "dlrm-8xv100"): 1.67,
    ("DIAGNOSE_REAL_TRACES", "cnn-ddp-a100"): 2.65,
    ("DIAGNOSE_MORE_TRACES", "inference-vit-a.json.gz"): 3.39,
}
each = pytest.mark.parametrize("trace", TRACES, ids=[name for _, name in TRACES])
MEASURED = 1.1  # two runs of one job on that machine lie so far apart


def answer(trace: tuple[str, str]) -> Diagnosis:
    variable, name = trace
    path = (Path(os.environ.get(variable, "")) if variable else SAMPLES) / name
    if variable and not (variable in os.environ and path.exists()):
        pytest.skip(f"{variable} names no folder with {name}")
    return diagnosis_of(path)


def finding(trace: tuple[str, str], rule: str) -> Finding | None:
    return next((found for found in answer(trace).findings if found.rule == rule), None)


def gain(trace: tuple[str, str], rule: str) -> tuple[float, float]:
    found = finding(trace, rule)
    assert found is not None
    assert found.predicted_speedup is not None
    low, high = found.predicted_speedup
    assert high is not None
    return low, high


def left(trace: tuple[str, str], *names: str) -> list[float]:
    """The facts of that name, as numbers."""
    known = {fact.name: fact.value for fact in answer(trace).facts}
    return [float(known[name] or 0) for name in names]


@each
def test_graphs_leave_no_more_than_compiled_code_at_best_and_about_as_much_at_worst(trace: tuple[str, str]) -> None:
    least, most = left(trace, "least_compiled_launch_left_share", "most_compiled_launch_left_share")
    replayed = left(trace, "least_replayed_launch_left_share", "most_replayed_launch_left_share")

    assert 0 < replayed[0] < least < most <= replayed[1] <= min(1.03 * most, 1)


@each
def test_the_gain_of_graphs_begins_where_that_of_compiling_does_and_ends_beyond(trace: tuple[str, str]) -> None:
    low, high = gain(trace, COMPILED)
    if finding(trace, REPLAYED) is None:
        assert trace[1] in WAITING
        return
    graphs = gain(trace, REPLAYED)

    assert 1 <= graphs[0] <= low < high < graphs[1]


@each
def test_no_gain_above_the_step_over_the_kernels_that_remain(trace: tuple[str, str]) -> None:
    """At best the host is beside the kernels, and those that fuse are gone."""
    may_go = {*IDLE, EXPOSED, "elementwise", "activation", "dropout", "norm", "softmax", "copy"}
    remains = sum(entry.share for entry in answer(trace).ledger if entry.cause not in may_go)

    for rule in (COMPILED, REPLAYED):
        if finding(trace, rule) is not None:
            assert gain(trace, rule)[1] <= 1 / remains


@each
def test_a_range_by_the_trace_is_narrower_than_one_for_all_traces(trace: tuple[str, str]) -> None:
    low, high = gain(trace, COMPILED)

    assert high / low < TRACES[trace]


@pytest.mark.parametrize("name", WAITING)
def test_graphs_are_not_advised_where_the_step_waits_for_the_device(name: str) -> None:
    because = [one.because for one in answer(("DIAGNOSE_REAL_TRACES", name)).not_advised]

    assert len([text for text in because if "which no graph can hold" in text]) == 1


def test_the_step_that_was_one_graph_on_a_gpu_was_about_as_fast_as_promised_at_best() -> None:
    """The optimizer was in the graph, too: 8.79 times as fast."""
    trace = "", "h200-small-kernels.json.gz"

    assert gain(trace, REPLAYED)[0] <= 8.79 <= gain(trace, REPLAYED)[1] * MEASURED
    assert gain(trace, COMPILED)[1] < 8.79 / 2


def test_the_first_change_of_an_eager_step_is_to_compile_it() -> None:
    trace = "", "h200-small-kernels.json.gz"
    compiled, replayed = finding(trace, COMPILED), finding(trace, REPLAYED)

    assert compiled is not None
    assert replayed is not None
    assert (compiled.severity, replayed.severity) == ("critical", "info")
    assert answer(trace).next.rule == COMPILED
    assert REPLAYED not in [step.rule for step in answer(trace).plan]  # they are alternatives


def of_compiled(job: Trace) -> tuple[float, float]:
    found = facts(job)
    return float(found["least_compiled_launch_left_share"].value), float(found["most_compiled_launch_left_share"].value)  # type: ignore[arg-type]


def chains(job: Trace) -> None:
    """Twenty products, each followed by three kernels that fuse."""
    for _ in range(20):
        job.op("aten::mm", None, GEMM, 3)
        for _ in range(3):
            job.op("aten::add", None, ADD, 3)


def products(job: Trace) -> None:
    """As many launches, of which none fuses with another."""
    for _ in range(80):
        job.op("aten::mm", None, GEMM, 3)


def test_the_more_neighbours_fuse_the_fewer_launches_are_left() -> None:
    fused, apart = of_compiled(steps(chains)), of_compiled(steps(products))

    assert fused[0] < 0.7 * apart[0]
    assert fused[1] < 0.7 * apart[1] <= 0.7


def test_a_slower_dispatch_leaves_more_to_compiling() -> None:
    """The launch call stays, and 40 % of what an operator's dispatch takes beyond it."""

    def dispatched(host_us: float) -> float:
        def step(job: Trace) -> None:
            for _ in range(80):
                job.op("aten::mm", None, GEMM, 3, host_us=host_us)

        return of_compiled(steps(step))[0]

    assert 0.4 < dispatched(100) < dispatched(10) < dispatched(2) <= 1


def test_collectives_are_launched_as_before() -> None:
    def reduced(job: Trace) -> None:
        chains(job)
        for _ in range(20):
            job.op("c10d::allreduce_", None, COMM, 3)

    assert of_compiled(steps(reduced))[0] > of_compiled(steps(chains))[0] + 0.05


def test_a_compiled_step_may_gain_nothing_from_graphs() -> None:
    def step(job: Trace) -> None:
        for _ in range(80):
            job.op("triton_poi_fused_add_0", None, "triton_poi_fused_add_0", 2)

    found = facts(steps(step))

    assert found["is_compiled"].value is True
    assert found["most_replayed_launch_left_share"].value == 1
    assert float(found["least_replayed_launch_left_share"].value) < 0.5  # type: ignore[arg-type]
