"""The Diagnosis as tables with typed columns: CSV and Parquet files, and the data frames of a notebook."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import cast

from diagnose.diagnosis import Diagnosis, Finding, Patch, PlanStep, Speedup
from diagnose.errors import printable
from diagnose.report.views.words import flags_line, patch_lines

Cell = str | int | float | bool | None
Kind = type[str] | type[int] | type[float] | type[bool]
Columns = dict[str, Kind]
Fields = dict[str, tuple[str, Kind]]

PARQUET_NEEDS = "pyarrow"
_BEGIN_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last are full-width
_GAIN: Columns = {"speedup_low": float, "speedup_high": float}
_SO_FAR: Columns = {"cumulative_speedup_low": float, "cumulative_speedup_high": float}
_CHANGE: Columns = {"target": str, "change": str, "flags": str}
_FACT: Columns = {"fact": str}
_VALUE: Columns = {"value": float, "text": str, "unit": str, "of": str}
_FINDING: Columns = {"rule": str, "class": str, "severity": str, "says": str, "action": str, "do": str, "assumes": str}
_WHERE: Columns = {"rule": str, "file": str, "line": int, "function": str, "share": float, "of": str}
_PLAN: Columns = {"position": int, "rule": str, "effort": str, "changes_numerics": bool}
_RANK: Columns = {"rank": int, "host": str, "device": str, "bound_by": str, "steps": int}
_REASON: Columns = {"because": str, "capture_next": str}
_BREAKDOWN: Fields = {
    "cause": ("cause", str),
    "class": ("class_", str),
    "time_ns": ("ns", int),
    "share_of_step": ("share", float),
}
_WATERFALL: Fields = {
    "part": ("part", str),
    "class": ("class_", str),
    "time_ns": ("ns", int),
    "points_percent": ("points", float),
}
_ROOFLINE: Fields = {
    "family": ("family", str),
    "direction": ("direction", str),
    "precision": ("precision", str),
    "per_step_ns": ("ns", int),
    "kernels_per_step": ("kernels", float),
    "flop_per_step": ("flops", float),
    "bytes_per_step": ("bytes", float),
    "intensity_flop_per_byte": ("intensity", float),
    "reached_tflop_per_s": ("tflops", float),
    "reached_gb_per_s": ("gbs", float),
    "bound": ("bound", str),
    "above_roof_ns": ("above_roof_ns", int),
    "note": ("note", str),
}
_KERNELS: Fields = {
    "kernel": ("name", str),
    "names": ("names", int),
    "family": ("family", str),
    "class": ("class_", str),
    "bound": ("bound", str),
    "operator": ("operator", str),
    "count_per_step": ("count", float),
    "per_step_ns": ("ns", int),
    "share_of_step": ("share", float),
    "mean_ns": ("mean_ns", int),
    "above_roof_ns": ("above_roof_ns", int),
}
_HOST_OPERATORS: Fields = {
    "operator": ("name", str),
    "names": ("names", int),
    "count_per_step": ("count", float),
    "per_step_ns": ("ns", int),
    "share_of_step": ("share", float),
    "mean_ns": ("mean_ns", int),
    "input_shapes": ("shapes", str),
    "kind": ("kind", str),
}
_USER_CODE: Fields = {
    "file": ("file", str),
    "line": ("line", int),
    "function": ("function", str),
    "own_share": ("share", float),
    "share_with_calls": ("total_share", float),
    "doing": ("doing", str),
    "calls": ("calls", str),
    "calls_share": ("calls_share", float),
}
_RANGES: Fields = {
    "range": ("name", str),
    "names": ("names", int),
    "opened_by": ("by", str),
    "count_per_step": ("count", float),
    "per_step_ns": ("ns", int),
    "share_of_host_step": ("share", float),
    "launched_gpu_per_step_ns": ("gpu_ns", int),
    "device_idle_per_step_ns": ("idle_ns", int),
    "device_idle_share_of_step": ("idle_share", float),
}
_MFU: Fields = {
    "convention": ("name", str),
    "model_flop_per_step": ("model_flops_per_step", float),
    "mfu_share_of_peak": ("value", float),
}
_STRAGGLERS: Fields = {
    "rank": ("rank", int),
    "host": ("host", str),
    "cause": ("cause", str),
    "waiting_caused_ns": ("waiting_ns_caused", int),
    "share_of_other_ranks_steps": ("share", float),
    "steps_late": ("steps_late", int),
    "persistence": ("persistence", str),
    "explained_share_of_lateness": ("explained_share", float),
    "first_diverging": ("first_diverging", str),
    "because": ("because", str),
}
_TRAFFIC: Fields = {
    "collective": ("kind", str),
    "group": ("group", str),
    "ranks": ("ranks", int),
    "bytes": ("bytes", int),
    "count_per_step": ("count_per_step", float),
    "transfer_median_ns": ("transfer_ns", int),
    "waiting_median_ns": ("waiting_ns", int),
    "exposed_share_of_step": ("exposed_share", float),
    "exposed_waiting_share_of_step": ("exposed_waiting_share", float),
    "algbw_gb_per_s": ("algbw_gbs", float),
    "busbw_gb_per_s": ("busbw_gbs", float),
    "expected_busbw_gb_per_s": ("expected_busbw_gbs", float),
    "note": ("note", str),
}


@dataclass(frozen=True)
class CapacityTable:
    """Rows of equal length under named columns of one kind each; None is what is not known, and an empty text."""

    columns: Columns
    rows: tuple[tuple[Cell, ...], ...]


def tables_of(diagnosis: Diagnosis) -> dict[str, CapacityTable]:
    """Every table by the name of its file. Times and shares carry their unit and denominator in the column's name."""
    return _of_step(diagnosis) | _of_judgement(diagnosis) | _of_job(diagnosis)


