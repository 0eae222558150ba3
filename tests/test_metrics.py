"""Facts: every metric is documented and answers on every kind of trace; the values that advice rests on."""

import ast
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from analysed import (
    ADD,
    GEMM,
    MS,
    US,
    capture_failed,
    content,
    facts,
    without,
)
from kineto import Trace
from over_all import over_all

import diagnose.metrics
from diagnose.facts import Fact, Scalar, Unit, Unknown
from diagnose.metrics import REGISTRY, merged
from diagnose.probes import protocol

FOLDER = Path(diagnose.metrics.__file__).parent
PEAK = 989.4e12
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)"
CONV = "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"


def value(built: Any, name: str, **settings: float) -> Scalar | Unknown:
    return facts(built, **settings)[name].value


def typical(gpu: str | None = "NVIDIA H100 80GB HBM3", *, shapes: bool = True) -> Trace:
    job = Trace(gpu=gpu)
    for _ in range(3):
        with job.step():
            job.loader(us=50)
            for name, dims, kernel in (("aten::mm", [[512, 512], [512, 512]], GEMM), ("aten::add", [[512, 512]], ADD)):
                if gpu:
                    job.op(name, dims if shapes else None, kernel, 40)
                else:
                    job.cpu_op(name, 40, dims if shapes else None)
            if gpu:
                job.item()
    return job


KINDS: dict[str, Callable[[], Any]] = {
    "with shapes": typical,
    "without shapes": lambda: typical(shapes=False),
    "without a GPU": lambda: typical(None),
    "capture failed": lambda: capture_failed(typical()),
    "launches only": lambda: without(typical(), "cpu_op", "user_annotation"),
}


@over_all("metric", REGISTRY.values())
def test_a_metric_says_what_it_is(metric: Any) -> None:
    assert metric.unit in get_args(Unit)
    assert len(metric.doc) > 15
    assert metric.doc.endswith(".")
    assert metric.name.endswith(f"_{metric.unit}") or metric.unit in ("flag", "text", "count", "version")
    assert (metric.unit == "share") == bool(metric.of), "a share names its denominator"


@over_all("path", sorted(FOLDER.rglob("*.py")))
def test_a_metric_is_registered_by_being_in_the_folder(path: Path) -> None:
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    decorators = {node.name: ast.unparse(node.decorator_list[0]) for node in functions if node.decorator_list}
    metrics = {name for name, decorated in decorators.items() if decorated.startswith("metric(")}

    assert metrics <= REGISTRY.keys()


@pytest.mark.long
def test_metrics_are_found_in_a_zip_file_too(tmp_path: Path) -> None:
    folders = {"diagnose": FOLDER.parent, "diagnose/probes": Path(protocol.__file__).parent}
    modules = {f"{name}/{path.relative_to(at)}": path for name, at in folders.items() for path in at.rglob("*.py")}
    with zipfile.ZipFile(tmp_path / "diagnose.zip", "w") as archive:
        for name, path in modules.items():
            archive.write(path, name)
    counted = "import diagnose.metrics as m; print(m.__file__, len(m.REGISTRY))"

    done = subprocess.run(
        [sys.executable, "-c", counted], capture_output=True, text=True, check=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "diagnose.zip")},
    )  # fmt: skip

    where, count = done.stdout.split()
    assert "diagnose.zip" in where
    assert int(count) == len(REGISTRY)


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_answers_or_says_why_not(kind: str) -> None:
    for name, fact in facts(KINDS[kind]()).items():
        if isinstance(fact.value, Unknown):
            assert fact.value.because, name
            assert fact.value.capture_next, name
        elif fact.unit == "share":
            assert 0 <= float(fact.value) <= 1, name
        else:
            assert isinstance(fact.value, str if fact.unit == "text" else bool if fact.unit == "flag" else int | float)


@pytest.mark.parametrize("kind", ["without a GPU", "capture failed"])
def test_without_activity_the_gpu_is_unknown_and_never_idle(kind: str) -> None:
    found = facts(KINDS[kind]())

    names = ["gpu_busy_share", "gpu_idle_share", "kernels_per_step", "gemm_share", "sync_share", "optimizer_kind"]
    assert not any(found[name].known for name in names)


