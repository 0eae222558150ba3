"""What a device can do at most: which row it is, which figure wins, and `diagnose hardware`, which prints the table."""

from typing import Any

import pytest
from analysed import content, measured, timeline
from kineto import Trace
from over_all import over_all

from diagnose.attribution.attribution import attribute
from diagnose.errors import UserError
from diagnose.facts import Unknown, spoken
from diagnose.hardware import PRECISIONS, Device, resolve, table
from diagnose.metrics import REGISTRY, Measured
from diagnose.ranks import JobView
from diagnose.trace.record import CaptureRecord

GIB = 2**30
H100 = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_018_279_936, "numSms": 132}
MN5 = {"name": "NVIDIA H100", "totalGlobalMem": 68_100_000_000, "numSms": 132}
MI300X = {"name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992, "numSms": 304}


def record(**device: Any) -> CaptureRecord:
    return CaptureRecord({"device": device})


def resolved(name: str, memory: float | None = None, sms: int | None = None, **given: float) -> Device:
    return resolve({"name": name, "totalGlobalMem": memory, "numSms": sms}, **given)


# --- which row


@pytest.mark.parametrize(
    ("name", "memory", "key"),
    [
        ("NVIDIA GH200 480GB", 97_871 << 20, "GH200-96GB"),  # contains H200 and H20, and 480 GB is the CPU's
        ("NVIDIA GH200 144G HBM3e", 153e9, "GH200-144GB"),
        ("NVIDIA H200", 150e9, "H200-SXM-141GB"),
        ("NVIDIA H200 NVL", 150e9, "H200-NVL-141GB"),
        ("NVIDIA H20", 102e9, "H20-96GB"),
        ("NVIDIA B200", 191_503_138_816, "B200-SXM-180GB"),
        ("NVIDIA GB200", 198e9, "GB200-186GB"),
        ("NVIDIA B300 SXM6 AC", 288e9, "B300-SXM-288GB"),
        ("NVIDIA GB300", 288e9, "GB300-288GB"),
        ("NVIDIA L4", 22.03 * GIB, "L4"),
        ("NVIDIA L40S", 44.4 * GIB, "L40S"),
        ("NVIDIA A10", 22.1 * GIB, "A10"),
        ("NVIDIA A10G", 22.1 * GIB, "A10G"),
        ("Tesla T4", 14.6 * GIB, "T4"),
        ("NVIDIA H100 PCIe", 85e9, "H100-PCIe-80GB"),
        ("NVIDIA H100 NVL", 99.9e9, "H100-NVL-94GB"),
        ("NVIDIA A100-PG509-200", 42_297_524_224, "A100-40GB-OEM"),
        ("Tesla V100-PCIE-16GB", 16.9e9, "V100-PCIE"),
        ("NVIDIA H100", 68.1e9, "H100-64GB-MN5"),
        ("NVIDIA H100", 101_997_215_744, "H100-96GB-HBM2e"),
        ("AMD Instinct MI300X", 206_141_652_992, "MI300X"),
    ],
)
def test_a_name_inside_another_name_is_another_device(name: str, memory: float, key: str) -> None:
    found = resolved(name, memory).gpu

    assert found is not None
    assert found.key == key


@over_all("gpu", table())
def test_every_row_is_found_by_its_own_name_and_memory(gpu: Any) -> None:
    for name in gpu.names:
        for gb in gpu.memory_gb:
            assert resolved(name, gb * 1.0625e9, gpu.sms).gpu is gpu


@over_all("gpu", table())
def test_the_rows_agree_with_themselves(gpu: Any) -> None:
    assert gpu.hbm_gbs
    assert gpu.confidence in ("high", "medium", "low")
    assert gpu.source
    assert gpu.bf16_tflops in (None, gpu.fp16_tflops)
    assert gpu.tf32_tflops is None or gpu.tf32_tflops <= gpu.matrix_tflops
    assert gpu.nvlink_gbs is None or gpu.nvlink_gbs == 2 * gpu.nvlink_one_way_gbs
    assert gpu.measured_gemm_tflops is None or gpu.measured_gemm_tflops < gpu.matrix_tflops
    assert gpu.measured_hbm_gbs is None or gpu.measured_hbm_gbs < gpu.hbm_gbs


# Dense fp16 FLOPs of a multiprocessor and clock. GeForce boards have half of them, since PyTorch accumulates in fp32.
FLOPS_OF_AN_SM = {
    "Volta": (1024,),
    "Turing": (512, 1024),
    "Ampere": (512, 1024, 2048),
    "Ada": (512, 1024),
    "Hopper": (4096,),
    "Blackwell": (512, 1024),
    "CDNA2": (1024,),
    "CDNA3": (2048,),
    "CDNA4": (4096,),
    "RDNA3": (512,),
    "RDNA4": (1024,),
    "Xe-HPC": (4096,),
    "Xe-HPG": (2048,),
    "Xe2": (2048,),
}


@over_all("gpu", [gpu for gpu in table() if gpu.sms and gpu.boost_mhz])
def test_the_peaks_are_what_the_multiprocessors_do_at_the_boost_clock(gpu: Any) -> None:
    at_boost = gpu.sms * gpu.boost_mhz / 1e6

    assert any(gpu.fp16_tflops == pytest.approx(at_boost * rate, rel=0.04) for rate in FLOPS_OF_AN_SM[gpu.arch])
    if gpu.arch != "Hopper":  # which computes in fp32 at a higher clock
        assert any(gpu.fp32_tflops == pytest.approx(at_boost * rate, rel=0.04) for rate in (128, 256))


@over_all("gpu", table())
def test_no_precision_is_slower_than_a_wider_one(gpu: Any) -> None:
    narrow_first = [gpu.fp8_tflops, gpu.fp16_tflops, gpu.tf32_tflops]
    known = [tflops for tflops in narrow_first if tflops is not None]

    assert known == sorted(known, reverse=True)
    assert gpu.fp32_tflops is None or gpu.fp32_tflops <= gpu.fp16_tflops
    assert gpu.fp8_tflops is None or gpu.fp8_tflops == pytest.approx(2 * gpu.fp16_tflops, rel=0.02)
    assert gpu.tf32_tflops is None or gpu.tf32_tflops == pytest.approx(gpu.fp16_tflops / 2, rel=0.02)


@pytest.mark.parametrize(
    ("name", "memory", "key"),
    [
        ("NVIDIA GeForce RTX 4060 Laptop GPU", 8_585_216_000, "RTX4060-Laptop"),
        ("NVIDIA GeForce RTX 4060", 8_585_216_000, "RTX4060"),
        ("NVIDIA GeForce RTX 4060 Ti", 16.7e9, "RTX4060Ti"),
        ("GeForce RTX 2080 Ti", 11_554_717_696, "RTX2080Ti"),
        ("NVIDIA GeForce RTX 3080", 12.6e9, "RTX3080-12GB"),
        ("NVIDIA GeForce RTX 2060", 6.2e9, "RTX2060"),
        ("NVIDIA RTX A6000", 50.9e9, "RTXA6000"),
        ("NVIDIA RTX 6000 Ada Generation", 50.9e9, "RTX6000-Ada"),
        ("Quadro RTX 6000", 25.4e9, "QuadroRTX6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 101.9e9, "RTXPRO6000-SE"),
        ("NVIDIA A40", 47.7e9, "A40"),
        ("A100-SXM4-40GB", 42_505_273_344, "A100-SXM4-40GB"),
        ("AMD Radeon RX 7900 XTX", 25.7e9, "RX7900XTX"),
        ("Intel(R) Data Center GPU Max 1550", 68.7e9, "Max1550-stack"),
    ],
)
def test_boards_of_workstations_laptops_and_other_makers(name: str, memory: float, key: str) -> None:
    found = resolved(name, memory).gpu

    assert found is not None
    assert found.key == key


@pytest.mark.parametrize(
    ("name", "sms", "key"), [("AMD Instinct MI250X", 110, "MI250X-GCD"), ("AMD Instinct MI250", 104, "MI250-GCD")]
)
def test_a_name_of_two_boards_is_told_apart_by_the_compute_units(name: str, sms: int, key: str) -> None:
    for called in (name, "AMD Instinct MI250X / MI250"):
        found = resolved(called, 64 * GIB, sms).gpu
        assert found is not None
        assert found.key == key


def test_boards_of_one_name_need_their_memory_and_it_says_so() -> None:
    device = resolved("NVIDIA H100")

    assert (device.gpu, device.matrix_peak, device.hbm_bytes_per_s) == (None, None, None)
    assert device.because == (
        "GPUs named NVIDIA H100 have 64 and 96 GB with different bandwidth, and this one's memory is not recorded"
    )
    assert device.capture.sentence == "capture with diagnose run, or pass --peak-tflops and --hbm-gbs"
    assert device.hbm_bytes_per_s_source == device.matrix_peak_source == device.because


def test_the_record_fills_in_the_memory_that_the_trace_lacks() -> None:
    device = resolve({"name": "NVIDIA H100"}, record(name="NVIDIA H100", total_memory_bytes=68_100_000_000))

    assert device.gpu is not None
    assert device.gpu.key == "H100-64GB-MN5"


@pytest.mark.parametrize(
    ("name", "memory", "sms", "because"),
    [
        ("NVIDIA Z999", 85e9, 132, "the GPU (NVIDIA Z999) is not in the table of peaks"),
        ("H100", 85e9, 132, "the GPU (H100) is not in the table of peaks"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10e9, 16, "is not in the table of peaks"),
        ("NVIDIA H100", 85e9, 132, "has 79.2 GiB and 132 multiprocessors"),
        ("NVIDIA H100 80GB HBM3", 85e9, 60, "has 79.2 GiB and 60 multiprocessors"),
        ("", None, None, "the GPU (without a name) is not in the table of peaks"),
        ("", 48e9, 142, "without a name"),  # the L40S shares these with a board that is not in the table
    ],
)
def test_what_fits_no_row_has_no_peak_and_says_why(name: str, memory: Any, sms: Any, because: str) -> None:
    device = resolved(name, memory, sms)

    assert device.gpu is None
    assert because in device.because
    assert [device.peak(precision) for precision in PRECISIONS] == [None] * 5
    assert "--peak-tflops" in device.capture.sentence


def test_amd_drivers_may_leave_the_name_empty() -> None:
    found = resolve(MI300X | {"name": ""}).gpu

    assert found is not None
    assert found.key == "MI300X"


def test_multiprocessors_that_nobody_verified_are_no_key() -> None:
    assert resolved("NVIDIA GB200", 198e9, 148).gpu is not None


# --- which figure


def test_every_precision_has_a_peak_of_its_own() -> None:
    device = resolve(H100)
    tera = {precision: (device.peak(precision) or 0) / 1e12 for precision in PRECISIONS}

    assert tera == pytest.approx({"bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9, "fp8": 1978.9})
    assert device.peak("int8") is None


def test_a_v100_has_no_bf16_and_its_matrix_peak_is_fp16() -> None:
    device = resolved("Tesla V100-SXM2-32GB", 34_079_637_504, 80)

    assert (device.peak("bf16"), device.peak("tf32"), device.peak("fp8")) == (None, None, None)
    assert device.matrix_peak == (125e12, "fp16")
    assert "no bf16 units" in device.peak_source("bf16")


@pytest.mark.parametrize("name", ["NVIDIA A10G", "NVIDIA GeForce RTX 5090", "NVIDIA H20"])
def test_a_row_of_low_confidence_says_that_its_peak_is_unverified(name: str) -> None:
    device = resolved(name)

    assert "peak unverified" in device.matrix_peak_source
    assert "peak unverified" in device.hbm_bytes_per_s_source


@pytest.mark.parametrize(
    ("clock_mhz", "bus_bits", "gbs"),
    [(2619, 5120, 3352.3), (1593, 4096, 1631.2), (1593, 5120, 2039.0), (1215, 5120, 1555.2), (9001, 384, 864.1)],
)
def test_bandwidth_from_the_captured_memory_clock(clock_mhz: float, bus_bits: int, gbs: float) -> None:
    known = record(memory_clock_mhz=clock_mhz, memory_bus_bits=bus_bits)

    assert (resolve({}, known).hbm_bytes_per_s or 0) / 1e9 == pytest.approx(gbs, abs=0.05)


def test_what_is_stated_beats_what_was_captured_and_that_beats_the_table() -> None:
    slow = record(memory_clock_mhz=1593.0, memory_bus_bits=5120)

    from_table, captured = resolve(H100), resolve(H100, slow)
    stated = resolve(H100, slow, hbm_gbs=1000, peak_tflops=500)

    assert from_table.hbm_bytes_per_s == 3352e9
    assert from_table.hbm_bytes_per_s_source == "H100-SXM5-80GB: peak of the table, confidence high"
    assert captured.hbm_bytes_per_s == pytest.approx(2039e9, rel=1e-3)
    assert captured.hbm_bytes_per_s_source == (
        "captured: 1,593 MHz x 5120 bit, two transfers per clock; the table has 3,352 GB/s for H100-SXM5-80GB"
    )
    assert (stated.hbm_bytes_per_s, stated.hbm_bytes_per_s_source) == (1000e9, "--hbm-gbs")
    assert (stated.matrix_peak, stated.matrix_peak_source) == ((500e12, "bf16"), "--peak-tflops")
    assert stated.ridge("bf16") == pytest.approx(500)


def test_clocks_of_the_driver_serve_where_torch_gives_none() -> None:
    nvml = {"memory_clock_max_mhz": 2619, "memory_clock_mhz": 405, "memory_bus_bits": 5120}

    device = resolve(H100, record(memory_clock_mhz=None, memory_bus_bits=None, nvml=nvml))

    assert device.hbm_bytes_per_s == pytest.approx(3352.3e9, rel=1e-4)
    assert device.hbm_bytes_per_s_source.startswith("captured through NVML: 2,619 MHz")


def test_amd_clocks_do_not_follow_the_formula() -> None:
    known = record(memory_clock_mhz=1300.0, memory_bus_bits=8192)  # the formula would give half of 5.3 TB/s

    assert resolve(MI300X, known).hbm_bytes_per_s == 5300e9
    assert resolve({"name": "AMD Instinct MI999"}, known).hbm_bytes_per_s is None


def test_a_record_of_another_device_is_left_aside() -> None:
    known = record(name="NVIDIA A100-SXM4-80GB", memory_clock_mhz=1593.0, memory_bus_bits=5120)

    assert resolve(H100, known).hbm_bytes_per_s == 3352e9


def test_a_stated_peak_is_of_half_precision_and_gives_no_unit_the_board_lacks() -> None:
    unknown = resolved("NVIDIA Z999", peak_tflops=700)
    v100 = resolved("Tesla V100-SXM2-32GB", peak_tflops=100)

    assert [unknown.peak(precision) for precision in PRECISIONS] == [700e12, 700e12, None, None, None]
    assert (v100.peak("bf16"), v100.matrix_peak) == (None, (100e12, "fp16"))


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("option", ["peak_tflops", "hbm_gbs"])
def test_a_stated_figure_is_positive_and_finite(option: str, value: float) -> None:
    with pytest.raises(UserError, match=f"{option} must be a positive number"):
        resolve(H100, **{option: value})


def test_achievable_is_what_was_measured_and_only_bandwidth_is_ever_assumed() -> None:
    mn5, h100, v100 = resolve(MN5), resolve(H100), resolved("Tesla V100-SXM2-32GB")

    assert (mn5.achievable_matrix_flops, mn5.achievable_hbm_bytes_per_s) == (773e12, 1571e9)
    assert h100.achievable_matrix_flops == 794.5e12
    assert h100.achievable_hbm_bytes_per_s == pytest.approx(0.9 * 3352e9)
    assert h100.achievable_hbm_bytes_per_s_source.startswith("assumption: 0.9 x peak")
    assert v100.achievable_matrix_flops is None
    assert "no measured bf16 matrix product" in v100.achievable_matrix_flops_source


def test_what_was_measured_on_a_board_does_not_hold_for_another_memory_or_peak() -> None:
    device = resolve(MN5, hbm_gbs=2400, peak_tflops=500)

    assert device.achievable_hbm_bytes_per_s == pytest.approx(0.9 * 2400e9)
    assert device.achievable_matrix_flops is None
    assert "below the 773.0 TFLOP/s" in device.achievable_matrix_flops_source


# --- facts


def job(gpu: str | None = "NVIDIA H100 80GB HBM3") -> Trace:
    made = Trace(gpu=gpu)
    with made.step():
        made.cpu_op("aten::add", 10, None) if gpu is None else made.op("aten::add", None, "add", 10)
    return made


def fact(found: Measured, name: str) -> Any:
    return REGISTRY[name].measure(found).value


def test_the_facts_of_a_device() -> None:
    found = measured(job())

    assert spoken(fact(found, "peak_matrix_flops_per_s"), "flops_per_s") == "989.4 TFLOP/s"
    assert spoken(fact(found, "hbm_bytes_per_s"), "bytes_per_s") == "3352.0 GB/s"
    assert spoken(fact(found, "ridge_flops_per_byte"), "flops_per_byte") == "295.2 FLOP/B"


def test_the_facts_follow_the_record_and_what_is_stated() -> None:
    line = timeline(job())
    slow = Measured(line, attribute(line), JobView(), record=record(memory_clock_mhz=1593.0, memory_bus_bits=4096))

    assert fact(slow, "hbm_bytes_per_s") == pytest.approx(1631.2e9, rel=1e-4)
    assert fact(slow, "ridge_flops_per_byte") == pytest.approx(606.5, abs=0.1)
    assert fact(measured(job(), hbm_gbs=2000.0), "hbm_bytes_per_s") == 2000e9


@pytest.mark.parametrize("name", ["peak_matrix_flops_per_s", "hbm_bytes_per_s", "ridge_flops_per_byte"])
def test_an_unknown_or_missing_device_has_no_such_fact(name: str) -> None:
    other = content(job()) | {"deviceProperties": [{"id": 0, "name": "NVIDIA Z999"}]}
    unknown, none = fact(measured(other), name), fact(measured(job(None)), name)

    assert isinstance(unknown, Unknown)
    assert "Z999" in unknown.because
    assert "pass --" in unknown.capture_next
    assert isinstance(none, Unknown)
    assert "no GPU activity" in none.because
