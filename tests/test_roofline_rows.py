"""The roofline of whole steps: rows, owners, facts, and real traces."""

import os
from pathlib import Path

import numpy as np
import pytest
from analysed import ADD, GEMM, content, edited, facts, timeline
from kineto import COMMUNICATION, Trace
from rooflines import FLAT, H100, HBM, LARGE, LARGE_FLOPS, SPLIT_K, one, roofline, row

from diagnose.attribution.attribution import attribute
from diagnose.facts import Unknown
from diagnose.hardware import resolve
from diagnose.roofline import roofline_of
from diagnose.timeline import timeline_of
from diagnose.trace import read


def mixed(steps: int = 3) -> Trace:
    job = Trace()
    for _ in range(steps):
        with job.step():
            job.op("aten::mm", LARGE, GEMM, 80)
            job.op("aten::add", [[4096, 4096]] * 2, ADD, 60, stream=COMMUNICATION)  # overlaps what follows
            job.op("aten::mm", FLAT, [(GEMM, 90), (SPLIT_K, 10)])
            job.op("mylib::custom", [[64]], ADD, 20)
            job.copy(1 << 20)
            job.collective("allreduce", 1 << 20, 50)
            job.item()
    return job


def test_the_time_of_the_rows_is_the_kernel_time_of_the_ledger() -> None:
    line = timeline(mixed())
    found, ledger = roofline_of(line, resolve(line.device_properties, None)), attribute(line).ns()

    kernel_ns = ledger["gemm"] + ledger["elementwise"]
    assert sum(r.ns for r in found.rows) == int(found.ns.sum()) == kernel_ns
    assert all(0 <= r.sized_ns <= r.ns for r in found.rows)
    assert all(r.above_roof_ns is None or 0 <= r.above_roof_ns <= r.ns for r in found.rows)
    assert sum(w.ns for w in found.matrix) == ledger["gemm"]


def products(steps: int) -> Trace:
    job = Trace()
    for _ in range(steps):
        with job.step():
            job.op("aten::mm", LARGE, [(GEMM, 80), (SPLIT_K, 10)])
            job.sync()
    return job


def test_the_cost_of_the_counted_steps_only() -> None:
    found = row(roofline(products(4)), "gemm")  # the first of three or more steps is not counted

    assert found.flops == pytest.approx(3 * LARGE_FLOPS)
    assert found.kernels == 3 * 2


def test_a_kernel_that_a_step_cuts_counts_in_part() -> None:
    line = timeline(mixed(4))
    found = roofline_of(line, resolve(line.device_properties, None))

    cut = (line.gpu.start < line.windows[0, 0]) & (line.gpu.end > line.windows[0, 0])
    assert cut.any()
    assert 3 * LARGE_FLOPS < (row(found, "gemm").flops or 0) < 3 * (LARGE_FLOPS + 134_486_163_456)


def test_collectives_and_copies_are_left_out() -> None:
    line = timeline(mixed())
    found = roofline_of(line, resolve(line.device_properties, None))

    other = line.gpu.is_communication | line.gpu.is_copy
    assert not found.ns[other].any()
    assert set(found.class_[other].tolist()) == {""}
    assert np.isnan(found.above_roof_ns[other]).all()


def test_without_links_the_operator_is_the_innermost_that_was_running() -> None:
    built = content(mixed())
    for event in built["traceEvents"]:
        if event.get("cat") in ("kernel", "cuda_runtime", "cuda_driver"):
            event["args"]["External id"] = 10_000_000 + event["args"].get("correlation", 0)

    linked, unlinked = timeline(mixed()), timeline(built)

    assert roofline(built).operator.tolist() == roofline(mixed()).operator.tolist()
    assert (roofline(built).operator >= 0).sum() == (linked.gpu.launch >= 0).sum() == len(unlinked.gpu)


def test_an_id_of_an_operator_that_had_ended_is_not_believed() -> None:
    job = Trace()
    with job.step():
        job.cpu_op("aten::view", 5, [[64]])
        job.op("aten::mm", LARGE, GEMM, 80)
    wrong = edited(edited(job, "kernel", 0, **{"External id": 2}), "cuda_runtime", 0, **{"External id": 2})

    line = timeline(wrong)

    assert line.trace.names[line.trace.name[roofline(wrong).operator[0]]] == "aten::mm"


def test_a_trace_without_kernels_has_an_empty_roofline() -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op("aten::mm", 50, LARGE)

    found = roofline(job)

    assert (found.rows, found.sized_share, found.matrix, len(found.operator)) == ((), 0, (), 0)


# -- facts ---------------------------------------------------------------------------------------------------------


