"""Tables that a report shows next to the judgement: the longest kernels, the roofs, and versions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from diagnose.arrays import Array, Floats, Ints, rows_in, shortly_numbered
from diagnose.attribution.attribution import cause_of
from diagnose.attribution.causes import class_of
from diagnose.diagnosis import Bound, KernelRow, Peak, Roofs, SliceClass
from diagnose.hardware.device import PRECISIONS
from diagnose.metrics import Measured
from diagnose.metrics.kernels.waves import occupancy_of, tail_share_of, waves_of

KERNELS_KEPT = 200
LONGEST_NAME = 2000
_BOUNDS: tuple[Bound, ...] = ("unknown", "compute", "memory", "latency", "under-filled")
_CLASSES: tuple[SliceClass, ...] = ("", "compute", "memory")
_VERSIONS = (
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
)


def roofs_of(measured: Measured) -> Roofs | None:
    """Memory bandwidth and the peaks that are known; None without a GPU."""
    device = measured.device
    if not measured.timeline.has_gpu:
        return None
    peaks = [(precision, device.peak(precision)) for precision in PRECISIONS]
    return Roofs(
        hbm_bytes_per_s=device.hbm_bytes_per_s,
        hbm_source=device.hbm_bytes_per_s_source,
        peaks=tuple(
            Peak(precision=name, flops_per_s=peak, source=device.peak_source(name)) for name, peak in peaks if peak
        ),
    )


def versions_of(measured: Measured) -> dict[str, str]:
    """The software of the run, as its record and its trace name it."""
    recorded = measured.record.get("versions")
    found: dict[str, Any] = dict(recorded) if isinstance(recorded, Mapping) else {}
    found |= {key: measured.timeline.trace.metadata.get(key) for key in _VERSIONS}
    return {str(key): str(value)[:80] for key, value in found.items() if isinstance(value, str | int) and value}


def kernel_rows(measured: Measured) -> tuple[KernelRow, ...]:
    """GPU activities by name, longest first; those behind the first 200 share the last row."""
    gpu = measured.timeline.gpu
    at = rows_in(np.flatnonzero(measured.in_steps), len(gpu)) if measured.timeline.has_gpu else np.zeros(0, np.int64)
    if not len(at):
        return ()
    names, group = shortly_numbered(measured.timeline.trace.name[gpu.row[at]])
    ns = np.bincount(group, weights=gpu.end[at] - gpu.start[at]).astype(np.int64)
    order = np.argsort(-ns, kind="stable")
    rank = np.empty(len(order), np.min_scalar_type(KERNELS_KEPT))
    rank[order] = np.minimum(np.arange(len(order)), KERNELS_KEPT)
    group = rank[group]
    grouped = _Grouped(measured, at, group)
    texts = measured.timeline.trace.names
    rows = [grouped.row(i, texts[names[own]]) for i, own in enumerate(order[:KERNELS_KEPT])]
    if len(order) > KERNELS_KEPT:
        rows.append(grouped.row(KERNELS_KEPT, "", len(order) - KERNELS_KEPT))
    return tuple(rows)


class _Grouped:
    """Activities `at` of one rank in numbered groups."""

    def __init__(self, measured: Measured, at: Ints, group: Ints) -> None:
        self.measured, self.group = measured, group
        gpu, roofline = measured.timeline.gpu, measured.roofline
        self.time = (gpu.end[at] - gpu.start[at]).astype(np.float64)
        self.ns, self.count = np.bincount(group, weights=self.time), np.bincount(group)
        self.occupancy = self._mean(occupancy_of(measured, at))
        often = waves_of(measured, at)
        self.tail, self.waves = self._mean(tail_share_of(often)), self._mean(often)
        above = roofline.above_roof_ns[at]
        self.known = np.bincount(group, weights=~np.isnan(above)) > 0
        self.above = np.bincount(group, weights=np.nan_to_num(above, copy=False))
        self.kind = self._most(gpu.kind[at])
        operator = measured.operator[at]
        self.operator = self._most(np.where(operator >= 0, measured.timeline.trace.name[operator], -1))
        self.bound = self._most(roofline.bound[at].numbered(_BOUNDS))
        self.class_ = self._most(roofline.class_[at].numbered(_CLASSES))

    def _most(self, code: Array) -> Ints:
        """For each group, the code with the most time."""
        codes, number = shortly_numbered(code)
        pair = self.group.astype(np.int64) * len(codes)
        pair += number
        pairs = np.bincount(pair, weights=self.time, minlength=len(self.ns) * len(codes))
        return codes[pairs.reshape(len(self.ns), len(codes)).argmax(axis=1)]

    def _mean(self, value: Floats) -> Floats:
        """The time-weighted mean of the known values in each group, else NaN; overwrites `value`."""
        known = ~np.isnan(value)
        weight = np.bincount(self.group, weights=self.time * known)
        total = np.bincount(self.group, weights=self.time * np.nan_to_num(value, copy=False))
        return np.where(weight > 0, total / np.maximum(weight, 1), np.nan)

    def row(self, i: int, name: str, names: int = 1) -> KernelRow:
        """The group with number `i`."""
        m = self.measured
        steps, kind = max(m.timeline.steps.count, 1), m.timeline.gpu.kinds[self.kind[i]]
        operator, judged = int(self.operator[i]), _CLASSES[self.class_[i]]
        shown = name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "..."
        return KernelRow(
            name=shown,
            names=names,
            family="" if names > 1 else kind.family,
            class_="" if names > 1 else judged or class_of(cause_of(kind)),
            bound=_BOUNDS[self.bound[i]] if names == 1 else "unknown",
            operator="" if operator < 0 or names > 1 else m.timeline.trace.names[operator],
            count=int(self.count[i]) / steps,
            ns=int(self.ns[i]) // steps,
            share=min(float(self.ns[i]) / max(m.accounted_ns, 1), 1.0),
            mean_ns=int(self.ns[i] / max(self.count[i], 1)),
            above_roof_ns=int(self.above[i]) // steps if self.known[i] else None,
            occupancy=_known(self.occupancy[i]),
            waves=_known(self.waves[i]),
            tail_share=_known(self.tail[i]),
        )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