def csv_of(table: CapacityTable) -> bytes:
    """The table as RFC 4180 has it, in UTF-8; what is not known is an empty field, a flag true or false.

    A text that a spreadsheet would take for a formula, since a name in a trace may be one, has an apostrophe before it.
    """
    to = io.StringIO(newline="")
    writer = csv.writer(to)
    writer.writerow(table.columns)
    writer.writerows([_in_csv(cell) for cell in row] for row in table.rows)
    return to.getvalue().encode()


def _in_csv(cell: Cell) -> Cell:
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip(" ").startswith(_BEGIN_FORMULAS) else cell


def parquet_of(table: CapacityTable) -> bytes:
    """The table as a Parquet file.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import pyarrow
    from pyarrow import parquet

    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.columns)
    arrays = [pyarrow.array(cells, kinds[kind]) for cells, kind in zip(columns, table.columns.values(), strict=True)]
    to = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays, names=list(table.columns)), to)
    return to.getvalue()


def has_parquet() -> bool:
    """Whether `parquet_of` can be used."""
    return find_spec(PARQUET_NEEDS) is not None


def typed(columns: Columns, rows: Iterable[Sequence[object]]) -> CapacityTable:
    """The rows with each cell of its column's kind."""
    kinds = list(columns.values())
    return CapacityTable(columns, tuple(tuple(_cell(*cell) for cell in zip(row, kinds, strict=True)) for row in rows))


def records(fields: Fields, records: Iterable[object]) -> CapacityTable:
    """A row for each record, its fields as the columns name them."""
    columns = {column: kind for column, (_, kind) in fields.items()}
    return typed(columns, ([getattr(record, field) for field, _ in fields.values()] for record in records))


def _cell(value: object, kind: Kind) -> Cell:
    if value is None or value == "":
        return None
    return printable(str(value)) if kind is str else cast(Cell, kind(cast(float, value)))


def _of_step(d: Diagnosis) -> dict[str, CapacityTable]:
    facts = ([f.name, *_split(f.value), f.unit, f.of, f.because, f.capture_next] for f in d.facts)
    return {
        "ledger": records(_BREAKDOWN, d.ledger),
        "waterfall": records(_WATERFALL, d.waterfall),
        "roofline": records(_ROOFLINE, d.roofline),
        "operators": records(_ROOFLINE, d.operators),
        "kernels": records(_KERNELS, d.kernels),
        "host_operators": records(_HOST_OPERATORS, d.host_operators),
        "user_code": records(_USER_CODE, d.user_code.functions if d.user_code else ()),
        "ranges": records(_RANGES, d.ranges),
        "mfu": records(_MFU, d.mfu.conventions),
        "facts": typed(_FACT | _VALUE | _REASON, facts),
    }


def _of_judgement(d: Diagnosis) -> dict[str, CapacityTable]:
    evidence = ([f.rule, e.fact, *_split(e.value), e.unit, e.of] for f in d.findings for e in f.evidence)
    reasons: Fields = {"rule": ("rule", str), "because": ("because", str), "capture_next": ("capture_next", str)}
    where = ([f.rule, w.file, w.line, w.function, w.share, w.of] for f in d.findings for w in f.where)
    return {
        "findings": typed(_FINDING | _GAIN | _CHANGE, map(_finding, d.findings)),
        "where": typed(_WHERE, where),
        "evidence": typed({"rule": str} | _FACT | _VALUE, evidence),
        "plan": typed(_PLAN | _GAIN | _SO_FAR | _CHANGE, (_planned(*numbered) for numbered in enumerate(d.plan, 1))),
        "not_advised": records({"change": ("what", str), "because": ("because", str)}, d.not_advised),
        "not_judged": records(reasons, d.not_judged),
    }


def _of_job(d: Diagnosis) -> dict[str, CapacityTable]:
    cells = ((r, e) for r in d.ranks for e in r.ledger)
    ranks = ([r.rank, r.host, r.device, r.verdict.class_, r.steps, e.cause, e.class_, e.ns, e.share] for r, e in cells)
    breakdown: Columns = {column: kind for column, (_, kind) in _BREAKDOWN.items()}
    return {
        "ranks": typed(_RANK | breakdown, ranks),
        "stragglers": records(_STRAGGLERS, d.stragglers),
        "traffic": records(_TRAFFIC, d.postmortem.traffic if d.postmortem else ()),
    }


def _finding(f: Finding) -> list[object]:
    said = [f.rule, f.class_, f.severity, f.says, f.action, f.do, f.assumes]
    return [*said, *_range(f.predicted_speedup), *_change(f.patch)]


def _planned(position: int, p: PlanStep) -> list[object]:
    gains = [*_range(p.predicted_speedup), *_range(p.cumulative_speedup)]
    return [position, p.rule, p.effort, p.numerics, *gains, *_change(p.patch)]


def _range(speedup: Speedup | None) -> tuple[float | None, float | None]:
    return speedup or (None, None)


def _change(patch: Patch | None) -> tuple[str | None, ...]:
    return (patch.target, "; ".join(patch_lines(patch)), flags_line(patch)) if patch else (None, None, None)


def _split(value: float | bool | str | None) -> tuple[float | None, str | None]:
    """A number, or a flag as 1 or 0, and a text, each in a column of its own."""
    return (None, value) if isinstance(value, str) else (value, None)
