"""The roofline as a drawing on two logarithmic axes: what each family reaches, under what the device allows; and beside
it the bandwidth of the families whose FLOPs nobody counts, which have no place on these axes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from diagnose.diagnosis import Diagnosis, Peak, RooflineEntry, Roofs
from diagnose.facts import duration, spoken
from diagnose.report.views.breakdown import basis
from diagnose.report.views.plain import plain
from diagnose.report.views.words import cause_name

LEFT, RIGHT, TOP, BOTTOM = 84, 744, 44, 372  # of the frame, in a drawing of 780 by 432
BARS_LEFT, BARS_RIGHT, BARS_TOP, BARS_BOTTOM = 14, 240, 38, 250  # in a drawing of 300 by 280
SMALLEST, LARGEST = 8.0, 22.0  # radius of a point, growing with the root of its time
LETTER, LINE = 14, 26  # width and height of a letter where it is largest in the drawing, on a phone
HUGE = 10_000  # beyond every drawing
VISIBLE = 0.005  # of the step: a family below it gets no bar
OPERATORS_DRAWN = 40
_ARROW = 10  # from the edge of the frame to the point that stands for one beyond it


@dataclass(frozen=True)
class Point:
    """A family or an operator at its intensity and speed, in the drawing's units; its number is at `label`.

    One below the decades that are drawn stands inside the frame; `arrows` lead to the edges beyond which it is.
    """

    number: str
    x: float
    y: float
    r: float
    bound: str
    tip: str
    name: str
    ms: float
    label: tuple[float, float]
    arrows: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReachBar:
    """A family of which only bytes are known: the share of the memory bandwidth that it reaches, as a bar."""

    number: str
    x: float
    y: float
    width: float
    height: float
    bound: str
    tip: str
    name: str
    ms: float


@dataclass(frozen=True)
class Tick:
    """A line of the grid with its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Roof:
    """An upper bound in the chart: a line from (x1, y1) to (x2, y2) with its name at (x, y)."""

    x1: float
    y1: float
    x2: float
    y2: float
    x: float
    y: float
    label: str
    slanted: bool


@dataclass(frozen=True)
class Chart:
    """The drawing, `operators` below `points`, and `bars` beside it; `frame` is left, right, top, bottom."""

    frame: tuple[int, int, int, int]
    xs: list[Tick]
    ys: list[Tick]
    roofs: list[Roof]
    points: list[Point]
    operators: list[Point]
    bars: list[ReachBar]
    reach: list[Tick]


@dataclass(frozen=True)
class Figures:
    """One row of the table; `number` is that of its point, "" when it has none.

    `reached` is the larger of the shares of the peak and of the memory bandwidth, and `roof` which of them it is.
    """

    number: str
    name: str
    ns: str
    above: str
    tflops: str
    gbs: str
    intensity: str
    bound: str
    note: str
    reached: float | None = None
    roof: str = ""


@dataclass(frozen=True)
class RooflineView:
    """The roofline as drawn: if `chart` is None, `missing` is the reason; `rates` is whether any rate is known.

    `left_out` names the families that take time but whose bytes are unknown, too.
    """

    chart: Chart | None
    missing: str
    left_out: str
    rates: bool
    families: list[Figures]
    operators: list[Figures]


def roofline_view(diagnosis: Diagnosis) -> RooflineView | None:
    """The drawing with its tables; None when no kernel ran."""
    entries = diagnosis.roofline
    if not entries:
        return None
    least_ns = VISIBLE * basis(diagnosis).step_ns
    drawn = [entry for entry in entries if _drawable(entry) or (_has_bar(entry, diagnosis.roofs, least_ns))]
    numbers = {id(entry): str(i) for i, entry in enumerate(drawn, 1)}
    missing = _missing(diagnosis, drawn)
    unknown = [family_name(e) for e in entries if e.bytes is None and e.ns >= least_ns]
    return RooflineView(
        chart=None if missing else _chart(diagnosis, drawn),
        missing=missing,
        left_out="" if missing else ", ".join(unknown),
        rates=any(entry.bytes is not None for entry in entries),
        families=[
            replace(
                _figures(e, "" if missing else numbers.get(id(e), ""), family_name(e)), **_reached(e, diagnosis.roofs)
            )
            for e in entries
        ],
        operators=[_figures(e, "", f"{e.family} {e.precision}") for e in diagnosis.operators],
    )


