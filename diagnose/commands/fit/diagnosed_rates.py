"""Rates that a diagnosed run achieved, in place of those of a training stack."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from diagnose.commands.fit.stacks import StackRates
from diagnose.errors import UserError
from diagnose.hardware import lookup
from diagnose.hardware.measured import MeasuredMachine, machine_in

_HALF = ("bf16", "fp16")
_LARGEST_BYTES = 1 << 28
_CAUSAL_SHARE = 0.5  # of the FLOPs that a diagnosis counts for attention, what a causal mask leaves


def calibrated(stack: StackRates, path: Path) -> StackRates:
    """The stack with the rates that the run reached: matrix products, attention, and the network between its nodes.

    Rates that the run lacks stay the stack's own, and the source lists which is which.

    Args:
        stack: of the run.
        path: the output of `diagnose analyze --json` for it, or of `diagnose doctor --measure --json` on its machine.

    Raises:
        UserError: the file is no diagnosis, or has no rate.
    """
    document = _read(path)
    machine = machine_in(document.get("measured"))
    rates = _products(document) | _network(document) if machine is None else _measured(machine)
    if not rates and machine is not None:
        why = "it has no product of a GPU whose peak is known"
        raise UserError("no rate of a GPU was measured", where=path, why=why, do="run it on the machine of the job")
    if not rates:
        why = "its kernels have no FLOPs, and it has no collective between nodes"
        raise UserError("the run has no achieved rate", where=path, why=why, do="capture it with shapes recorded")
    source = f"{', '.join(rates)} of {path.name}; the rest {stack.source}"
    return replace(stack.with_rates(rates), source=source)


def _read(path: Path) -> Mapping[str, Any]:
    do = "pass what `diagnose analyze RUN --json` printed, or `diagnose doctor --measure --json`"
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UserError("too large for a diagnosis", where=path, do=do)
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError("cannot be read as a diagnosis", where=path, why=str(error), do=do) from error
    if not isinstance(document, dict) or not (isinstance(document.get("roofline"), list) or document.get("measured")):
        raise UserError("not a diagnosis", where=path, do=do)
    return document


def _measured(machine: MeasuredMachine) -> dict[str, float]:
    """The share of its board's peak that the measured products reach together; no width slows those of the model."""
    board = lookup({"name": machine.device, "totalGlobalMem": machine.memory_bytes or None})
    rate = machine.usual("bf16") if machine.model else machine.best("flops_per_s", "bf16")
    if board is None or board.bf16_tflops is None or rate is None:
        return {}
    share = {"matrix_share": min(rate / (board.bf16_tflops * 1e12), 1.0)}
    return share | {"matrix_half_width": 0.0} if machine.model else share


def _products(document: Mapping[str, Any]) -> dict[str, float]:
    """Rates as shares of the dense half-precision peak; no width slows them, since the run has the job's sizes."""
    peaks = {each.get("precision"): each.get("flops_per_s") for each in _listed(document.get("roofs"), "peaks")}
    peak = next((peaks[name] for name in _HALF if _is_rate(peaks.get(name))), None)
    rates: dict[str, float] = {}
    if peak and (matrix := _flops_per_s(document["roofline"], "gemm")):
        rates |= {"matrix_share": min(matrix / peak, 1.0), "matrix_half_width": 0.0}
    if peak and (attention := _flops_per_s(document["roofline"], "attention")):
        rates["attention_share"] = min(_CAUSAL_SHARE * attention / peak, 1.0)
    return rates


def _flops_per_s(entries: Sequence[Any], family: str) -> float | None:
    """FLOP/s of the family's kernels in half precision whose FLOPs are known; None if there are none."""
    known = [
        (entry["flops"], entry["tflops"] * 1e12)
        for entry in entries
        if isinstance(entry, dict) and entry.get("family") == family and entry.get("precision") in _HALF
        if _is_rate(entry.get("flops")) and _is_rate(entry.get("tflops"))
    ]
    return sum(flops for flops, _ in known) / sum(flops / rate for flops, rate in known) if known else None


def _network(document: Mapping[str, Any]) -> dict[str, float]:
    """Bandwidth of a node's network in a run over several nodes, which is the slowest link there; else empty."""
    facts = {each.get("name"): each.get("value") for each in _listed(document, "facts")}
    nodes, rate = facts.get("nodes"), facts.get("bus_bytes_per_s")
    return {"node_gbs": rate / 1e9} if _is_rate(nodes) and _is_rate(rate) and nodes > 1 else {}


def _listed(holder: object, name: str) -> list[Mapping[str, Any]]:
    entries = holder.get(name) if isinstance(holder, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _is_rate(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
