"""Series that a monitor has kept of the GPUs: DCGM's fields, as its exporter prints them or Prometheus answers.

Read are the text form of Prometheus, and the JSON of a query over time, also several of them, one behind the other in a
list or on lines of their own. Other series than those of the tables below are left out.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnose.decoding import MOST_COUNT, finite
from diagnose.errors import UserError, shown_path
from diagnose.probes.machine.nvml import THROTTLE
from diagnose.probes.machine.summary import Samples
from diagnose.trace.record import CaptureRecord

_GAUGES = {
    "DCGM_FI_DEV_SM_CLOCK": "sm_clock_mhz",
    "DCGM_FI_DEV_MEM_CLOCK": "memory_clock_mhz",
    "DCGM_FI_DEV_POWER_USAGE": "power_w",
    "DCGM_FI_DEV_GPU_TEMP": "temperature_c",
    "DCGM_FI_DEV_PCIE_LINK_GEN": "pcie_generation",
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": "pcie_width",
}
_COUNTED = {
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "pcie_replays",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": "ecc_corrected",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "ecc_uncorrected",
}
_LIMITS = {
    "DCGM_FI_DEV_MAX_SM_CLOCK": "sm_clock_max_mhz",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": "power_limit_w",
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "power_limit_w",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF": "power_limit_default_w",
    "DCGM_FI_DEV_PCIE_MAX_LINK_GEN": "pcie_generation_max",
    "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH": "pcie_width_max",
}
_REASONS = ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
_READ = frozenset({*_GAUGES, *_COUNTED, *_LIMITS, *_REASONS})
_IDLE = 0x1  # of the reasons: the clock of an idle GPU is meaningless
_AROUND_S = 60.0  # monitors ask every 15 to 60 seconds: as near are readings of the window's
_LARGEST_BYTES = 256 << 20
_LINE = re.compile(r"(DCGM_FI_\w{1,80})\{([^}\n]{0,2000})\}[ \t]+(\S{1,40})(?:[ \t]+(\d{1,16}))?[ \t]*$")
_LABEL = re.compile(r'(\w{1,60})="((?:[^"\\]|\\.){0,200})"')

Point = tuple[float, str, float]  # seconds since 1970, the field, its value


@dataclass(frozen=True)
class Card:
    """A GPU as the monitor names it: host, number there, address on the PCI bus; "" if not given."""

    host: str
    number: str
    address: str


@dataclass(frozen=True)
class Monitored:
    """A monitor's records by GPU, in order of time; texts without times are at time 0."""

    points: Mapping[Card, tuple[Point, ...]]

    def beside(self, record: CaptureRecord, window_s: tuple[float, float] | None) -> CaptureRecord:
        """Return the record with the readings of its rank's GPU added; the capture's own readings take precedence.

        Args:
            record: the record of the rank, which identifies its GPU.
            window_s: begin and end of the capture, seconds since 1970; None if unknown.
        """
        points = self._of(record)
        if not points:
            return record
        near = [at for at in points if window_s and window_s[0] - _AROUND_S <= at[0] <= window_s[1] + _AROUND_S]
        told, of_window = _summary(points), _summary(near)
        own = record.get("machine_samples") or {}
        for kind in ("gauges", "rates"):
            over = {
                name: {"run": each["run"], "window": of_window[kind].get(name, {}).get("run")}
                for name, each in told[kind].items()
            }
            told[kind] = {**over, **(own.get(kind) or {})}
        held = own.get("throttled")
        told["throttled"] = held if held is not None else _throttled(told["throttled"], of_window["throttled"])
        for kind, found in (("totals", told["totals"]), ("limits", _limits(points))):
            told[kind] = {**found, **(own.get(kind) or {})}
        return CaptureRecord({**record.values, "machine_samples": {**told, **_kept(own)}}, record.lost)

    def _of(self, record: CaptureRecord) -> tuple[Point, ...]:
        """The points of the record's GPU: by its address, else by its number, on its host."""
        host, address, number = record.text("host"), record.text("device.pci_address"), record.number("device.index")
        here = [card for card in self.points if not host or not card.host or _same_host(card.host, host)]
        by_address = [card for card in here if address and card.address and _same_address(card.address, address)]
        by_number = [card for card in here if number is not None and card.number == f"{number:.0f}"]
        found = by_address or (by_number if not address or not any(card.address for card in here) else []) or here
        return self.points[found[0]] if len(found) == 1 else ()


