"""The device of one run, from three sources in this order: what the user states, the capture record, the table."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from diagnose.errors import WrongUsage
from diagnose.facts import Capture, analysis_option, capture_setting
from diagnose.formulas import roofline as formula
from diagnose.hardware.measured import MeasuredMachine, of_device
from diagnose.hardware.table import Gpu, lookup, named, positive

PRECISIONS = ("bf16", "fp16", "tf32", "fp32", "fp8")
ASSUMED_HBM_SHARE = 0.9  # measured copies and reads reach 0.88 to 0.96 of the peak
_SAME_MEMORY = 0.05  # a bandwidth this near the table's is that of the board that was measured
_PASS_BOTH = analysis_option("--peak-tflops and --hbm-gbs")
_CLOCKS = (
    ("device.memory_clock_mhz", "device.memory_bus_bits", "captured"),
    ("device.nvml.memory_clock_max_mhz", "device.nvml.memory_bus_bits", "captured through NVML"),
)


class RecordedFields(Protocol):
    """The capture record, read by dotted path."""

    def number(self, path: str) -> float | None:
        """The number at `path`, None when it is no number."""

    def text(self, path: str) -> str | None:
        """The text at `path`, None when it is no text."""


class Device(msgspec.Struct, frozen=True):
    """The device of one run, in FLOP/s and bytes/s. If a figure is unknown, it is None and its source is the reason.

    Attributes:
        name: as the trace or the capture record gives it, "" if neither does.
        gpu: its row of the table, None if name, memory and multiprocessors fit no row, or several.
        because: why `gpu` is None, "" if it is known.
        capture: what to pass or capture instead, None if `gpu` is known.
        given_flops: the peak stated by the user.
        hbm_bytes_per_s: peak bandwidth of the device memory.
        achievable_matrix_flops: best bf16 matrix product measured by the user, else on such a board; never assumed.
        achievable_hbm_bytes_per_s: measured likewise, else an assumed share of the peak.
        measured_flops: what `achievable_matrix_flops` is if the user measured it.
    """

    name: str
    gpu: Gpu | None
    because: str
    capture: Capture | None
    given_flops: float | None
    hbm_bytes_per_s: float | None
    hbm_bytes_per_s_source: str
    achievable_matrix_flops: float | None
    achievable_matrix_flops_source: str
    achievable_hbm_bytes_per_s: float | None
    achievable_hbm_bytes_per_s_source: str
    measured_flops: float | None = None

    def peak(self, precision: str) -> float | None:
        """Dense peak in FLOP/s of "bf16", "fp16", "tf32", "fp32" (without tensor cores) or "fp8"; None when unknown.

        A stated peak is that of bf16 and fp16, but for a precision the board is known to lack.
        """
        tflops = self.gpu.tflops(precision) if self.gpu else None
        if self._is_given(precision, tflops):
            return self.given_flops
        return None if tflops is None else tflops * 1e12

    def peak_source(self, precision: str) -> str:
        """The source of `peak(precision)`, or the reason why it is unknown."""
        tflops = self.gpu.tflops(precision) if self.gpu else None
        if self._is_given(precision, tflops):
            return "--peak-tflops"
        if self.gpu is None:
            return self.because
        if tflops is None:
            return f"{self.gpu.key} has no {precision} units, or their rate is not published"
        return f"{self.gpu.key}: dense {precision} peak, {self.gpu.trust}"

    def is_listed(self, precision: str) -> bool:
        """Whether `peak(precision)` is that of the board's row, and not a stated one."""
        tflops = self.gpu.tflops(precision) if self.gpu else None
        return tflops is not None and not self._is_given(precision, tflops)

    def _is_given(self, precision: str, listed: float | None) -> bool:
        fits = precision in ("bf16", "fp16") and (self.gpu is None or listed is not None)
        return self.given_flops is not None and fits

    @property
    def matrix_precision(self) -> str:
        """The precision `matrix_peak` is stated for; bf16 is assumed of a device that is not in the table."""
        return self.gpu.matrix_dtype if self.gpu else "bf16"

    @property
    def matrix_peak(self) -> tuple[float, str] | None:
        """(FLOP/s, precision) of dense matrix products in half precision: as stated, else bf16, else fp16."""
        peak = self.peak(self.matrix_precision)
        return None if peak is None else (peak, self.matrix_precision)

    @property
    def matrix_peak_source(self) -> str:
        """The source of `matrix_peak`, or the reason why it is unknown."""
        return self.peak_source(self.matrix_precision)

    def ridge(self, precision: str) -> float | None:
        """FLOP per byte of device memory from which on the peak of the precision bounds, and no longer the memory."""
        peak = self.peak(precision)
        return formula.ridge(peak, self.hbm_bytes_per_s) if peak and self.hbm_bytes_per_s else None


