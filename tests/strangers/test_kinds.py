"""What operators do on a host without a GPU: their kinds decide the class, and the longest are named."""

import io
from pathlib import Path

import pytest
from analysed import US, attribution, causes
from kineto import Trace
from over_all import over_all
from profiled_jobs import traced
from rich.console import Console

from diagnose import analyze
from diagnose.attribution.causes import CAUSES
from diagnose.attribution.operator_kinds import kind_of, table
from diagnose.diagnosis import Diagnosis
from diagnose.report.text import render

NAMES = [(name, row) for row in table().kind for name in row.examples]
NOT_OPERATORS = [
    "autograd::engine::evaluate_function: AddmmBackward0",
    "AddmmBackward0",
    "torch::autograd::AccumulateGrad",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad",
    "DistributedDataParallel.forward",
    "Optimizer.step#AdamW.step",
    "c10d::allreduce_",
    "gloo:all_reduce",
    "my range",
]


@over_all("name, row", NAMES)
def test_the_table_knows_what_each_operator_does(name: str, row: object) -> None:
    assert kind_of(name) is row
    assert kind_of(f"{name}.out") is row  # an overload


@pytest.mark.parametrize("name", NOT_OPERATORS)
def test_ranges_and_functions_of_autograd_are_no_operators(name: str) -> None:
    assert kind_of(name) is None


@pytest.mark.parametrize(
    ("name", "class_"),
    [
        ("aten::addmm", "compute"),
        ("aten::normal_", "compute"),
        ("aten::sort", "compute"),
        ("aten::add_", "memory"),
        ("aten::copy_", "memory"),
        ("aten::index_select", "memory"),
        ("aten::native_layer_norm", "memory"),
        ("mylib::anything", "memory"),
        ("aten::empty_strided", "host"),
        ("aten::view", "host"),
        ("image::decode_jpeg", "data"),
    ],
)
def test_only_what_streams_through_memory_counts_as_memory_bound(name: str, class_: str) -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op(name, 100)

    assert {CAUSES[cause].class_ for cause in causes(job)} == {class_}


def test_an_operator_counts_without_what_it_calls() -> None:
    job = Trace(gpu=None)
    with job.step(), job.inside("aten::dropout"):
        job.host(10)
        job.cpu_op("aten::bernoulli_", 300)
        job.cpu_op("aten::mul", 100)
        job.host(20)

    assert causes(job) == {"operator-random": 330 * US, "operator-elementwise": 100 * US}


def test_what_describes_a_tensor_anew_is_part_of_the_operator_that_does_so() -> None:
    job = Trace(gpu=None)
    with job.step():
        with job.inside("aten::linear"):
            job.cpu_op("aten::t", 10)
            job.cpu_op("aten::addmm", 300)
        job.cpu_op("aten::view", 20)

    assert causes(job) == {"operator-compute": 310 * US, "dispatch": 20 * US}


def test_an_allocation_inside_an_operator_is_told_where_it_takes_long() -> None:
    job = Trace(gpu=None)
    with job.step(), job.inside("aten::randn"):
        job.cpu_op("aten::empty", 2)
        job.cpu_op("aten::empty", 25_000)
        job.cpu_op("aten::normal_", 300)

    assert causes(job) == {"operator-allocation": 25_000 * US, "operator-random": 302 * US}


def test_an_operator_of_a_library_that_calls_others_may_be_python() -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op("mylib::native", 100)
        with job.inside("mylib::in_python"):
            job.host(70)
            job.cpu_op("aten::mm", 200)

    assert causes(job) == {"operator-unknown": 100 * US, "python": 70 * US, "operator-compute": 200 * US}


def test_operators_of_two_threads_at_once_count_once() -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op("aten::mm", 100)
        with job.thread(2):
            job.cpu_op("aten::normal_", 50)

    assert sum(attribution(job).ns().values()) == attribution(job).total_ns


def test_operators_of_unknown_kind_leave_open_what_they_are_bound_by(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            job.cpu_op("mylib::native", 60_000)
            job.cpu_op("aten::mm", 40_000)

    verdict = diagnosed(job, tmp_path).verdict

    assert verdict.class_ == "undecided"
    assert verdict.because.startswith("operators of unknown kind take 60 % of the host step: it may be ")


def diagnosed(job: Trace, folder: Path) -> Diagnosis:
    return analyze(job.write(folder / "trace.json")).diagnosis


REAL = {  # job of `host_jobs.py`: class, longest cause, longest operator
    "random_numbers": ("compute-bound", "operator-random", "aten::normal_"),
    "dropout": ("compute-bound", "operator-random", "aten::bernoulli_"),
    "gathered": ("memory-bound", "operator-indexing", "aten::"),
    "embeddings": ("memory-bound", "operator-indexing", "aten::index_select"),
    "copies": ("memory-bound", "operator-copy", "aten::"),
    "products": ("compute-bound", "operator-compute", "aten::"),
    "elementwise": ("memory-bound", "operator-elementwise", "aten::"),
    "sorting": ("compute-bound", "operator-arithmetic", "aten::sort"),
}
SAID = {"sorting": "call aten::sort rarely, or on less"}  # a rule is about it


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced(Path(__file__).parent / "host_jobs.py", tmp_path_factory.mktemp("traces"))


@pytest.mark.capture
@pytest.mark.parametrize("job", REAL)
def test_a_real_job_is_bound_by_what_its_longest_operator_does(job: str, traces: Path) -> None:
    class_, cause, operator = REAL[job]

    found = analyze(traces / f"{job}.json").diagnosis
    longest = max(found.ledger, key=lambda entry: entry.ns)

    assert found.verdict.class_ == class_
    assert longest.cause == cause
    assert SAID.get(job, f": {operator}") in first_screen(found)


def first_screen(diagnosis: Diagnosis) -> str:
    to = io.StringIO()
    render(diagnosis, Console(file=to, width=120))
    return to.getvalue()


def test_the_first_screen_names_the_longest_operators_and_what_their_share_is_of(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::normal_", 75_000)
            job.cpu_op("aten::addmm", 20_000)
            job.cpu_op("aten::add", 4_000)
            job.host(1_000)

    named = "of each 100.0 ms step (95 %): aten::normal_ (random numbers) 75.0 %, aten::addmm (matrix products) 20.0 %"
    assert named in " ".join(first_screen(diagnosed(job, tmp_path)).split())


def test_operators_are_named_where_the_gpu_activity_was_lost(tmp_path: Path) -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op("aten::normal_", 75_000)
        job.event("cuda_runtime", "cudaLaunchKernel", 0, correlation=7)
        job.cpu_op("aten::copy_", 25_000)

    assert "operators on the host: aten::normal_ (random numbers) 75.0 %" in first_screen(diagnosed(job, tmp_path))
