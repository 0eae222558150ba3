"""Memory that each training stack keeps, and how far the memory of its jobs was from the count."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from diagnose.errors import WrongUsage

_TABLE = Path(__file__).parents[2] / "data" / "memory_ledgers.toml"


@dataclass(frozen=True)
class Ledger:
    """The memory habits of a training stack.

    Attributes:
        name: the stack.
        source: the code that they are read from.
        rows: the public rows that it is held against.
        measured: these rows state their memory; else they bound it, since they ran.
        seen: traits of the jobs among these rows, of those that a span asks for.
        fused_norms: a norm keeps its input and its output alone; else an fp32 copy and the normalised value, too.
        repeats_keys: attention takes keys and values repeated for each query head, whichever kernel computes it.
        keeps_before_rotary: queries, keys and values are kept before the rotary embedding as well.
        copies_output: attention's output is kept by heads and, for the projection, by tokens.
        gated_tensors: values of the inner width that a gated feed-forward part keeps.
        half_logits: copies of the logits in the type of the products when most of them exist.
        fp32_logits: copies in fp32 at that moment.
        fuses_gradients: the backward product adds to the fp32 gradient, so that none exists in the type of the weights.
        narrow_fp8: in fp8 the inputs of products are kept in a byte for each value.
        scales_inside_experts: the router's weights scale inside an expert, so that what it returns is not kept.
        casts_adapter_inputs: each adapter casts its input to fp32 (peft).
        keeps_gathered_inputs: without a pipeline, tensor parallelism keeps the inputs that it gathers for products if
            there is room for them; else it gathers them again.
        pipeline_keeps_gathered: sharded weights stay gathered over all micro-batches of a pipeline, and their gradients
            are summed up whole in fp32.
        offloaded_share: activations that move to the host's memory if the weights are sharded, on `offloading_boards`.
        offloading_boards: boards whose link to the host is as fast as that takes, by the beginnings of their names.
        fragmentation: of what each step takes and gives back, what torch reserves beyond it.
        span: measured over counted memory, from the 10th to the 90th percentile. Of rows that state none the high end
            is what their boards leave, and the low end, a fifth less than counted, is an assumption.
        compiled_low: the low end for compiled jobs, whose loss later versions compile as well.
    """

    name: str
    source: str
    half_logits: int
    fp32_logits: int
    gated_tensors: int
    fragmentation: float
    rows: str
    seen: tuple[str, ...]
    span: tuple[float, float]
    measured: bool = True
    compiled_low: float | None = None
    fused_norms: bool = False
    repeats_keys: bool = False
    keeps_before_rotary: bool = False
    copies_output: bool = False
    fuses_gradients: bool = False
    narrow_fp8: bool = False
    scales_inside_experts: bool = False
    casts_adapter_inputs: bool = False
    keeps_gathered_inputs: bool = False
    pipeline_keeps_gathered: bool = False
    offloaded_share: float = 0.0
    offloading_boards: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def ledgers() -> Mapping[str, Ledger]:
    """Every stack's ledger by its name."""
    with _TABLE.open("rb") as file:
        tables = tomllib.load(file)
    return {name: _ledger(name, row) for name, row in tables.items()}


def _ledger(name: str, row: Mapping[str, Any]) -> Ledger:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Ledger(name, **values)


def ledger_of(stack: str) -> Ledger:
    """The ledger of a stack.

    Raises:
        WrongUsage: there is none of that name.
    """
    if stack not in ledgers():
        raise WrongUsage("no such training stack", where=stack, do=f"use one of {', '.join(ledgers())}")
    return ledgers()[stack]