def test_a_failed_capture_leaves_no_share_of_the_step_known() -> None:
    found = facts(capture_failed(typical()))

    assert [name for name, fact in found.items() if fact.of == "the step" and fact.known] == []


def test_kernels_and_launches_are_counted_per_counted_step() -> None:
    job = Trace()
    for number in range(4):
        with job.step():
            for _ in range(50 if number == 0 else 6):
                job.launch(ADD, 5)
            job.collective("allreduce", 1 << 20, 50)
            job.sync(stream=None)

    found = facts(job)

    assert found["step_count"].value == 3
    assert found["kernels_per_step"].value == 6
    assert found["launches_per_step"].value == 7
    assert found["collectives_per_step"].value == 1
    assert found["syncs_per_step"].value == 1
    assert found["median_kernel_ns"].value == 5 * US


CONV_DIMS = [[32, 64, 56, 56], [64, 64, 3, 3], [64], [], [], [], [], [], []]
HEADS = [8, 16, 1024, 64]


def convolution(stride: int) -> dict[str, Any]:
    return {"Concrete Inputs": ["", "", "", f"[{stride}, {stride}]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]}


@pytest.mark.parametrize(
    ("name", "dims", "args", "flops"),
    [
        ("aten::mm", [[4096, 4096], [4096, 4096]], None, 2 * 4096**3),
        ("aten::addmm", [[4096], [4096, 1024], [1024, 4096], [], []], None, 2 * 4096 * 1024 * 4096),
        ("aten::bmm", [[64, 512, 256], [64, 256, 512]], None, 2 * 64 * 512 * 256 * 512),
        ("aten::baddbmm", [[64, 512, 512], [64, 512, 256], [64, 256, 512]], None, 2 * 64 * 512 * 256 * 512),
        ("aten::convolution", CONV_DIMS, convolution(1), 2 * 32 * 56 * 56 * 64 * 64 * 9),
        ("aten::convolution", CONV_DIMS, convolution(2), 2 * 32 * 28 * 28 * 64 * 64 * 9),
        ("aten::_scaled_dot_product_flash_attention", [HEADS] * 3, None, 4 * 8 * 16 * 1024 * 1024 * 64),
        ("aten::_scaled_dot_product_flash_attention_backward", [HEADS] * 4, None, 10 * 8 * 16 * 1024 * 1024 * 64),
    ],
)
def test_mfu_is_flops_over_peak_times_the_step(name: str, dims: Any, args: Any, flops: int) -> None:
    kernel = CONV if "conv" in name else FLASH if "attention" in name else GEMM
    job = Trace()
    with job.step():
        job.op(name, dims, kernel, 988, args=args)  # 5 us host, 3 us launch, 4 us latency: 1000 us

    assert value(job, "mfu_share") == pytest.approx(flops / (PEAK * 1e-3))


def one_product(gpu_us: float = 188, gpu: str = "NVIDIA H100 80GB HBM3") -> Trace:
    job = Trace(gpu=gpu)
    with job.step():
        job.op("aten::mm", [[4096, 4096], [4096, 4096]], GEMM, gpu_us)
    return job


def test_an_operator_inside_an_operator_is_counted_once() -> None:
    job = Trace()
    dims = [[4096, 4096], [4096, 4096]]
    with job.step(), job.inside("aten::linear", dims), job.inside("aten::matmul", dims):
        job.op("aten::mm", dims, [(GEMM, 94), (GEMM, 94)])

    assert float(value(job, "mfu_share")) == pytest.approx(2 * 4096**3 / (PEAK * 200e-6))  # type: ignore[arg-type]


def test_more_than_the_peak_is_refused() -> None:
    found = value(one_product(gpu_us=88), "mfu_share")

    assert isinstance(found, Unknown)
    assert "impossible" in found.because
    assert "--peak-tflops" in found.capture_next


def test_more_than_the_kernels_can_have_computed_is_refused_with_both_figures() -> None:
    job = one_product()
    with job.step():
        job.op("aten::mul", [[4096, 4096]], "vectorized_elementwise_kernel", 188)

    found = value(job, "mfu_share", flops_per_step=0.6 * PEAK * 200e-6)

    assert isinstance(found, Unknown)
    assert found.because == (
        "61.9 % of the peak is impossible: kernels that compute products run for 48.5 % of the step, so the FLOPs of a "
        "step or the peak are wrong"
    )


def test_an_unknown_device_has_no_peak_until_one_is_given() -> None:
    built = content(one_product())
    built["deviceProperties"] = [{"id": 0, "name": "NVIDIA Z999"}]

    unknown = value(built, "mfu_share")

    assert isinstance(unknown, Unknown)
    assert "Z999" in unknown.because
    assert value(built, "mfu_share", peak_tflops=2000.0) == pytest.approx(2 * 4096**3 / (2e15 * 200e-6))


def test_given_flops_replace_counted_ones() -> None:
    assert value(one_product(), "mfu_share", flops_per_step=PEAK * 100e-6) == pytest.approx(0.5)


def test_products_without_shapes_make_mfu_unknown_rather_than_small() -> None:
    job = one_product()
    job.op("aten::mm", None, GEMM, 100)
    found = content(job)
    step = next(e for e in found["traceEvents"] if e["name"].startswith("ProfilerStep"))
    step["dur"] += 500

    assert isinstance(value(found, "mfu_share"), Unknown)


def test_the_efficiency_of_products_ignores_what_is_around_them() -> None:
    job = one_product(gpu_us=200)
    with job.step():
        job.sync()
        job.host(900)
        job.op("aten::mm", [[4096, 4096], [4096, 4096]], GEMM, 200)

    assert value(job, "matmul_efficiency_share") == pytest.approx(2 * 4096**3 / (PEAK * 200e-6))


def test_memory_facts_come_from_the_allocator_records() -> None:
    job = typical()
    job.memory(1 << 30, allocated=30 << 30, reserved=40 << 30)
    job.memory(-(1 << 30), allocated=29 << 30, reserved=39 << 30)

    found = facts(job)

    assert found["memory_peak_bytes"].value == 40 << 30
    assert found["memory_total_bytes"].value == 85_017_755_648
    assert found["memory_free_share"].value == pytest.approx(1 - (40 << 30) / 85_017_755_648)
    assert isinstance(value(typical(), "memory_peak_bytes"), Unknown)


def test_what_is_whole_on_each_rank_is_whole_on_the_job() -> None:
    """7 loader workers on one rank and 8 on the other are no 7.5; an error that one of many has is one."""
    found = merged([{"n": Fact("n", value, "count")} for value in (7, 8)])
    errors = merged([{"n": Fact("n", value, "count")} for value in (0, 0, 0, 1)])
    means = merged([{"n": Fact("n", value, "count")} for value in (7.0, 8.0)])

    assert (found["n"].value, errors["n"].value, means["n"].value) == (8, 1, 7.5)


def test_facts_of_a_job_are_means_over_the_ranks_that_know_them() -> None:
    fast, slow, blind = facts(one_product(100)), facts(one_product(300)), facts(capture_failed(one_product()))

    found = merged([fast, slow, blind])

    assert found["step_time_ns"].unit == "ns"
    assert found["median_kernel_ns"].value == 200 * US
    assert found["has_gpu"].value is True
    assert found["steps_source"].value == "ProfilerStep"


def test_the_slow_first_step_is_kept_as_a_factor() -> None:
    job = Trace()
    for number in range(4):
        with job.step():
            job.launch(GEMM, 5993 if number == 0 else 1993)
            job.sync()

    assert value(job, "slow_first_step_factor") == pytest.approx(3, rel=0.01)
    assert value(job, "step_time_ns") == pytest.approx(2 * MS, rel=0.01)


def test_without_a_mark_of_fetching_the_data_wait_is_unknown() -> None:
    job = Trace()
    for _ in range(2):
        with job.step():
            job.launch(GEMM, 300)
            job.host(900)  # next(my_iterator): no DataLoader, no range
    found = facts(job)

    assert isinstance(found["loader_workers"].value, Unknown)
    assert isinstance(found["data_wait_share"].value, Unknown)
