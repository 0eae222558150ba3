"""Facts: what was measured, or why it could not be and what would make it known. Missing is never zero."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from diagnose.errors.defects import REPORT_IT

Scalar = float | int | bool | str

STEP = "the step"  # the device step; a metric that can be measured without a GPU is then of the host step
HOST_STEP = "the host step"

CaptureKind = Literal["nothing", "option", "setting", "run"]


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """A way to make an unknown measurement known.

    Attributes:
        kind: "nothing": no capture helps, and `what` is the reason; "option": `what` is an option to pass to the
            analysis; "setting": `what` is a setting to capture with; "run": another run is needed, and `what` is a
            clause.
        or_else: an alternative; for "nothing", the way to take if `what` is not the case.
    """

    kind: CaptureKind
    what: str
    or_else: "Capture | None" = None

    @property
    def helps(self) -> bool:
        """Whether something can be done."""
        return self.kind != "nothing"

    def asks_for(self, option: str) -> bool:
        """Whether it is to pass this option of the analysis, or what else would do is."""
        named = self.kind == "option" and option in self.what.split()
        return named or (self.or_else is not None and self.or_else.asks_for(option))

    @property
    def sentence(self) -> str:
        """The action as a clause: "capture with diagnose run, or pass --tokens-per-step"."""
        if self.kind == "setting":
            return f"capture with {self.wanted}"
        return self.wanted

    @property
    def wanted(self) -> str:
        """The action without its verb, for use under a heading: "diagnose run, or pass --tokens-per-step"."""
        if self.kind == "nothing":
            return f"nothing for {self.what}; else {self.or_else.sentence}" if self.or_else else f"nothing: {self.what}"
        first = f"pass {self.what}" if self.kind == "option" else self.what
        return f"{first}, or {self.or_else.sentence}" if self.or_else else first


def nothing_helps(why: str, or_else: Capture | None = None) -> Capture:
    """No capture makes it known: there is nothing to be measured, or diagnose itself is at fault."""
    return Capture(kind="nothing", what=why, or_else=or_else)


def analysis_option(option: str, or_else: Capture | None = None) -> Capture:
    """A Capture that reads the same files with another option, such as "--network-gbs", or with further files."""
    return Capture(kind="option", what=option, or_else=or_else)


def capture_setting(setting: str, or_else: Capture | None = None) -> Capture:
    """A Capture that records the same steps with a setting: "diagnose run", "record_shapes=True"."""
    return Capture(kind="setting", what=setting, or_else=or_else)


def another_run(do: str, or_else: Capture | None = None) -> Capture:
    """A Capture that needs another kind of run or window, or a measurement elsewhere: "capture three steps or more"."""
    return Capture(kind="run", what=do, or_else=or_else)


def to_do(captures: Iterable[Capture]) -> str:
    """The actions of all captures as clauses joined by semicolons."""
    return "; ".join(capture.sentence for capture in captures)


DIAGNOSE_RUN = capture_setting("diagnose run")
A_DEFECT = nothing_helps(REPORT_IT)


class Unknown(msgspec.Struct, frozen=True):
    """A measurement that could not be made.

    Attributes:
        because: the reason, one clause.
        capture: what makes it known; None if the report does not advise on it.
    """

    because: str
    capture: Capture | None

    @property
    def capture_next(self) -> str:
        """The action that makes it known, as a clause; "" if there is no capture to advise."""
        return self.capture.sentence if self.capture else ""


Unit = Literal[
    "share",
    "ns",
    "bytes",
    "count",
    "flag",
    "text",
    "factor",
    "version",
    "flops",
    "flops_per_s",
    "bytes_per_s",
    "samples_per_s",
    "flops_per_byte",
    "w",
    "mhz",
    "celsius",
]
Value = Scalar | Unknown


class Fact(msgspec.Struct, frozen=True):
    """One measured value with its unit, a `Unit`; `of` is the denominator of a share."""

    name: str
    value: Value
    unit: str
    of: str = ""

    @property
    def known(self) -> bool:
        """Whether the value was measured."""
        return not isinstance(self.value, Unknown)


Facts = Mapping[str, Fact]


def known_values(facts: Facts) -> dict[str, Scalar]:
    """The values of the facts that were measured."""
    return {name: fact.value for name, fact in facts.items() if not isinstance(fact.value, Unknown)}


def spoken(value: Scalar | None, unit: str) -> str:
    """The value formatted for sentences: `0.396, "share"` is "39.6 %", `174e6, "ns"` is "174.0 ms"."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "ns":
        return duration(value)
    if unit == "bytes":
        return scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    if unit == "flops":
        return scaled(value, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"))
    if unit == "flops_per_s":
        return scaled(value, 1000, ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"))
    if unit == "bytes_per_s":
        return scaled(value, 1000, ("B/s", "kB/s", "MB/s", "GB/s"))
    if unit == "samples_per_s":
        return f"{value:,.0f} samples/s" if value >= 100 else f"{value:,.1f} samples/s"
    if unit == "flops_per_byte":
        return f"{value:,.1f} FLOP/B"
    if unit == "w":
        return f"{value:,.0f} W"
    if unit == "mhz":
        return f"{value:,.0f} MHz"
    if unit == "celsius":
        return f"{value:,.0f} degrees Celsius"
    if unit == "version":
        return f"{value:.1f}"
    if unit == "factor":
        return f"{value:.2f}x"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


NEAR_NOTHING = 0.0005
"""Below this share digits say no more than that there is something: 0.0 % is a number that nobody measures."""


def in_a_sentence(value: Scalar | None, unit: str) -> str:
    """The value within a sentence of a rule: no share is "none", and one too small for a digit "less than 0.1 %"."""
    if unit != "share" or not isinstance(value, int | float) or isinstance(value, bool) or value >= NEAR_NOTHING:
        return spoken(value, unit)
    return "less than 0.1 %" if value > 0 else "none"


_LONG = (("days", 86_400e9), ("h", 3_600e9), ("min", 60e9))


def duration(ns: float) -> str:
    """Nanoseconds in the largest unit that keeps the number at or above one; of minutes, hours and days, at two."""
    for unit, size_ns in _LONG:
        if abs(ns) >= 2 * size_ns:
            return f"{ns / size_ns:,.1f} {unit}"
    return scaled(ns, 1000, ("ns", "us", "ms", "s"))


def scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    """`value` divided by `base` until it is below it, with the matching unit."""
    for unit in units[:-1]:
        if abs(value) < base:
            return f"{value:.0f} {unit}" if unit == units[0] else f"{value:.1f} {unit}"
        value /= base
    return f"{value:.1f} {units[-1]}"
