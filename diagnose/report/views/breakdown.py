"""The waterfall in rows: what of the step is MFU, then each class of what is lost, its parts below it."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from diagnose.diagnosis import CauseClass, Diagnosis, WaterfallPart
from diagnose.facts import duration
from diagnose.report.views.one_unit import of_times
from diagnose.report.views.words import Named, cause_name

SHOWN_FROM = 0.01  # a cause, or the small ones of a class together, below one percent of the step gets no row
CAUSES_SHOWN = 4  # of one class; the rest share a row
WHOLE = ("window", "unlinked steps")  # sources of steps that are one: the whole capture
INVISIBLE = 0.0005  # prints as 0.0 %
CLASS_NAMES: dict[CauseClass, str] = {
    "data": "data",
    "host": "host",
    "communication": "communication",
    "memory": "memory-bound work",
    "compute": "compute-bound work",
    "unexplained": "unexplained",
}
_MODEL_FLOPS = "model-flops"
_BEYOND_MFU = "compute-bound work beyond MFU"


class Basis(msgspec.Struct, frozen=True):
    """The denominator of every share of the breakdown: `total_ns` over `count` steps, or as many times their
    `median`. With `every` it is the mean over so many steps, of which the longest one is not among the counted.
    """

    name: str
    total_ns: int
    count: int
    median: bool = False
    every: int = 0

    @property
    def step_ns(self) -> float:
        """Mean time of one step."""
        return self.total_ns / max(self.count, 1)

    @property
    def average(self) -> str:
        """The kind of average that one step is; "" for a single step."""
        if self.every:
            return f"mean over {self.every:,} steps, one of them long"
        return "median" if self.median else f"mean of {self.count:,}" if self.count > 1 else ""

    def per_step(self, ns: int) -> str:
        """`ns` per step, in one unit for the whole breakdown so that the column can be compared by eye."""
        return of_times([self.step_ns]).of(ns / max(self.count, 1))


def basis(diagnosis: Diagnosis) -> Basis:
    """The device step, or the host step without GPU activity; without the profiler if that distorts it."""
    steps = diagnosis.steps
    distorts = steps.distortion is not None
    every = diagnosis.period.every_steps if diagnosis.period is not None else 0
    which = " without the profiler" if distorts or every else ""
    if steps.device_time_ns is None:
        return Basis(f"host step{which}", steps.time_ns, steps.count, distorts, every)
    return Basis(f"device step{which}", steps.device_time_ns, steps.count, distorts, every)


class BreakdownRow(msgspec.Struct, frozen=True):
    """One line of the breakdown: a class, or with `class_` None one of its parts."""

    name: str
    ns: int
    share: float
    class_: CauseClass | None = None


def rows(parts: Sequence[WaterfallPart], details: bool = False, named: Named = cause_name) -> list[BreakdownRow]:
    """Rows of the breakdown: the model's FLOPs at the peak if MFU is known, then the classes and their parts by size.

    With `details`, every class and part that took time has a row. Without it, the small parts of a class share one row.
    What would print as 0.0 % has none.
    """
    by_class: dict[str, list[WaterfallPart]] = defaultdict(list)
    for part in parts:
        by_class[part.class_ if part.part != _MODEL_FLOPS else _MODEL_FLOPS].append(part)
    top = [BreakdownRow(named(p.part), p.ns, p.points / 100, "compute") for p in by_class.pop(_MODEL_FLOPS, [])]
    names = CLASS_NAMES | ({"compute": _BEYOND_MFU} if top else {})
    groups = [_class_rows(BreakdownRow(names[key], 0, 0.0, key), by_class[key], details, named) for key in names]
    ordered = [row for group in sorted(groups, key=lambda group: -group[0].ns) for row in group]
    return [row for row in top + ordered if row.share >= INVISIBLE]


def outside_line(diagnosis: Diagnosis) -> str:
    """A line on the start of a capture without step marks, which is outside the step; "" if there is none."""
    steps, of = diagnosis.steps, basis(diagnosis)
    if steps.source not in WHOLE or steps.uncounted_ns < SHOWN_FROM * of.total_ns:
        return ""
    before = duration(steps.uncounted_ns / max(steps.count, 1))
    return f"outside the step: start of the capture, {before} before the first GPU activity"


def _class_rows(of: BreakdownRow, parts: Sequence[WaterfallPart], details: bool, named: Named) -> list[BreakdownRow]:
    """The class `of`, then its parts; a single part shares the class's line."""
    ns, share = sum(p.ns for p in parts), sum(p.points for p in parts) / 100
    ordered = sorted((p for p in parts if p.ns), key=lambda part: -part.ns)
    if len(ordered) == 1:
        return [BreakdownRow(f"{of.name}: {named(ordered[0].part)}", ns, share, of.class_)]
    head = BreakdownRow(of.name, ns, share, of.class_)
    large = ordered if details else [p for p in ordered if p.points >= 100 * SHOWN_FROM][:CAUSES_SHOWN]
    shown = [BreakdownRow("  " + named(p.part), p.ns, p.points / 100) for p in large]
    small = ordered[len(large) :]
    if shown and sum(p.points for p in small) >= 100 * SHOWN_FROM:
        shown.append(
            BreakdownRow(f"  {len(small)} smaller", sum(p.ns for p in small), sum(p.points for p in small) / 100)
        )
    return [head, *shown]