def monitored(path: Path) -> Monitored:
    """Read the monitor's file.

    Raises:
        UserError: the file cannot be read, or holds none of DCGM's series.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UserError("the series are too large", where=shown_path(path), do="export the time of the job alone")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError("cannot read the series", where=shown_path(path), why=error.strerror or str(error)) from error
    kept: dict[Card, list[Point]] = {}
    for card, point in _points_of(text):
        kept.setdefault(card, []).append(point)
    if not kept:
        do = "export DCGM's fields, such as DCGM_FI_DEV_SM_CLOCK: the exporter's page, or Prometheus' answer as JSON"
        raise UserError("no series of GPUs in the file", where=shown_path(path), do=do)
    return Monitored({card: tuple(sorted(points)) for card, points in kept.items()})


def _points_of(text: str) -> Iterator[tuple[Card, Point]]:
    return _of_json(text) if text.lstrip()[:1] in ("{", "[") else _of_text(text)


def _of_text(text: str) -> Iterator[tuple[Card, Point]]:
    for line in text.splitlines():
        told = _LINE.match(line)
        value = finite(_number(told[3]), 0, MOST_COUNT) if told else None
        if told and value is not None and told[1] in _READ:
            yield _card(dict(_LABEL.findall(told[2]))), (int(told[4] or 0) / 1000, told[1], value)


def _of_json(text: str) -> Iterator[tuple[Card, Point]]:
    for answer in _answers(text):
        data = answer.get("data", answer) if isinstance(answer, Mapping) else {}
        for series in _listed(data.get("result")) if isinstance(data, Mapping) else ():
            labels = series.get("metric") if isinstance(series, Mapping) else None
            name = labels.get("__name__") if isinstance(labels, Mapping) else None
            if isinstance(name, str) and name in _READ:
                yield from _of_series(_card(labels), name, _listed(series.get("values")) or [series.get("value")])


def _listed(found: object) -> Sequence[Any]:
    return found if isinstance(found, list) else ()


def _of_series(card: Card, name: str, values: Iterable[Any]) -> Iterator[tuple[Card, Point]]:
    for pair in values:
        if isinstance(pair, list) and len(pair) == 2:
            at, value = finite(pair[0], 0, 1e11), finite(_number(pair[1]), 0, MOST_COUNT)
            if at is not None and value is not None:
                yield card, (at, name, value)


def _answers(text: str) -> Iterator[Any]:
    try:
        parsed = [json.loads(text)]
    except (ValueError, RecursionError):
        parsed = [_line(line) for line in text.splitlines() if line.strip()]
    for answer in parsed:
        yield from answer if isinstance(answer, list) else [answer]


def _line(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _number(text: object) -> float | None:
    try:
        return float(text) if isinstance(text, (str, int, float)) else None
    except ValueError:
        return None


def _card(labels: Any) -> Card:
    told = {name: value for name, value in labels.items() if isinstance(value, str)}
    host = told.get("Hostname") or told.get("hostname") or told.get("instance", "").rpartition(":")[0]
    return Card(host, told.get("gpu", ""), told.get("pci_bus_id", "").lower())


def _summary(points: Iterable[Point]) -> dict[str, Any]:
    samples, at_once = Samples(), dict[float, dict[str, float]]()
    for at, name, value in points:
        at_once.setdefault(at, {})[name] = value
    for at, told in sorted(at_once.items()):
        bits = next((int(told[name]) for name in _REASONS if name in told), None)
        gauges = {to: told[name] for name, to in _GAUGES.items() if name in told}
        if bits is not None and bits & _IDLE:
            gauges.pop("sm_clock_mhz", None)
        reasons = None if bits is None else [reason for bit, reason in THROTTLE.items() if bits & bit]
        samples.add(at, gauges, {to: told[name] for name, to in _COUNTED.items() if name in told}, reasons)
    return samples.facts()


def _throttled(run: dict[str, Any] | None, window: dict[str, Any] | None) -> dict[str, Any] | None:
    if run is None:
        return None
    of_window = {name: 0.0 if name not in window else window[name]["run"] for name in run} if window is not None else {}
    return {name: {"run": each["run"], "window": of_window.get(name)} for name, each in run.items()}


def _limits(points: Iterable[Point]) -> dict[str, float]:
    return {_LIMITS[name]: value for _, name, value in points if name in _LIMITS}


def _kept(own: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in own.items() if name not in ("gauges", "rates", "totals", "limits", "throttled")
    }


def _same_host(monitor: str, recorded: str) -> bool:
    return monitor.partition(".")[0] == recorded.partition(".")[0]


def _same_address(monitor: str, recorded: str) -> bool:
    return monitor.lstrip("0").removeprefix(":") == recorded.lower().lstrip("0").removeprefix(":")
