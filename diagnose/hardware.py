"""GPU peaks, keyed by name, memory and multiprocessor count; an unknown device stays unknown."""

import csv
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_TABLE = Path(__file__).parent / "data" / "gpus.csv"
_MEMORY_TOLERANCE = 0.15


@dataclass(frozen=True)
class Gpu:
    """One row of the peak table: dense TFLOP/s, HBM GB/s, and where the figures come from."""

    key: str
    names: tuple[str, ...]
    prefix: bool
    sms: int | None
    memory_gb: tuple[float, ...]
    bf16_tflops: float | None
    fp16_tflops: float | None
    fp32_tflops: float | None
    tf32_tflops: float | None
    fp8_tflops: float | None
    hbm_gbs: float | None
    confidence: str
    source: str

    @property
    def matrix_tflops(self) -> float | None:
        """Dense bf16 tensor-core peak; fp16 where the device has no bf16 units."""
        return self.bf16_tflops or self.fp16_tflops

    @property
    def matrix_dtype(self) -> str:
        """The precision `matrix_tflops` is stated for."""
        return "bf16" if self.bf16_tflops else "fp16"

    @property
    def declared(self) -> str:
        """The row and its confidence, for reports."""
        doubt = "" if self.confidence == "high" else ", peak unverified" if self.confidence == "low" else ""
        return f"{self.key}: dense {self.matrix_dtype} peak, confidence {self.confidence}{doubt}"


@dataclass(frozen=True)
class Device:
    """The device of one run: FLOP/s and bytes/s; a figure is None when it is unknown."""

    gpu: Gpu | None
    given_flops: float | None = None
    hbm_bytes_per_s: float | None = None

    def peak(self, precision: str) -> float | None:
        """Dense peak in FLOP/s of "bf16", "fp16", "tf32", "fp32" (without tensor cores) or "fp8"."""
        own = getattr(self.gpu, f"{precision}_tflops", None)
        if self.given_flops is not None and precision in ("bf16", "fp16") and (self.gpu is None or own is not None):
            return self.given_flops
        return None if own is None else own * 1e12


def resolve(properties: dict[str, Any], record: Any, *, peak_tflops: float | None = None) -> Device:
    """The device of a trace, with the peak that the user stated."""
    gpu = lookup(properties)
    bandwidth = None if gpu is None or gpu.hbm_gbs is None else gpu.hbm_gbs * 1e9
    return Device(gpu, None if peak_tflops is None else peak_tflops * 1e12, bandwidth)


@lru_cache(maxsize=1)
def table() -> tuple[Gpu, ...]:
    """Every known device."""
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return tuple(_gpu(row) for row in csv.DictReader(file))


def lookup(properties: dict[str, Any]) -> Gpu | None:
    """The device with Kineto's properties, None when name, memory and SM count fit no row.

    Boards share names ("NVIDIA H100" is a 64 GB and a 96 GB part with different memory bandwidth), so a recorded
    memory size or SM count that fits no row makes the device unknown rather than nearly right.
    """
    name = str(properties.get("name", ""))
    memory, sms = _positive(properties.get("totalGlobalMem")), _positive(properties.get("numSms"))
    fits = [gpu for gpu in table() if _memory_fits(gpu, memory) and _sms_fit(gpu, sms)]
    if name:
        exact = [g for g in fits if name in g.names]
        return _only(exact or [g for g in fits if g.prefix and name.startswith(g.names)])
    return _only(fits) if memory and sms else None  # AMD drivers may leave the name empty


def _only(fits: list[Gpu]) -> Gpu | None:
    return fits[0] if len(fits) == 1 else None


def _memory_fits(gpu: Gpu, memory: float | None) -> bool:
    if memory is None:
        return True
    return any(abs(memory / (gb * 1.0e9) - 1.03) < _MEMORY_TOLERANCE for gb in gpu.memory_gb)


def _sms_fit(gpu: Gpu, sms: float | None) -> bool:
    return sms is None or gpu.sms is None or sms == gpu.sms


def _positive(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _gpu(row: dict[str, str]) -> Gpu:
    names = tuple(row["device_name_exact"].split("|"))
    return Gpu(
        key=row["key"],
        names=names,
        prefix=row["match_rule"].startswith("prefix"),
        sms=int(row["num_sms"]) if row["num_sms"].isdecimal() else None,
        memory_gb=tuple(float(gb) for gb in re.findall(r"[\d.]+", row["mem_gb_marketing"])),
        bf16_tflops=_float(row["bf16_dense_tflops"]),
        fp16_tflops=_float(row["fp16_dense_tflops"]),
        fp32_tflops=_float(row["fp32_simt_tflops"]),
        tf32_tflops=_float(row["tf32_dense_tflops"]),
        fp8_tflops=_float(row["fp8_dense_tflops"]),
        hbm_gbs=_float(row["hbm_peak_gbs"]),
        confidence=row["confidence"],
        source=row["source"],
    )


def _float(text: str) -> float | None:
    return float(text) if text else None
