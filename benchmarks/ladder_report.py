"""The ladder's report in Markdown, from the results alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

_COLUMNS = (
    "row",
    "settings",
    "outcome",
    "tok/s",
    "recorded tok/s",
    "of recorded",
    "ms/step",
    "MFU palm",
    "causal",
    "6n",
    "hf",
    "GB peak",
    "recorded GB",
)


def markdown(report: Mapping[str, Any]) -> str:
    """The whole page."""
    captured = any("diagnosis" in row for row in report["rows"])
    header = (*_COLUMNS, "verdict", "MFU of the trace") if captured else _COLUMNS
    cells = [_cells(row, captured) for row in report["rows"]]
    title = "# Ladder, tiny model (no figures of hardware)" if report["tiny"] else "# Ladder of Llama-3.2-1B on one GPU"
    reasons = [f"- {row['rung'] or 'row'}: {row['reason']}" for row in report["rows"] if row.get("reason")]
    parts = [title, _setting(report), _ceilings(report), _table(header, cells), _NOTES, "\n".join(reasons)]
    return "\n\n".join(part for part in parts if part) + "\n"


_NOTES = """tok/s is of the counted steps, unprofiled, on the device's clock; ms/step is their median. MFU is of the
dense matrix peak above, by four conventions for the FLOPs of a token. GB peak is what the caching allocator held (1e9
bytes). Recorded figures are those of `ladder.csv`, from another machine; several are separated by /."""


def _setting(report: Mapping[str, Any]) -> str:
    device, versions = report["device"], report["ceilings"]["versions"]
    known = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    peak, memory = _scaled(device["matrix_peak_flops"], 1e12), _scaled(device["hbm_bytes_per_s"], 1e9)
    limits = [
        f"- matrix peak: {peak} TFLOP/s ({device['matrix_peak_source']})",
        f"- memory bandwidth: {memory} GB/s ({device['hbm_source']})",
    ]
    lines = [
        f"- date: {report['date']} UTC",
        f"- command: `{report['command']}`",
        f"- device: {device['name']}",
        *(limits if device["name"] != "CPU" else []),
        f"- versions: {known}",
    ]
    return "\n".join(lines)


def _ceilings(report: Mapping[str, Any]) -> str:
    found, device = report["ceilings"], report["device"]
    products = _of(found["bf16_gemm_flops"], device["matrix_peak_flops"])
    copied = _of(found["copy_bytes_per_s"], device["hbm_bytes_per_s"])
    return (
        f"Measured ceilings: bf16 product {_scaled(found['bf16_gemm_flops'], 1e12)} TFLOP/s ({products} of the peak), "
        f"device copy {_scaled(found['copy_bytes_per_s'], 1e9)} GB/s read and written ({copied} of the peak)."
    )


def _cells(row: Mapping[str, Any], captured: bool) -> list[str]:
    recorded = [each["tokens_per_s_per_gpu"] for each in row["recorded"] if each["tokens_per_s_per_gpu"]]
    outcomes = {each["outcome"] for each in row["recorded"]}
    mfu = row.get("mfu") or {}
    speed = row.get("tokens_per_s")
    cells = [
        row["rung"] or "-",
        _settings(row["settings"]),
        row["outcome"] + ("" if row["outcome"] in outcomes or not outcomes else f" (recorded: {', '.join(outcomes)})"),
        _scaled(speed, 1, 0),
        " / ".join(f"{float(each):,.0f}" for each in recorded) or "-",
        _of(speed, float(recorded[0]) if recorded else None),
        _scaled(median(row["step_s"]) if row.get("step_s") else None, 1e-3),
        *(_of(mfu.get(name), 1) for name in ("palm", "causal", "6n", "hf")),
        _scaled(row.get("reserved_bytes"), 1e9, 2),
        " / ".join(each["memory_gb"] for each in row["recorded"] if each["memory_gb"]) or "-",
    ]
    if captured:
        found = row.get("diagnosis") or {}
        cells += [found.get("verdict") or "-", _of(found.get("mfu"), 1)]
    return cells


def _settings(settings: Mapping[str, Any]) -> str:
    mixed = "" if settings["mixed_precision"] == "no" else f" + AMP {settings['mixed_precision']}"
    weights = f"{settings['model_precision']} weights{mixed}"
    liger = ", Liger" if settings["liger"] else ""
    return f"batch {settings['micro_batch']} x {settings['seq_len']}, {weights}, {settings['attention']}{liger}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _scaled(value: float | None, unit: float, digits: int = 1) -> str:
    return "-" if value is None else f"{value / unit:,.{digits}f}"


def _of(value: float | None, whole: float | None) -> str:
    return "-" if value is None or not whole else f"{100 * value / whole:.1f} %"
