"""A GPU of the public table, and how long it takes for arithmetic and bytes."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from diagnose import data

Units = Literal["bf16", "tf32", "fp32"]
TABLE = Path(data.__file__).parent / "gpus.csv"
COLUMNS: dict[Units, str] = {"bf16": "bf16_dense_tflops", "tf32": "tf32_dense_tflops", "fp32": "fp32_simt_tflops"}
REACHED = {"product": 0.75, "tf32": 0.7, "attention": 0.45, "bytes": 0.85}  # of the peaks, by a large kernel
DRAWN = {"product": (0.4, 0.9), "tf32": (0.4, 0.9), "attention": (0.25, 0.75), "bytes": (0.6, 0.95)}
"""The same of a machine whose figures are drawn, evenly, from what public measurements of kernels span."""
TAIL_NS = 1_500  # of a kernel, whatever it does
TILE = 128  # rows and columns of a product that one multiprocessor works on
_LIMITS = {
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448,
    "sharedMemPerMultiprocessor": 233472,
}  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    """Peaks of a GPU, FLOP/s by kind of arithmetic and bytes/s, and what Kineto writes of it."""

    name: str
    total_bytes: int
    capability: tuple[int, int]
    multiprocessors: int
    flops_per_s: tuple[tuple[Units, float], ...]
    bytes_per_s: float
    reached: tuple[tuple[str, float], ...] = tuple(REACHED.items())
    is_amd: bool = False

    @property
    def properties(self) -> dict[str, Any]:
        """As in deviceProperties."""
        major, minor = self.capability
        own = {"name": self.name, "totalGlobalMem": self.total_bytes, "computeMajor": major, "computeMinor": minor}
        return own | {"numSms": self.multiprocessors} | _LIMITS | ({"warpSize": 64} if self.is_amd else {})

    def arithmetic_ns(self, flops: float, units: Units, kind: str = "product", filled: float = 1.0) -> float:
        """Nanoseconds of the arithmetic, where `filled` of the multiprocessors' rounds have work."""
        reached = dict(self.reached)["tf32" if (kind, units) == ("product", "tf32") else kind]
        return flops / (dict(self.flops_per_s)[units] * reached * filled) * 1e9

    def bytes_ns(self, moved: float) -> float:
        """Nanoseconds of moving so many bytes."""
        return moved / (self.bytes_per_s * dict(self.reached)["bytes"]) * 1e9

    def filled(self, rows: int, columns: int) -> float:
        """How full the rounds of a product's tiles are: 1 where the last round is full, too."""
        tiles = -(-rows // TILE) * -(-columns // TILE)
        return tiles / (-(-tiles // self.multiprocessors) * self.multiprocessors)


@cache
def gpu(key: str, drawn: int = 0) -> Gpu:
    """A row of `diagnose/data/gpus.csv`, which has to state its memory and all peaks.

    `drawn` is the seed of what its kernels reach of the peaks, 0 for the usual figures.
    """
    with TABLE.open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["key"] == key)
    is_amd = row["cc"].startswith("gfx")
    major, minor = row["cc"].removeprefix("gfx")[:2] if is_amd else row["cc"].split(".")
    peaks = tuple((units, float(row[column]) * 1e12) for units, column in COLUMNS.items())
    return Gpu(
        row["device_name_exact"].partition("|")[0], int(row["totalGlobalMem_bytes_seen"]), (int(major), int(minor)),
        int(row["num_sms"]), peaks, float(row["hbm_peak_gbs"]) * 1e9, _reached(drawn),
        is_amd,
    )  # fmt: skip


def _reached(drawn: int) -> tuple[tuple[str, float], ...]:
    if not drawn:
        return tuple(REACHED.items())
    draws = np.random.default_rng(drawn)
    return tuple((kind, float(draws.uniform(*span))) for kind, span in DRAWN.items())
