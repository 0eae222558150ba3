"""The roofline of the GPU of a run, and of GPUs that everybody knows."""

from collections.abc import Callable, Mapping

from diagnose.diagnosis import Diagnosis, RooflineEntry
from diagnose.facts import Fact, Scalar, Unit, spoken
from diagnose.formulas.roofline import ridge
from diagnose.hardware import resolve
from diagnose.hardware.named import gpu_named, properties_of
from diagnose.report.views.words import cause_name

_WELL_KNOWN = {"h100": "H100", "v100": "V100"}


def ridges_of_table() -> dict[str, Fact]:
    """The name, peak, bandwidth and ridge of an H100 and a V100, in their half precision and in fp32."""
    found: dict[str, Fact] = {}
    for short, name in _WELL_KNOWN.items():
        device = resolve(properties_of(gpu_named(name)))
        for of, precision in (("half", device.matrix_precision), ("fp32", "fp32")):
            found[f"{short}_{of}_peak"] = Fact("", device.peak(precision) or 0.0, "flops_per_s")
            found[f"{short}_{of}_ridge"] = Fact("", device.ridge(precision) or 0.0, "flops_per_byte")
        found[f"{short}_half"] = Fact("", device.matrix_precision, "text")
        found[f"{short}_bandwidth"] = Fact("", device.hbm_bytes_per_s or 0.0, "bytes_per_s")
    return {name: Fact(name, fact.value, fact.unit) for name, fact in found.items()}


def _ridges(diagnosis: Diagnosis) -> str | None:
    """The ridge of the run's GPU in each precision whose peak is known."""
    roofs = diagnosis.roofs
    if roofs is None or roofs.hbm_bytes_per_s is None or not roofs.peaks:
        return None
    ridges = [(peak, ridge(peak.flops_per_s, roofs.hbm_bytes_per_s)) for peak in roofs.peaks]
    return ", ".join(
        f"{peak.precision} {spoken(at, 'flops_per_byte')} (peak {spoken(peak.flops_per_s, 'flops_per_s')})"
        for peak, at in ridges
    )


def _memory_rate(diagnosis: Diagnosis) -> float | None:
    return None if diagnosis.roofs is None else diagnosis.roofs.hbm_bytes_per_s


def _longest(bound: str) -> Callable[[Diagnosis], RooflineEntry | None]:
    """The kernels of one family that take longest of those with that bound."""

    def find(diagnosis: Diagnosis) -> RooflineEntry | None:
        rows = [row for row in diagnosis.roofline if row.bound == bound]
        return max(rows, key=lambda row: row.ns, default=None)

    return find


def _named(bound: str) -> Callable[[Diagnosis], Scalar | None]:
    def find(diagnosis: Diagnosis) -> str | None:
        row = _longest(bound)(diagnosis)
        return None if row is None else " ".join(filter(None, (cause_name(row.family), row.direction, row.precision)))

    return find


def _of(bound: str, value: Callable[[RooflineEntry], float | None]) -> Callable[[Diagnosis], Scalar | None]:
    def find(diagnosis: Diagnosis) -> float | None:
        row = _longest(bound)(diagnosis)
        return None if row is None else value(row)

    return find


def _bytes_per_s(row: RooflineEntry) -> float | None:
    return None if row.gbs is None else row.gbs * 1e9


def _flops_per_s(row: RooflineEntry) -> float | None:
    return None if row.tflops is None else row.tflops * 1e12


def _reached_share(diagnosis: Diagnosis) -> float | None:
    row, rate = _longest("memory")(diagnosis), _memory_rate(diagnosis)
    reached = None if row is None else _bytes_per_s(row)
    return reached / rate if reached and rate else None


DERIVED: Mapping[str, tuple[Unit, Callable[[Diagnosis], Scalar | None]]] = {
    "ridges": ("text", _ridges),
    "memory_rate_bytes_per_s": ("bytes_per_s", _memory_rate),
    "longest_memory_kernels": ("text", _named("memory")),
    "longest_memory_kernels_ns": ("ns", _of("memory", lambda row: row.ns)),
    "longest_memory_bytes_per_s": ("bytes_per_s", _of("memory", _bytes_per_s)),
    "longest_memory_reached_share": ("share", _reached_share),
    "longest_compute_kernels": ("text", _named("compute")),
    "longest_compute_kernels_ns": ("ns", _of("compute", lambda row: row.ns)),
    "longest_compute_flops_per_byte": ("flops_per_byte", _of("compute", lambda row: row.intensity)),
    "longest_compute_flops_per_s": (
        "flops_per_s",
        _of("compute", _flops_per_s),
    ),
}