def _reached(entry: RooflineEntry, roofs: Roofs | None) -> dict[str, Any]:
    """The share of its nearer roof that the family reaches; empty if its rates or the roofs are unknown."""
    peaks = {peak.precision: peak.flops_per_s for peak in roofs.peaks} if roofs is not None else {}
    bandwidth = roofs.hbm_bytes_per_s if roofs is not None else None
    peak = peaks.get(entry.precision)
    shares = {
        "the peak": 1e12 * entry.tflops / peak if entry.tflops is not None and peak else None,
        "memory": 1e9 * entry.gbs / bandwidth if entry.gbs is not None and bandwidth else None,
    }
    known = {roof: share for roof, share in shares.items() if share is not None}
    roof = max(known, key=lambda name: known[name], default="")
    return {"reached": known[roof], "roof": roof} if roof else {}


def family_name(entry: RooflineEntry) -> str:
    """Family, precision and direction."""
    return plain(" ".join(filter(None, (cause_name(entry.family), entry.precision, entry.direction))))


def _drawable(entry: RooflineEntry) -> bool:
    return bool(entry.intensity and entry.tflops)


def _has_bar(entry: RooflineEntry, roofs: Roofs | None, least_ns: float) -> bool:
    known = entry.gbs is not None and roofs is not None and bool(roofs.hbm_bytes_per_s)
    return known and not _drawable(entry) and entry.ns >= least_ns


def _missing(diagnosis: Diagnosis, drawn: Sequence[RooflineEntry]) -> str:
    roofs = diagnosis.roofs
    if not drawn:
        return "of no family of kernels are FLOPs or bytes counted: operators carry no shapes"
    if roofs is None or not roofs.peaks or not roofs.hbm_bytes_per_s:
        why = f": {roofs.hbm_source}" if roofs and not roofs.hbm_bytes_per_s else ""
        return f"the roofs of the device are unknown{why}"
    return ""


class _Scale:
    """Intensity and TFLOP/s to the drawing's units."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.x0, self.x1 = _decades(xs)
        self.y0, self.y1 = _decades(ys)

    def is_left_out(self, intensity: float, tflops: float) -> tuple[bool, bool]:
        """Whether a place is beyond the left and beyond the lower edge; there is none beyond the others."""
        return math.log10(intensity) < self.x0, math.log10(tflops) < self.y0

    def x(self, value: float) -> float:
        share = (math.log10(value) - self.x0) / (self.x1 - self.x0)
        return round(LEFT + min(max(share, 0.0), 1.0) * (RIGHT - LEFT), 1)

    def y(self, value: float) -> float:
        share = (math.log10(value) - self.y0) / (self.y1 - self.y0)
        return round(BOTTOM - min(max(share, 0.0), 1.0) * (BOTTOM - TOP), 1)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Whole decades that hold the values, six at most, the upper ones first."""
    high = math.ceil(math.log10(max(values)))
    low = math.floor(math.log10(min(values)))
    return max(min(low, high - 1), high - 6), high


