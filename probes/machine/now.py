"""Memory of this process, clock and power of its GPU at the moment, as figures, with the reason if one is unknown."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..guard import quietly
from ..held import readings
from .sampling import Reader

EVERY_S = 1.0
OF_PROCESS = {"host_memory_bytes": "rss", "device_memory_bytes": "device", "device_reserved_bytes": "reserved"}
OF_GPU = {"sm_clock_mhz": "sm_clock_mhz", "power_w": "power_w"}
_NO_GPU = "the training thread computes on no GPU"
_NOT_TOLD = "the last reading has none"


@dataclass(frozen=True)
class Machine:
    """Figures by name, and why others are not known."""

    figures: Mapping[str, float] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


def unread() -> Machine:
    """Nothing, where nobody reads."""
    return Machine()


def machine_of(held: Mapping[str, float], gauges: Mapping[str, float], why_no_gpu: str) -> Machine:
    """The figures of these readings; `why_no_gpu` is why there are none of a GPU, "" if there are."""
    names = {figure: held.get(name) for figure, name in OF_PROCESS.items()}
    names |= {figure: gauges.get(name) for figure, name in OF_GPU.items()}
    figures = {figure: value for figure, value in names.items() if value is not None}
    missing = names.keys() - figures.keys()
    return Machine(
        figures, {name: _NOT_TOLD if name == "host_memory_bytes" else why_no_gpu or _NOT_TOLD for name in missing}
    )


class MachineNow:
    """Reads the process where it is asked, once a second at most, and the GPU in a thread of its own until `stop`.

    All is for the training thread, whose GPU it is.
    """

    def __init__(self) -> None:
        self._last, self._read_at = Machine(), 0.0
        self._gpu = _LastReading()
        self._reader: Reader | None = None

    def __call__(self) -> Machine:
        """The last readings."""
        now = time.monotonic()
        if now - self._read_at >= EVERY_S:
            self._read_at = now
            self._watch_gpu()
            held: Any = quietly(readings.of_this_process)
            self._last = machine_of(held or {}, self._gpu.gauges, self._why_no_gpu())
        return self._last

    def _watch_gpu(self) -> None:
        if self._reader is None and _computes_on_a_gpu():
            self._reader = Reader(
                self._gpu, sys.maxsize, traffic=False, links_every=sys.maxsize, called="live readings"
            )
            self._reader.start()

    def stop(self) -> None:
        """Read no more."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.stop()

    def _why_no_gpu(self) -> str:
        return _NO_GPU if self._reader is None else self._reader.why_none or self._reader.why_no_gpu


class _LastReading:
    """Keeps the last reading alone."""

    def __init__(self) -> None:
        self.gauges: Mapping[str, float] = {}

    def add(
        self, at_s: float, gauges: Mapping[str, float], counters: Mapping[str, float], reasons: Iterable[str] | None
    ) -> int:
        """Keep it in the place of the one before."""
        self.gauges = gauges
        return 1

    def thin_out(self) -> None:
        """Nothing is kept that could be."""


def _computes_on_a_gpu() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())
