"""Wall time against the size of the text on logarithmic axes, as SVG: a panel for a source, a line for a reader."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from .compared import Measured
from .readers import Kind
from .tables import best
from .timed import Outcome, Untimed

WIDTH, HEIGHT, COLUMNS = 500, 400, 2  # of a panel, and panels beside each other
LEFT, RIGHT, TOP, BOTTOM = 56, 452, 44, 350  # its frame; between RIGHT and WIDTH stand the numbers of lines
HEAD, LEGEND_ROW, LEGEND_COLUMNS = 36, 20, 3
LABEL_APART, TICK_APART = 13.0, 46.0
INK, SOFT, GRID = "#16191f", "#545b68", "#dfe3ea"
COLOURS: Mapping[Kind, tuple[str, ...]] = {
    "ours": ("#0b57a4", "#009e73", "#56b4e9", "#6a3d9a", "#16191f", "#3f83c9", "#2e7d32", "#8da0cb"),
    "floor": ("#8a8f99", "#545b68", "#a5885a"),
    "other": ("#d55e00", "#cc79a7", "#e69f00", "#a8281e", "#7d5200"),
}
DASHES: Mapping[Kind, str] = {"ours": "", "floor": "2 3", "other": "7 3"}


@dataclass(frozen=True)
class Line:
    """A reader's seconds by bytes of text; where `beyond` it took longer than that and was ended."""

    name: str
    points: tuple[tuple[int, float], ...]
    beyond: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Panel:
    """The lines of one source."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value lies on it."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 1)


def panels(measured: Sequence[Measured]) -> list[Panel]:
    """The best round of each reader, by source."""
    return [
        Panel(source.name, tuple(_lines(list(texts)))) for source, texts in groupby(measured, lambda each: each.source)
    ]


def _lines(texts: Sequence[Measured]) -> Iterator[Line]:
    for name in dict.fromkeys(name for text in texts for name in text.runs):
        of = [(text.text_bytes, text.runs.get(name, ())) for text in texts]
        points = [(size, seconds) for size, outcomes in of if (seconds := best(outcomes)) is not None]
        beyond = [(size, limit) for size, outcomes in of if (limit := _limit(outcomes)) is not None]
        if points or beyond:
            yield Line(name, tuple(points), tuple(beyond))


def _limit(outcomes: Sequence[Outcome]) -> float | None:
    return next((each.at_least_s for each in outcomes if isinstance(each, Untimed) and each.at_least_s), None)


def drawn(of: Sequence[Panel], kinds: Mapping[str, Kind]) -> str:
    """The drawing as SVG text, empty without any point.

    Args:
        of: the panels; their axes are the same.
        kinds: of each reader, in the order of the legend.
    """
    points = [point for panel in of for line in panel.lines for point in (*line.points, *line.beyond)]
    if not points:
        return ""
    sizes, seconds = zip(*points, strict=True)
    xs = Scale(min(sizes) / 1.25, max(sizes) * 1.25, LEFT, RIGHT)
    ys = Scale(min(seconds) / 1.4, max(seconds) * 1.4, BOTTOM, TOP)
    named = {line.name for panel in of for line in panel.lines}
    styles = _styles({name: kind for name, kind in kinds.items() if name in named})
    columns = min(COLUMNS, len(of))
    width, rows = max(columns * WIDTH, 2 * WIDTH), -(-len(of) // columns)
    legend_at = HEAD + rows * HEIGHT + 8
    title = "Wall seconds by size of the text"
    title += "; triangles: ended there" if any(line.beyond for panel in of for line in panel.lines) else ""
    parts = [f'<text x="16" y="24" font-size="15" font-weight="600" fill="{INK}">{title}</text>']
    for number, panel in enumerate(of):
        x, y = number % columns * WIDTH, HEAD + number // columns * HEIGHT
        parts.append(f'<g transform="translate({x} {y})">' + "".join(_panel(panel, xs, ys, styles)) + "</g>")
    parts += _legend(styles, legend_at, width)
    height = legend_at + LEGEND_ROW * -(-len(styles) // LEGEND_COLUMNS) + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="Wall time against size of text">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


@dataclass(frozen=True)
class Style:
    """How a reader's line looks, and its number in the legend."""

    number: int
    colour: str
    dash: str


def _styles(kinds: Mapping[str, Kind]) -> dict[str, Style]:
    styles: dict[str, Style] = {}
    met: dict[Kind, int] = {}
    for number, (name, kind) in enumerate(kinds.items(), 1):
        of_kind = COLOURS[kind]
        styles[name] = Style(number, of_kind[met.get(kind, 0) % len(of_kind)], DASHES[kind])
        met[kind] = met.get(kind, 0) + 1
    return styles


