"""The table of boards: dense peaks, memory, links, measured figures, and the source of each row.

A row is found by name, memory and multiprocessor count together, because boards share names.
"""

import csv
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

_TABLE = Path(__file__).parents[1] / "data" / "gpus.csv"
_BYTES_PER_MARKETED_GB = (0.955e9, 1.105e9)  # GDDR boards lose a little to ECC, HBM boards are sold in GiB


class Gpu(msgspec.Struct, frozen=True):
    """One row. Rates are dense (no 2:4 sparsity), in TFLOP/s and GB/s; None means that the board lacks the unit or that
    its rate is not published.

    Attributes:
        names: what torch and Kineto call the board; with `prefix`, how those names begin.
        sms: multiprocessors; a key only when `sms_verified`.
        boost_mhz: highest clock that the maker states; None if the peaks are not computed from a clock.
        memory_gb: memory as it is marketed, one figure for each board of the row.
        memory_bytes_seen: what such a board reported; None when no report of one is known.
        fp32_tflops: without tensor cores.
        hbm_gbs: peak device memory bandwidth.
        nvlink_gbs: sum of both directions, all links.
        nvlink_one_way_gbs: one direction, all links.
        measured_node: the node of such boards whose collectives were measured, as `Links` takes it; "" none.
        measured_gemm_tflops: best bf16 matrix product that was published for the board.
        measured_hbm_gbs: best read bandwidth that was published for the board.
        confidence: "high", "medium" or "low"; with "low" the peak counts as unverified.
    """

    key: str
    names: tuple[str, ...]
    prefix: bool
    arch: str
    compute_capability: str
    sms: int | None
    sms_verified: bool
    boost_mhz: float | None
    memory_gb: tuple[float, ...]
    bf16_tflops: float | None
    fp16_tflops: float | None
    tf32_tflops: float | None
    fp32_tflops: float | None
    fp8_tflops: float | None
    hbm_gbs: float | None
    nvlink_gbs: float | None
    nvlink_one_way_gbs: float | None
    measured_node: str
    tdp_w: float | None
    measured_gemm_tflops: float | None
    measured_hbm_gbs: float | None
    confidence: str
    source: str
    notes: str
    memory_bytes_seen: int | None = None

    @property
    def memory_bytes(self) -> int:
        """Memory that a process can take at most: as such a board reported, else of the smallest board of the row as it
        is marketed, counted in 10^9 bytes.
        """
        return self.memory_bytes_seen or int(min(self.memory_gb) * 1e9)

    @property
    def matrix_tflops(self) -> float | None:
        """Dense bf16 tensor-core peak; fp16 if the device has no bf16 units."""
        return self.bf16_tflops or self.fp16_tflops

    @property
    def matrix_dtype(self) -> str:
        """The precision `matrix_tflops` is stated for."""
        return "bf16" if self.bf16_tflops else "fp16"

    @property
    def is_amd(self) -> bool:
        """Whether AMD makes it: such boards may come without a name, and count memory clocks differently."""
        return self.arch.startswith(("CDNA", "RDNA"))

    @property
    def trust(self) -> str:
        """The confidence of the row in words."""
        return f"confidence {self.confidence}" + (", peak unverified" if self.confidence == "low" else "")

    @property
    def declared(self) -> str:
        """The row and its confidence, for reports."""
        return f"{self.key}: dense {self.matrix_dtype} peak, {self.trust}"

    @property
    def capability(self) -> float | None:
        """CUDA compute capability as a number, such as 8.0; None for a board of another maker."""
        return float(self.compute_capability) if re.fullmatch(r"\d+\.\d+", self.compute_capability) else None

    def tflops(self, precision: str) -> float | None:
        """Dense peak in TFLOP/s for "bf16", "fp16", "tf32", "fp32" or "fp8"; None for what the board cannot do."""
        peaks = {
            "bf16": self.bf16_tflops,
            "fp16": self.fp16_tflops,
            "tf32": self.tf32_tflops,
            "fp32": self.fp32_tflops,
            "fp8": self.fp8_tflops,
        }
        return peaks.get(precision)

    def fits(self, memory: float | None, sms: float | None) -> bool:
        """Whether memory in bytes and multiprocessor count, as far as they are known, fit this board."""
        low, high = _BYTES_PER_MARKETED_GB
        holds = memory is None or any(low * gb <= memory <= high * gb for gb in self.memory_gb)
        return holds and (sms is None or self.sms is None or not self.sms_verified or sms == self.sms)


