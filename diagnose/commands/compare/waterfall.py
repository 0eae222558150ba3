"""The steps of A and B as stacks of classes on one axis and as dots on another, and the way from one to the other as
bars: one for each cause that moved, where the one before ended.
"""

from collections.abc import Mapping, Sequence

import msgspec

from diagnose.commands.compare.answer import ComparedRun, Comparison
from diagnose.commands.compare.views import Moved, moved_causes
from diagnose.diagnosis import CauseClass
from diagnose.report.views.breakdown import CLASS_NAMES, SHOWN_FROM
from diagnose.report.views.one_unit import OneUnit, of_times
from diagnose.report.views.words import counted


class WaterfallRow(msgspec.Struct, frozen=True):
    """A bar with its name and figure. `x`, `width` and the ends of `noise` are in percent of the longest step.

    Attributes:
        kind: "side" for the step of A or B, else "less" or "more".
        ns: the length of the bar, with the sign of B - A.
        noise: low and high end of the step's noise; None if it is unknown.
    """

    name: str
    class_: str
    figure: str
    kind: str
    ns: int
    x: float
    width: float
    noise: tuple[float, float] | None = None


class StackPart(msgspec.Struct, frozen=True):
    """A class's part of a step; `x` and `width` in percent of the longer step."""

    class_: CauseClass
    figure: str
    ns: int
    x: float
    width: float


class StackedStep(msgspec.Struct, frozen=True):
    """The step of A or B: its length, and its classes side by side."""

    name: str
    figure: str
    parts: list[StackPart]

    @property
    def says(self) -> str:
        """The stack in words."""
        return f"{self.name} {self.figure}: {', '.join(f'{CLASS_NAMES[p.class_]} {p.figure}' for p in self.parts)}"


def stacks(comparison: Comparison) -> list[StackedStep]:
    """Both steps; empty if the steps are not compared."""
    before_ns, after_ns = comparison.before_ns, comparison.after_ns
    if before_ns is None or after_ns is None:
        return []
    unit, longest = of_times([before_ns, after_ns]), max(before_ns, after_ns, 1)
    sides = (("A", before_ns, "before_ns"), ("B", after_ns, "after_ns"))
    return [
        StackedStep(
            name, unit.of(ns), _parts({key: _class_ns(comparison, key, of) for key in CLASS_NAMES}, unit, longest)
        )
        for name, ns, of in sides
    ]


def _class_ns(comparison: Comparison, key: CauseClass, of: str) -> int:
    return sum(getattr(row, of) for row in comparison.difference if row.class_ == key)


def _parts(by_class: Mapping[CauseClass, int], unit: OneUnit, longest: int) -> list[StackPart]:
    parts, x = [], 0.0
    for key, ns in by_class.items():
        if ns:
            parts.append(StackPart(key, unit.of(ns), ns, x, 100 * ns / longest))
            x += 100 * ns / longest
    return parts


class Dots(msgspec.Struct, frozen=True):
    """The steps of A or B as dots: the nanoseconds of each and its place, in percent of the axis that both share."""

    name: str
    figure: str
    steps: list[tuple[int, float]]
    mean: float
    says: str


class Strips(msgspec.Struct, frozen=True):
    """Both sides, and the labels at the ends of their axis."""

    sides: list[Dots]
    first: str
    last: str


def strips(comparison: Comparison) -> Strips | None:
    """The single steps of both sides; None if those of one are not known."""
    runs = [(name, run) for name, run in (("A", comparison.before), ("B", comparison.after)) if len(run.each_ns) > 1]
    if len(runs) < 2:
        return None
    low, high = (choose(ns for _, run in runs for ns in run.each_ns) for choose in (min, max))
    unit = of_times([low, high])
    return Strips([_dots(name, run, low, high, unit) for name, run in runs], unit.of(low), unit.of(high))


def _dots(name: str, run: ComparedRun, low: int, high: int, unit: OneUnit) -> Dots:
    def place(ns: float) -> float:
        return 100 * (ns - low) / max(high - low, 1)

    says = (
        f"{name}: {counted(run.steps, 'step')} from {unit.of(run.each_ns[0])} to {unit.of(run.each_ns[-1])}, "
        f"in the mean {unit.of(round(run.step_ns or 0))}"
    )
    return Dots(
        name, counted(run.steps, "step"), [(ns, place(ns)) for ns in run.each_ns], place(run.step_ns or low), says
    )


def waterfall(comparison: Comparison) -> list[WaterfallRow]:
    """The bars from A to B, which add up; empty if the steps are not compared."""
    before_ns, after_ns = comparison.before_ns, comparison.after_ns
    if before_ns is None or after_ns is None:
        return []
    moved = moved_causes(comparison, least=SHOWN_FROM)
    sides = [(before_ns, comparison.before.noise_share or 0.0), (after_ns, comparison.after.noise_share or 0.0)]
    longest = max(*_ends(before_ns, moved), *(ns * (1 + noise) for ns, noise in sides), 1)
    unit = of_times([before_ns, after_ns])
    first, last = (_side(name, *side, unit, longest) for name, side in zip("AB", sides, strict=True))
    return [first, *_steps(before_ns, moved, unit, longest), last]


def _ends(begin_ns: int, moved: Sequence[Moved]) -> list[int]:
    ends = [begin_ns]
    for row in moved:
        ends.append(ends[-1] + row.ns)
    return ends


def _side(name: str, ns: int, noise: float, unit: OneUnit, longest: float) -> WaterfallRow:
    ends = (100 * ns * (1 - noise) / longest, 100 * ns * (1 + noise) / longest) if noise else None
    return WaterfallRow(name, "", unit.cell(ns), "side", ns, 0.0, 100 * ns / longest, ends)


def _steps(begin_ns: int, moved: Sequence[Moved], unit: OneUnit, longest: float) -> list[WaterfallRow]:
    rows = []
    for start, row in zip(_ends(begin_ns, moved), moved, strict=False):
        low = min(start, start + row.ns)
        kind, class_ = "more" if row.ns > 0 else "less", CLASS_NAMES[row.class_] if row.class_ else ""
        x, width = 100 * low / longest, 100 * abs(row.ns) / longest
        rows.append(WaterfallRow(row.name, class_, unit.cell(row.ns, sign=True), kind, row.ns, x, width))
    return rows