def resolve(
    properties: Mapping[str, Any],
    record: RecordedFields | None = None,
    *,
    peak_tflops: float | None = None,
    hbm_gbs: float | None = None,
    measured: Sequence[MeasuredMachine] = (),
) -> Device:
    """Return the device with Kineto's properties, completed by the capture record of the same rank.

    Args:
        properties: one entry of a trace's `deviceProperties` (name, totalGlobalMem in bytes, numSms); may be empty.
        record: the capture record next to the trace; a record of another device is ignored.
        peak_tflops: stated dense peak, TFLOP/s.
        hbm_gbs: stated memory bandwidth, GB/s.
        measured: machines of the user's with the rates that they reach.

    Raises:
        UserError: a stated figure is not a positive, finite number.
    """
    given_flops = _stated(peak_tflops, "peak_tflops", 1e12)
    record = record if _same_device(properties, record) else None
    known = _completed(properties, record)
    gpu = lookup(known)
    because, capture = ("", None) if gpu else _unknown(known)
    hbm, hbm_source = _hbm(_stated(hbm_gbs, "hbm_gbs", 1e9), gpu, record, known, because)
    own = of_device(measured, known)
    products, products_source = _achievable_matrix(gpu, given_flops, because)
    memory, memory_source = _achievable_hbm(gpu, hbm, hbm_source)
    own_products = own.best("flops_per_s", "bf16") if own is not None and given_flops is None else None
    if own is not None and own_products is not None:
        products, products_source = own_products, f"best bf16 matrix product {own.said}"
    if own is not None and own.memory_rate is not None and hbm_gbs is None:
        memory, memory_source = own.memory_rate, f"best copy or read {own.said}"
    return Device(
        name=str(known.get("name") or ""),
        gpu=gpu,
        because=because,
        capture=capture,
        given_flops=given_flops,
        hbm_bytes_per_s=hbm,
        hbm_bytes_per_s_source=hbm_source,
        achievable_matrix_flops=products,
        achievable_matrix_flops_source=products_source,
        achievable_hbm_bytes_per_s=memory,
        achievable_hbm_bytes_per_s_source=memory_source,
        measured_flops=own_products,
    )


Figure = tuple[float | None, str]


def _hbm(
    given: float | None, gpu: Gpu | None, record: RecordedFields | None, known: Mapping[str, Any], because: str
) -> Figure:
    if given is not None:
        return given, "--hbm-gbs"
    clocked = None if record is None or _is_amd(gpu, record, known) else _clocked(record)
    if clocked is not None:
        return clocked[0], clocked[1] + _disagreement(clocked[0], gpu)
    if gpu is None or gpu.hbm_gbs is None:
        return None, because
    return gpu.hbm_gbs * 1e9, f"{gpu.key}: peak of the table, {gpu.trust}"


def _clocked(record: RecordedFields) -> tuple[float, str] | None:
    for clock_path, bus_path, how in _CLOCKS:
        clock, bus = positive(record.number(clock_path)), positive(record.number(bus_path))
        if clock and bus:
            source = f"{how}: {clock:,.0f} MHz x {bus:.0f} bit, two transfers per clock"
            return formula.hbm_bytes_per_s(clock * 1e6, int(bus)), source
    return None