@lru_cache(maxsize=1)
def table() -> tuple[Gpu, ...]:
    """Every known board."""
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return tuple(_gpu(row) for row in csv.DictReader(file))


def lookup(properties: Mapping[str, Any]) -> Gpu | None:
    """The board with Kineto's properties; None when name, memory and multiprocessors fit no row, or several.

    "NVIDIA H100" is a 64 GB and a 96 GB part with different memory bandwidth: what fits no row is unknown rather than
    nearly right. Without a name only AMD's boards are searched, for drivers of theirs may leave it empty.
    """
    memory, sms = positive(properties.get("totalGlobalMem")), positive(properties.get("numSms"))
    name = str(properties.get("name") or "")
    if not name and not (memory and sms):
        return None
    fits = [gpu for gpu in named(name) if gpu.fits(memory, sms)]
    return fits[0] if len(fits) == 1 else None


def named(name: str) -> tuple[Gpu, ...]:
    """The boards that may carry `name`: those of exactly this name, else of a prefix of it; "" is any of AMD's whose
    multiprocessor count is known, since many boards have the same memory.
    """
    if not name:
        return tuple(gpu for gpu in table() if gpu.is_amd and gpu.sms_verified)
    exact = tuple(gpu for gpu in table() if name in gpu.names)
    return exact or tuple(gpu for gpu in table() if gpu.prefix and name.startswith(gpu.names))


def positive(value: object) -> float | None:
    """The value when it is a number above zero."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _gpu(row: Mapping[str, str]) -> Gpu:
    prefixes = re.findall(r"prefix '(.+?)'", row["match_rule"])
    return Gpu(
        key=row["key"],
        names=tuple(prefixes or row["device_name_exact"].split("|")),
        prefix=row["match_rule"].startswith("prefix"),
        arch=row["arch"],
        compute_capability=row["cc"],
        sms=int(row["num_sms"].rstrip("?")) if row["num_sms"] else None,
        sms_verified=not row["num_sms"].endswith("?"),
        boost_mhz=_float(row["boost_mhz"]),
        memory_gb=tuple(float(gb) for gb in row["mem_gb_marketing"].split("/")),
        bf16_tflops=_float(row["bf16_dense_tflops"]),
        fp16_tflops=_float(row["fp16_dense_tflops"]),
        tf32_tflops=_float(row["tf32_dense_tflops"]),
        fp32_tflops=_float(row["fp32_simt_tflops"]),
        fp8_tflops=_float(row["fp8_dense_tflops"]),
        hbm_gbs=_float(row["hbm_peak_gbs"]),
        nvlink_gbs=_float(row["nvlink_bidir_gbs"]),
        nvlink_one_way_gbs=_float(row["nvlink_unidir_gbs"]),
        measured_node=row["measured_node"],
        tdp_w=_float(row["tdp_w"]),
        measured_gemm_tflops=_float(row["measured_max_bf16_gemm_tflops"]),
        measured_hbm_gbs=_float(row["measured_hbm_gbs"]),
        confidence=row["confidence"],
        source=row["source"],
        notes=row["notes"],
        memory_bytes_seen=_bytes_seen(row["totalGlobalMem_bytes_seen"]),
    )


def _bytes_seen(text: str) -> int | None:
    """Bytes from "85018279936", "97,871 MiB" or "~68.1e9 (63.43 GiB)"."""
    if text.isdigit():
        return int(text)
    found = re.search(r"([\d.,]+) ([MG])iB", text)
    return int(float(found[1].replace(",", "")) * {"M": 1 << 20, "G": 1 << 30}[found[2]]) if found else None


def _float(text: str) -> float | None:
    return float(text) if text else None
