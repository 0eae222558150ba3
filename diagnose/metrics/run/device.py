"""The device: its name, its maker, and its peak rates."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from diagnose.arrays import distinct
from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, analysis_option, capture_setting, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric


@metric("text", needs_gpu=False)
def gpu_name(m: Measured) -> Value:
    """Name of the device in use."""
    name = m.timeline.device_name
    return name or Unknown("the trace names no device", capture_setting("a torch that writes deviceProperties"))


@metric("text", needs_gpu=False)
def listed_gpu(m: Measured) -> Value:
    """Name of a GPU that the trace lists, whether the job uses it or not."""
    name = str(m.timeline.device_properties.get("name", ""))
    return name or Unknown("the trace lists no GPU", capture_setting("a torch that writes deviceProperties"))


Vendors = Mapping[str, re.Pattern[str]]
_BY_NAME: Vendors = {
    "AMD": re.compile(r"AMD|Instinct|Radeon|gfx\d"),
    "NVIDIA": re.compile(r"NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID "),
    "Intel": re.compile(r"Intel"),
}
_BY_CALL: Vendors = {"AMD": re.compile(r"^hip[A-Z]"), "NVIDIA": re.compile(r"^cu(da)?[A-Z]")}
_BY_KERNEL: Vendors = {  # kernels of a vendor's own libraries
    "AMD": re.compile(r"Cijk_|ck_tile|^_ZN2ck"),
    "NVIDIA": re.compile(r"nvjet|cutlass|cudnn|(volta|turing|ampere|sm\d\d)_"),
}


@metric("text")
def gpu_vendor(m: Measured) -> Value:
    """The maker of the device: "AMD", "NVIDIA" or "Intel", by its name, else by the launching calls, else by
    kernels.
    """
    line, board = m.timeline, m.gpu_info
    calls = line.trace.name[line.gpu.launch[line.gpu.launch >= 0]]
    vendor = (
        _vendor_of(_BY_NAME, [line.device_name])
        or _vendor_of(_BY_CALL, (line.trace.names[name] for name in distinct(calls)))
        or ("AMD" if board is not None and board.is_amd else "")
        or _vendor_of(_BY_KERNEL, (line.trace.names[name] for name in distinct(line.trace.name[line.gpu.row])))
    )
    return vendor or Unknown("the trace names no device", capture_setting("a torch that writes deviceProperties"))


def _vendor_of(vendors: Vendors, names: Iterable[str]) -> str:
    """The vendor whose pattern most of the names match; "" if none does."""
    counts = Counter(vendor for name in names for vendor, pattern in vendors.items() if pattern.search(name))
    return max(counts, key=lambda vendor: counts[vendor], default="")


@metric("version")
def compute_capability(m: Measured) -> Value:
    """CUDA compute capability, such as 8.0 for A100 and 9.0 for H100."""
    properties = m.timeline.device_properties
    major, minor = properties.get("computeMajor"), properties.get("computeMinor")
    if not isinstance(major, int) or not isinstance(minor, int):
        return Unknown("the trace lists no device properties", capture_setting("a torch that writes deviceProperties"))
    if gpu_vendor(m) == "AMD":
        return Unknown("the device is not an NVIDIA GPU", nothing_helps("compute capability has no meaning here"))
    return major + minor / 10


def peak_flops(m: Measured) -> tuple[float, str] | Unknown:
    """Peak FLOP/s of one device and its source."""
    device = m.device
    if device.given_flops is None and m.without_gpu is not None:
        return m.without_gpu
    peak = device.matrix_peak
    if peak is None:
        return Unknown(device.because or device.matrix_peak_source, device.capture or analysis_option("--peak-tflops"))
    return peak[0], device.matrix_peak_source


@metric("flops_per_s", needs_gpu=False)
def peak_matrix_flops_per_s(m: Measured) -> Value:
    """Dense peak of matrix products in bf16 (fp16 without bf16 units): as stated, else of the table."""
    peak = peak_flops(m)
    return peak if isinstance(peak, Unknown) else peak[0]


@metric("bytes_per_s", needs_gpu=False)
def hbm_bytes_per_s(m: Measured) -> Value:
    """Peak bandwidth of device memory: as stated, else of the captured clock and bus width, else of the table."""
    device = m.device
    if m.settings.hbm_gbs is None and m.without_gpu is not None:
        return m.without_gpu
    if device.hbm_bytes_per_s is None:
        return Unknown(device.hbm_bytes_per_s_source, analysis_option("--hbm-gbs", DIAGNOSE_RUN))
    return device.hbm_bytes_per_s


@metric("flops_per_byte", needs_gpu=False)
def ridge_flops_per_byte(m: Measured) -> Value:
    """Arithmetic intensity at which the roofs of matrix products and of device memory meet."""
    peak, bandwidth = peak_matrix_flops_per_s(m), hbm_bytes_per_s(m)
    if isinstance(peak, Unknown) or isinstance(bandwidth, Unknown):
        return peak if isinstance(peak, Unknown) else bandwidth
    return float(peak) / float(bandwidth)


@metric("factor")
def fp32_over_half_factor(m: Measured) -> Value:
    """Peak of plain fp32 over that of products in half precision: 0.07 on H100, 0.25 on L40S, 0.5 on RTX 4090."""
    return _over(m, m.device.matrix_precision)


@metric("factor")
def fp32_over_tf32_factor(m: Measured) -> Value:
    """Peak of plain fp32 over that of products in TF32: 0.14 on H100, 1 on RTX 4090."""
    return _over(m, "tf32")


def _over(m: Measured, precision: str) -> Value:
    fp32, other = m.device.peak("fp32"), m.device.peak(precision)
    if fp32 is None or other is None:
        return Unknown("the table of peaks does not have both", nothing_helps("these peaks are published or not"))
    return fp32 / other


@metric("w", needs_gpu=False)
def gpu_power_w(m: Measured) -> Value:
    """Power of the device at the end of the capture, read once through NVML."""
    return _power(m, "power_w")


@metric("w", needs_gpu=False)
def gpu_power_limit_w(m: Measured) -> Value:
    """The most power that the device is allowed to take."""
    return _power(m, "power_limit_w")


def _power(m: Measured, name: str) -> Value:
    watts = m.record.number(f"device.nvml.{name}")
    return watts if watts else Unknown("no capture record tells the power", DIAGNOSE_RUN)