def _panel(panel: Panel, xs: Scale, ys: Scale, styles: Mapping[str, Style]) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="{TOP - 12}" font-weight="600" fill="{INK}">{escape(panel.title)}</text>'
    yield from _grid(sorted({size for line in panel.lines for size, _ in (*line.points, *line.beyond)}), xs, ys)
    ends: dict[float, list[tuple[float, Style]]] = {}
    for line in panel.lines:
        style = styles[line.name]
        yield from _line(line, style, xs, ys)
        size, seconds = max((*line.points, *line.beyond))
        ends.setdefault(xs.at(size), []).append((ys.at(seconds), style))
    for x, of in ends.items():
        yield from _numbers(x, of)


def _numbers(x: float, ends: Sequence[tuple[float, Style]]) -> Iterator[str]:
    """The number of each line beside its end at x."""
    for (y, style), to in zip(ends, apart([y for y, _ in ends], LABEL_APART), strict=True):
        yield f'<path d="M{x + 5} {y}L{x + 14} {to}" stroke="{style.colour}" stroke-width="0.7" fill="none"/>'
        yield f'<text x="{x + 17}" y="{to + 4:.1f}" font-size="11" fill="{style.colour}">{style.number}</text>'


def _grid(sizes: Sequence[int], xs: Scale, ys: Scale) -> Iterator[str]:
    for value in _decades(ys):
        y = ys.at(value)
        yield f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}" stroke="{GRID}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="{SOFT}">{value:g} s</text>'
    before = -math.inf
    for size in sizes:
        x = xs.at(size)
        yield f'<line x1="{x}" x2="{x}" y1="{TOP}" y2="{BOTTOM}" stroke="{GRID}"/>'
        if x - before >= TICK_APART:
            before = x
            yield f'<text x="{x}" y="{BOTTOM + 18}" text-anchor="middle" fill="{SOFT}">{size / 1e6:,.0f} MB</text>'


def _decades(scale: Scale) -> Iterator[float]:
    """Powers of ten, with their doubles and fives where few fit."""
    first, last = math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high))
    for exponent in range(first, last + 1):
        for digit in (1, 2, 5) if last - first <= 4 else (1,):
            value = digit * 10.0**exponent
            if scale.low <= value <= scale.high:
                yield value


def _line(line: Line, style: Style, xs: Scale, ys: Scale) -> Iterator[str]:
    """Its points joined, and an arrow up where it went on."""
    at = [(xs.at(size), ys.at(seconds)) for size, seconds in line.points]
    path = "M" + "L".join(f"{x} {y}" for x, y in at) if at else ""
    yield (
        f'<path d="{path}" fill="none" stroke="{style.colour}" stroke-width="1.6" stroke-dasharray="{style.dash}"/>'
        if len(at) > 1
        else ""
    )
    for x, y in at:
        yield f'<circle cx="{x}" cy="{y}" r="3" fill="{style.colour}"><title>{escape(line.name)}</title></circle>'
    for size, seconds in line.beyond:
        x, y = xs.at(size), ys.at(seconds)
        yield f'<path d="M{x - 4} {y + 4}L{x} {y - 4}L{x + 4} {y + 4}Z" fill="#ffffff" stroke="{style.colour}"/>'


def apart(wished: Sequence[float], by: float) -> list[float]:
    """Places at least `by` from each other, near the wished ones and in their order."""
    order = sorted(range(len(wished)), key=lambda at: wished[at])
    groups: list[list[int]] = []
    for at in order:
        groups.append([at])
        while len(groups) > 1 and _middle(groups[-1], wished) - _middle(groups[-2], wished) < by * (
            (len(groups[-1]) + len(groups[-2])) / 2
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    places = [0.0] * len(wished)
    for group in groups:
        for number, at in enumerate(group):
            places[at] = round(_middle(group, wished) + by * (number - (len(group) - 1) / 2), 1)
    return places


def _middle(group: Sequence[int], wished: Sequence[float]) -> float:
    return sum(wished[at] for at in group) / len(group)


def _legend(styles: Mapping[str, Style], top: int, width: int) -> Iterator[str]:
    for place, (name, style) in enumerate(styles.items()):
        x = 16 + place % LEGEND_COLUMNS * (width - 16) // LEGEND_COLUMNS
        y = top + place // LEGEND_COLUMNS * LEGEND_ROW
        yield (
            f'<line x1="{x}" x2="{x + 28}" y1="{y}" y2="{y}" stroke="{style.colour}" stroke-width="1.6" '
            f'stroke-dasharray="{style.dash}"/><circle cx="{x + 14}" cy="{y}" r="3" fill="{style.colour}"/>'
            f'<text x="{x + 36}" y="{y + 4}" fill="{INK}">{style.number}  {escape(name)}</text>'
        )
