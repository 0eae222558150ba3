"""Readings of the machine over a whole armed run, as lines for the step log: fewer of them the longer it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from ..machine.nvml_readings import IDLE
from ..machine.sampling import Reader

INTERVAL_S = 2.0
LINKS_EVERY = 15  # readings from one of the GPU's links and errors to the next: half a minute at first
MOST = 2048  # lines; then half as many in the same time, for half as many lines
KEPT = frozenset(
    (
        "sm_clock_mhz",
        "memory_clock_mhz",
        "power_w",
        "temperature_c",
        "gpu_processes",
        "available_bytes",
        "far_from_gpu",
        "process_cpu_ns",
        "workers_cpu_ns",
        "allowed_cores_cpu_ns",
        "stolen_ns",
        "waited_for_core_ns",
        "throttled_ns",
        "swap_bytes",
        "cpu_pressure_ns",
        "memory_pressure_ns",
        "storage_wait_ns",
    )
)
PCIE = frozenset(("pcie_generation", "pcie_width"))
OF_GPU = PCIE | {"nvlinks", "ecc_corrected", "ecc_uncorrected", "remapped_rows", "pcie_replays", "nvlink_errors"}

Line = dict[str, object]


class MachineLog:
    """Makes a line of each reading: the momentary values, and the counts since the previous reading, per second.

    One object serves the whole process, so that the lines of later loops are also further apart.
    """

    def __init__(self) -> None:
        self._interval_s, self._lines = INTERVAL_S, 0
        self._note: Callable[[Line], object] = _nowhere
        self._step: Callable[[], int] = int
        self._why_no_gpu: Callable[[], str] = str
        self._before: tuple[float, dict[str, float]] | None = None
        self._told = ""
        self._gpu: dict[str, int] = {}

    def reader(self, note: Callable[[Line], object], step: Callable[[], int]) -> Reader:
        """Begin a reader that passes each line to `note`; `step` returns how many steps the job has done."""
        called = "readings of the machine over the run"
        reader = Reader(self, MOST, self._interval_s, traffic=False, links_every=LINKS_EVERY, called=called)
        self._note, self._step, self._why_no_gpu = note, step, lambda: reader.why_no_gpu
        self._before, self._told, self._gpu = None, "", {}
        return reader

    def add(
        self, at_s: float, gauges: Mapping[str, float], counters: Mapping[str, float], reasons: Iterable[str] | None
    ) -> int:
        """Pass on the line of a reading; return the number of lines at this distance."""
        told = None if reasons is None else list(reasons)
        line: Line = {"gauges": _rounded(gauges), "step": self._step(), "t": round(time.time(), 3)}
        if self._before is not None:
            over_s, before = at_s - self._before[0], self._before[1]
            since = {name: now - before[name] for name, now in counters.items() if now >= before.get(name, now + 1)}
            if over_s > 0:
                line["rates"] = _rounded({name: count / over_s for name, count in since.items()})
                line["over_s"] = round(over_s, 3)
        line.update(self._gpu_line({**gauges, **counters}, told))
        if told is not None:
            line["held_by"] = told
        why = self._why_no_gpu()
        if why != self._told:
            line["no_gpu"] = self._told = why
        self._before = at_s, dict(counters)
        self._note(line)
        self._lines += 1
        return self._lines

    def _gpu_line(self, read: Mapping[str, float], held_by: list[str] | None) -> Line:
        """The values of the GPU's links and errors that changed in this loop, at first all; empty if none is read.

        The PCIe link of an idle GPU sleeps, and so may that of a GPU that does not report whether it is idle.
        """
        asked = OF_GPU - PCIE if held_by is None or IDLE in held_by else OF_GPU
        now = {name: int(value) for name, value in read.items() if name in asked}
        if not now:
            return {}
        new = {name: value for name, value in now.items() if self._gpu.get(name) != value}
        self._gpu.update(new)
        return {"gpu": new}

    def thin_out(self) -> None:
        """Halve the rate of lines."""
        self._lines //= 2
        self._interval_s *= 2


def _nowhere(line: Line) -> None:
    """Discard the line, as long as there is no loop."""


def _rounded(read: Mapping[str, float]) -> dict[str, float]:
    """The readings that are kept, rounded to four digits."""
    return {name: _short(value) for name, value in read.items() if name in KEPT}


def _short(value: float) -> float:
    short = float(f"{value:.4g}")
    return int(short) if short.is_integer() else short
