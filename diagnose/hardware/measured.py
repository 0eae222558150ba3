"""Rates that were measured on machines of the user's, as `diagnose doctor --measure` keeps them."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from diagnose.decoding import finite

SCHEMA_VERSION = 1
MOST_MACHINES = 64
MOST_RATES = 256
LARGEST_BYTES = 1 << 20
_LONGEST = 200
_MOST_RATE = 1e18
_SAME_MEMORY = 0.02


class MeasuredRate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate: what was measured on "cpu" or "cuda", in "flops_per_s" or "bytes_per_s"; if unknown, why.

    `precision` and `size` (m, n, k) are those of a product, "" and none of anything else.
    """

    name: str
    on: Literal["cpu", "cuda"]
    unit: Literal["flops_per_s", "bytes_per_s"]
    value: float | None = None
    because: str = ""
    precision: str = ""
    size: tuple[int, ...] = ()


class MeasuredMachine(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of one host, measured on the day `at`.

    `device` is the GPU's name, "" without one, and `memory_bytes` its memory; `model` is the one whose products were
    measured, "" if they are squares.
    """

    schema_version: int = SCHEMA_VERSION
    at: str
    host: str
    device: str
    memory_bytes: int
    torch: str
    threads: int
    model: str
    rates: tuple[MeasuredRate, ...]

    @property
    def said(self) -> str:
        """Where and when, for the source of a figure."""
        return f"measured on {self.host} on {self.at} (diagnose doctor --measure)"

    def is_of(self, name: str, memory_bytes: float | None) -> bool:
        """Whether its GPU has this name and, as far as that is known, this memory."""
        if not name or name != self.device:
            return False
        return not memory_bytes or abs(self.memory_bytes / memory_bytes - 1) <= _SAME_MEMORY

    def best(self, unit: str, precision: str = "") -> float | None:
        """The highest rate of the GPU in this unit and precision; None if none is known."""
        known = [one.value for one in self.rates if (one.on, one.unit, one.precision) == ("cuda", unit, precision)]
        return max((value for value in known if value), default=None)

    def usual(self, precision: str) -> float | None:
        """FLOP/s of all products of the GPU in this precision together, one after another; None if none is known."""
        known = [
            (float(2 * one.size[0] * one.size[1] * one.size[2]), one.value)
            for one in self.rates
            if (one.on, one.precision, len(one.size)) == ("cuda", precision, 3) and one.value
        ]
        took_s = sum(flops / value for flops, value in known if value)
        return sum(flops for flops, _ in known) / took_s if known else None

    @property
    def memory_rate(self) -> float | None:
        """Bytes a second of the GPU's own memory, the best of copies and reads; None if none is known."""
        known = [one.value for one in self.rates if one.on == "cuda" and one.name.startswith("memory ")]
        return max((value for value in known if value), default=None)


def machines_in(content: bytes) -> tuple[MeasuredMachine, ...]:
    """The machines of a file; those that cannot be read are left out."""
    try:
        found = msgspec.json.decode(content[:LARGEST_BYTES])
    except msgspec.DecodeError:
        return ()
    listed = found if isinstance(found, list) else [found]
    return tuple(one for each in listed[:MOST_MACHINES] if (one := machine_in(each)) is not None)


def machine_in(told: object) -> MeasuredMachine | None:
    """The machine that a decoded object describes; None if it is none of this version or holds an impossible rate."""
    if not isinstance(told, dict) or told.get("schema_version") != SCHEMA_VERSION:
        return None
    try:
        machine = msgspec.convert(told, MeasuredMachine)
    except msgspec.ValidationError:
        return None
    texts = (machine.at, machine.host, machine.device, machine.torch, machine.model)
    sound = all(len(text) <= _LONGEST and text.isprintable() for text in texts) and machine.memory_bytes >= 0
    return machine if sound and len(machine.rates) <= MOST_RATES and all(map(_is_sound, machine.rates)) else None


def of_device(machines: Iterable[MeasuredMachine], known: Mapping[str, Any]) -> MeasuredMachine | None:
    """The newest measurement of a GPU with Kineto's properties; None if there is none."""
    name, memory = known.get("name"), finite(known.get("totalGlobalMem"), 1, _MOST_RATE)
    fits = [one for one in machines if isinstance(name, str) and one.is_of(name, memory)]
    return max(fits, key=lambda one: one.at, default=None)


def _is_sound(rate: MeasuredRate) -> bool:
    whole = len(rate.size) in (0, 3) and all(0 < side < 1 << 24 for side in rate.size)
    return whole and (rate.value is None or finite(rate.value, 1, _MOST_RATE) is not None)