def _chart(diagnosis: Diagnosis, drawn: Sequence[RooflineEntry]) -> Chart:
    assert diagnosis.roofs is not None
    bandwidth = (diagnosis.roofs.hbm_bytes_per_s or 0.0) / 1e12  # TB/s: TFLOP/s at one FLOP per byte
    numbered = [(str(i), entry) for i, entry in enumerate(drawn, 1)]
    points = [(number, entry) for number, entry in numbered if _drawable(entry)]
    peaks = _peaks(diagnosis, [entry for _, entry in points])
    operators = [entry for entry in diagnosis.operators if _drawable(entry)][:OPERATORS_DRAWN]
    every = [*(entry for _, entry in points), *operators]
    highest = peaks[0].flops_per_s / 1e12
    scale = _Scale(
        [*(e.intensity or 1.0 for e in every), highest / bandwidth / 10, highest / bandwidth * 2],
        [*(e.tflops or 1.0 for e in every), highest],
    )
    most = max(entry.ns for entry in drawn)
    roofs = [_slope(scale, bandwidth, highest), *_flats(scale, bandwidth, peaks)]
    return Chart(
        frame=(LEFT, RIGHT, TOP, BOTTOM),
        xs=[Tick(scale.x(10.0**d), _power(d)) for d in range(scale.x0, scale.x1 + 1)],
        ys=[Tick(scale.y(10.0**d), _power(d)) for d in range(scale.y0, scale.y1 + 1)],
        roofs=roofs,
        points=_labelled([_point(scale, e, number, family_name(e), most) for number, e in points], roofs),
        operators=[_point(scale, e, "", f"{e.family} {e.precision}", 0) for e in operators],
        bars=_bars([(number, e) for number, e in numbered if not _drawable(e)], 1e3 * bandwidth),
        reach=[Tick(_reach_y(share), f"{share:.0%}".replace("%", " %")) for share in (0, 0.5, 1)],
    )


def _reach_y(share: float) -> float:
    return round(BARS_BOTTOM - min(share, 1.0) * (BARS_BOTTOM - BARS_TOP), 1)


def _bars(entries: Sequence[tuple[str, RooflineEntry]], roof_gbs: float) -> list[ReachBar]:
    slot = (BARS_RIGHT - BARS_LEFT) / max(len(entries), 4)
    bars = []
    for i, (number, e) in enumerate(entries):
        top, x = _reach_y((e.gbs or 0.0) / roof_gbs), BARS_LEFT + (i + 0.15) * slot
        tip, name = _bytes_only(e, roof_gbs), family_name(e)
        bars.append(ReachBar(number, x, top, 0.7 * slot, BARS_BOTTOM - top, e.bound, tip, name, e.ns / 1e6))
    return bars


def _bytes_only(entry: RooflineEntry, roof_gbs: float) -> str:
    reached = spoken((entry.gbs or 0.0) / roof_gbs, "share")
    figures = _figures(entry, "", family_name(entry))
    return (
        f"{figures.name}: {figures.gbs} GB/s, {reached} of the memory bandwidth, {figures.ns} per step; its FLOPs are "
        f"not counted; bound: {entry.bound}"
    )


Box = tuple[float, float, float, float]


def _labelled(points: list[Point], roofs: Sequence[Roof]) -> list[Point]:
    """The points, each number in its point or beside it: at the first place where it covers least of other points,
    numbers, names of roofs, and of what is outside the frame.
    """
    outside = [(-HUGE, BOTTOM, HUGE, HUGE), (-HUGE, -HUGE, HUGE, 0), (-HUGE, 0, LEFT, HUGE), (RIGHT, 0, HUGE, HUGE)]
    taken, placed = [*outside, *map(_box_of_name, roofs)], []
    circles = [(p.x - 0.7 * p.r, p.y - 0.7 * p.r, p.x + 0.7 * p.r, p.y + 0.7 * p.r) for p in points]
    for i, point in enumerate(points):
        others = [*taken, *circles[:i], *circles[i + 1 :]]
        away = [(0.0, 0.0), *(_away(point.r, times, turn) for times in (1, 2, 3) for turn in range(8))]
        places = [(round(point.x + dx, 1), round(point.y + dy, 1)) for dx, dy in away]
        boxes = [_box(*place, len(point.number)) for place in places]
        covered = [sum(_covered(box, other) for other in others) for box in boxes]
        at = covered.index(min(covered))
        taken.append(boxes[at])
        placed.append(replace(point, label=places[at]))
    return placed


def _away(radius: float, times: int, turn: int) -> tuple[float, float]:
    """A place beside a point of the radius, so many times as far as the nearest one, an eighth of a turn apart."""
    far = radius + (times - 0.3) * LINE / 2
    return far * math.cos(turn * math.pi / 4), far * math.sin(turn * math.pi / 4)


def _box(x: float, y: float, letters: int) -> Box:
    return x - letters * LETTER / 2, y - LINE / 2, x + letters * LETTER / 2, y + LINE / 2