def test_facts_of_the_roofline() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", LARGE, GEMM, 88)  # 5 us host, 3 us launch, 4 us latency: 100 us
        job.op("aten::mm", FLAT, GEMM, 300)
        job.op("aten::sum", [[64, 64]], "void at::native::reduce_kernel<512, 1>()", 100, blocks=12)

    found = {name: fact.value for name, fact in facts(job).items()}

    step_ns, kernel_ns = 500e3, 488e3
    least_ns = LARGE_FLOPS / H100 * 1e9 + 592_052_224 / HBM * 1e9 + 64 * 64 * 2 / HBM * 1e9
    assert found["roofline_sized_share"] == 1
    assert found["above_roof_share"] == pytest.approx((kernel_ns - least_ns) / step_ns)
    assert found["low_intensity_matmul_share"] == pytest.approx(300e3 / step_ns)
    assert found["under_filled_share"] == pytest.approx(100e3 / kernel_ns)
    assert found["matmul_flops_per_s"] == pytest.approx((LARGE_FLOPS + 134_486_163_456) / 388e-6)


JUDGED = ["above_roof_share", "low_intensity_matmul_share", "under_filled_share"]


@pytest.mark.parametrize("name", [*JUDGED, "matmul_flops_per_s"])
def test_without_shapes_nothing_is_held_against_the_roof(name: str) -> None:
    found = facts(one("aten::mm", None, GEMM))

    value = found[name].value
    assert isinstance(value, Unknown)
    assert "shapes" in value.because
    assert found["roofline_sized_share"].value == 0


@pytest.mark.parametrize("name", JUDGED)
def test_without_a_known_device_nothing_is_held_against_the_roof(name: str) -> None:
    built = content(one("aten::mm", LARGE, GEMM))
    built["deviceProperties"] = [{"id": 0, "name": "NVIDIA Z999"}]

    value = facts(built)[name].value

    assert isinstance(value, Unknown)
    assert "Z999" in value.because


def test_without_launch_grids_filling_is_unknown() -> None:
    built = edited(one("aten::mm", LARGE, GEMM), "kernel", 0, **{"blocks per SM": None})

    value = facts(built)["under_filled_share"].value

    assert isinstance(value, Unknown)
    assert "grids" in value.because


# -- real traces ---------------------------------------------------------------------------------------------------

FOLDER = Path(os.environ.get("DIAGNOSE_REAL_TRACES", ""))
REAL = sorted(FOLDER.glob("*/*.json.gz")) if "DIAGNOSE_REAL_TRACES" in os.environ else []
REAL = [path for path in REAL if path.parent.name != "damaged"]
real = pytest.mark.skipif(not REAL, reason="DIAGNOSE_REAL_TRACES names no folder with traces")


@real
@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}/{path.name[:24]}")
def test_real_rows_add_up_to_the_ledger(path: Path) -> None:
    line = timeline_of(read(path), 0)
    found, ledger = roofline_of(line, resolve(line.device_properties, None)), attribute(line)

    kinds = {"inductor-template" if k[:2] == ("inductor", "template") else k.family for k in line.gpu.kinds}
    causes = (kinds | {"unclassified-kernel", "optimizer", "clip"}) - {"memset"}
    kernel_ns = sum(ns for cause, ns in ledger.ns().items() if cause in causes)
    assert sum(r.ns for r in found.rows) == kernel_ns
    assert all(r.tflops is None or r.tflops < 2000 for r in found.rows)


@real
def test_real_convolutions_run_above_the_peak_where_winograd_saves_operations() -> None:
    path = next((FOLDER / "resnet50-v100-workers4").glob("*.gz"))
    line = timeline_of(read(path), 0)
    found = roofline_of(line, resolve(line.device_properties, None))

    forward = [r for r in found.rows if r.direction == "forward"]
    flops, ns = sum(r.flops or 0 for r in forward), sum(r.ns for r in forward)
    images = 5 * 32
    assert flops / images == pytest.approx(2 * 4.087e9, rel=1e-3)  # ResNet-50: 4.09 G multiply-adds, fc left out
    assert flops / ns / 1e3 == pytest.approx(12.2, abs=0.2)
    above = [r for r in forward if (r.tflops or 0) > 15.7]  # fp32 peak of a V100
    assert [r.family for r in above] == ["gemm"]
    assert "Winograd" in above[0].note
    assert {r.precision for r in forward} == {"fp32"}
    assert found.sized_share > 0.99


def test_operators_are_listed_with_their_sizes_longest_first() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", [[512, 1024], [1024, 2048]], GEMM, 30)
        for _ in range(3):
            job.op("aten::mm", [[4096, 4096], [4096, 4096]], GEMM, 200)
    found = roofline(job).operators

    assert [(row.family, row.kernels) for row in found] == [
        ("mm [4096x4096, 4096x4096]", 3),
        ("mm [512x1024, 1024x2048]", 1),
    ]
    assert found[0].flops == 3 * 2 * 4096**3


def test_a_kernel_belongs_to_the_operator_that_is_running_and_not_to_the_one_that_just_ended() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", [[512, 1024], [1024, 2048]], GEMM, 30)
        job.launch(ADD, 900)  # begins on the host at the instant at which the product's operator ends
    found = roofline(job)

    assert [r.kernels for r in found.operators] == [1]
    assert found.sized_share < 0.1