def _disagreement(hbm: float, gpu: Gpu | None) -> str:
    if gpu is None or gpu.hbm_gbs is None or _near(hbm, gpu.hbm_gbs * 1e9):
        return ""
    return f"; the table has {gpu.hbm_gbs:,.0f} GB/s for {gpu.key}"


def _achievable_matrix(gpu: Gpu | None, given: float | None, because: str) -> Figure:
    if gpu is None:
        return None, because
    if gpu.measured_gemm_tflops is None:
        return None, f"no measured bf16 matrix product is known for {gpu.key}"
    if given is not None and given < gpu.measured_gemm_tflops * 1e12:
        return None, f"--peak-tflops is below the {gpu.measured_gemm_tflops:,.1f} TFLOP/s measured on {gpu.key}"
    return gpu.measured_gemm_tflops * 1e12, f"best bf16 matrix product measured on {gpu.key}"


def _achievable_hbm(gpu: Gpu | None, hbm: float | None, source: str) -> Figure:
    if hbm is None:
        return None, source
    if gpu and gpu.measured_hbm_gbs and gpu.hbm_gbs and _near(hbm, gpu.hbm_gbs * 1e9):
        return gpu.measured_hbm_gbs * 1e9, f"best read bandwidth measured on {gpu.key}"
    return ASSUMED_HBM_SHARE * hbm, f"assumption: {ASSUMED_HBM_SHARE:.1f} x peak, where 0.88 to 0.96 is usual"


def _unknown(known: Mapping[str, Any]) -> tuple[str, Capture]:
    """The reason why no row was found, and what to do."""
    name, memory = str(known.get("name") or ""), positive(known.get("totalGlobalMem"))
    sms = positive(known.get("numSms"))
    boards = [gpu for gpu in named(name) if name]
    if not boards:
        pass_it = _PASS_BOTH if name else analysis_option("--gpu", _PASS_BOTH)
        return f"the GPU ({name or 'without a name'}) is not in the table of peaks", pass_it
    if not memory and len(boards) > 1:
        sizes = " and ".join(f"{gb:.0f}" for gpu in boards for gb in gpu.memory_gb)
        because = f"GPUs named {name} have {sizes} GB with different bandwidth, and this one's memory is not recorded"
        return because, capture_setting("diagnose run", _PASS_BOTH)
    has = (f"{memory / 2**30:.1f} GiB" if memory else "", f"{sms:.0f} multiprocessors" if sms else "")
    return f"no GPU named {name} in the table of peaks has {' and '.join(filter(None, has))}", _PASS_BOTH


def _completed(properties: Mapping[str, Any], record: RecordedFields | None) -> dict[str, Any]:
    """Kineto's name, memory and multiprocessors, those it lacks from the record."""
    known = {key: properties.get(key) for key in ("name", "totalGlobalMem", "numSms")}
    if record is not None:
        known["name"] = known["name"] or record.text("device.name")
        known["totalGlobalMem"] = positive(known["totalGlobalMem"]) or record.number("device.total_memory_bytes")
        known["numSms"] = positive(known["numSms"]) or record.number("device.multiprocessors")
    return known


def _same_device(properties: Mapping[str, Any], record: RecordedFields | None) -> bool:
    recorded, traced = record.text("device.name") if record is not None else None, properties.get("name")
    return not recorded or not traced or recorded == traced


def _is_amd(gpu: Gpu | None, record: RecordedFields, known: Mapping[str, Any]) -> bool:
    """AMD's memory clock times two is not its transfer rate on every board, so the table is nearer."""
    by_name = str(known.get("name") or "").startswith("AMD")
    return by_name or (gpu is not None and gpu.is_amd) or record.text("versions.hip") is not None


def _stated(value: float | None, option: str, unit: float) -> float | None:
    if value is None:
        return None
    if not positive(value) or not math.isfinite(value):
        raise WrongUsage(f"{option} must be a positive number", where=value, do="leave it out to use the table")
    return value * unit


def _near(one: float, other: float) -> bool:
    return abs(one / other - 1) <= _SAME_MEMORY