def _box_of_name(roof: Roof) -> Box:
    wide = 1.15 * LETTER * len(roof.label)  # bold
    left = roof.x if roof.slanted else roof.x - wide
    return left, roof.y - LINE, left + wide, roof.y + 0.2 * LINE


def _covered(one: Box, other: Box) -> float:
    """The area that both boxes cover."""
    wide, high = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0.0) * max(high, 0.0)


def _peaks(diagnosis: Diagnosis, drawn: Sequence[RooflineEntry]) -> list[Peak]:
    """The peaks of the precisions that ran, highest first; of all if none of those is known."""
    assert diagnosis.roofs is not None
    ran = {entry.precision for entry in drawn}
    known = sorted(diagnosis.roofs.peaks, key=lambda peak: -peak.flops_per_s)
    return [peak for peak in known if peak.precision in ran] or known


def _slope(scale: _Scale, bandwidth: float, highest: float) -> Roof:
    ridge = highest / bandwidth
    first = max(10.0**scale.x0, 10.0**scale.y0 / bandwidth)
    middle = math.sqrt(first * ridge)
    x, y = scale.x(middle), scale.y(middle * bandwidth)
    label = f"memory {bandwidth * 1e3:,.0f} GB/s"
    return Roof(
        scale.x(first), scale.y(first * bandwidth), scale.x(ridge), scale.y(highest), x + 12, y + 18, label, True
    )


def _flats(scale: _Scale, bandwidth: float, peaks: Sequence[Peak]) -> list[Roof]:
    """Peaks of one height share a line."""
    by_height: dict[float, list[str]] = {}
    for peak in peaks:
        by_height.setdefault(peak.flops_per_s / 1e12, []).append(peak.precision)
    return [
        Roof(
            scale.x(height / bandwidth), scale.y(height), RIGHT, scale.y(height),
            RIGHT, scale.y(height) - 6, f"{', '.join(names)} {_tflops(height)} TFLOP/s", False,
        )
        for height, names in by_height.items()
    ]  # fmt: skip


def _point(scale: _Scale, entry: RooflineEntry, number: str, name: str, most: int) -> Point:
    radius = SMALLEST + (LARGEST - SMALLEST) * math.sqrt(entry.ns / most) if most else 4.0
    figures = _figures(entry, number, name)
    above = f", {figures.above} above its roof" if figures.above else ""
    tip = (
        f"{plain(name)}: {figures.tflops} TFLOP/s at {figures.intensity} FLOP per byte, {figures.ns} per step{above}; "
        f"bound: {entry.bound}"
    )
    place = entry.intensity or 1.0, entry.tflops or 1.0
    left, below = scale.is_left_out(*place)
    tip += "; beyond the edge of the drawing" if left or below else ""
    x = scale.x(place[0]) + left * (radius + _ARROW)
    y = scale.y(place[1]) - below * (radius + _ARROW)
    arrows = [f"M{LEFT} {y:.1f}l{_ARROW} -6v12z"] * left + [f"M{x:.1f} {BOTTOM}l-6 -{_ARROW}h12z"] * below
    x, y, r = round(x, 1), round(y, 1), round(radius, 1)
    return Point(number, x, y, r, entry.bound, tip, plain(name), entry.ns / 1e6, (x, y), tuple(arrows))


def _figures(entry: RooflineEntry, number: str, name: str) -> Figures:
    return Figures(
        number=number,
        name=plain(name),
        ns=duration(entry.ns),
        above="" if entry.above_roof_ns is None else duration(entry.above_roof_ns),
        tflops="" if entry.tflops is None else _tflops(entry.tflops),
        gbs="" if entry.gbs is None else f"{entry.gbs:,.{0 if entry.gbs >= 10 else 1}f}",
        intensity="" if not entry.flops or entry.intensity is None else f"{entry.intensity:,.1f}",
        bound=entry.bound,
        note=entry.note,
    )


def _tflops(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 1 else f"{value:,.3f}"


def _power(decade: int) -> str:
    return f"{10**decade:,}" if decade >= 0 else f"{10.0**decade:.{-decade}f}"
