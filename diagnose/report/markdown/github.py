"""GitHub-flavoured Markdown in which no name can mean anything: text, code, tables, fences, all cut to a size."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from diagnose.report.views.plain import plain

MOST_TOKENS = 4_000
MORE = "all of it: `diagnose analyze PATH --json`"
_LINKED = re.compile(r"\S*(?:://|@)\S*|\bwww\.\S*|\S*#\d\S*|\bGH-\d+", re.IGNORECASE)
_SPECIAL = re.compile(r"[\\`*\[\]<>~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_OPENS_BLOCK = re.compile(r"^(?:[-+=#]|\d+(?=[.)](?:\s|$)))")
_PIECE = re.compile(r" ?[A-Za-z]{1,6}|\d{1,3}|\s+|.")


class Inline(str):
    """Markdown already: everything else is escaped."""

    __slots__ = ()


def tokens(text: str) -> int:
    """An upper estimate of what a language model counts: six letters, three digits or one mark make a token."""
    return sum(1 if piece.isascii() else len(piece.encode()) for piece in _PIECE.findall(text))


@dataclass(frozen=True)
class Writer:
    """Writes blocks with at most `rows` rows, `prose` bytes of a sentence and `name` bytes of a name."""

    rows: int
    prose: int
    name: int

    def text(self, value: object) -> Inline:
        """A sentence on one line; what GitHub would make a link or a mention is code."""
        sentence = _cut(plain(value), self.prose)
        parts: list[str] = []
        end = 0
        for linked in _LINKED.finditer(sentence):
            parts += [_escaped(sentence[end : linked.start()]), _span(linked[0])]
            end = linked.end()
        whole = "".join([*parts, _escaped(sentence[end:])])
        return Inline(_OPENS_BLOCK.sub(_behind_backslash, whole))

    def code(self, value: object) -> Inline:
        """A name as code; "" stays empty."""
        name = _cut(plain(value), self.name)
        return Inline(_span(name) if name else "")

    def items(self, values: Sequence[str]) -> str:
        """A list with an item for each value that is not empty."""
        shown = [self._inline(value) for value in values if value]
        return "\n".join([*(f"- {value}" for value in shown[: self.rows]), *_more(len(shown) - self.rows, "- ")])

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """A table of the first rows, numbers right of their column; "" without rows."""
        if not rows:
            return ""
        cells = [[self._inline(cell).replace("|", "\\|") for cell in row] for row in rows[: self.rows]]
        marks = ["---:" if _are_numbers(column) else "---" for column in zip(*cells, strict=True)]
        lines = [f"| {' | '.join(line)} |" for line in (heads, marks, *cells)]
        return "\n".join([*lines, *_more(len(rows) - self.rows, "\n")])

    def fence(self, lines: Sequence[str], language: str) -> str:
        """Lines to copy, inside a fence that none of them ends; "" without lines."""
        kept = lines if len(lines) <= self.rows else [*lines[: self.rows], f"# +{len(lines) - self.rows} more: --json"]
        shown = [line if len(line.encode()) <= 2 * self.prose else "# too long to show here: --json" for line in kept]
        longest = max((len(run) for line in shown for run in re.findall(r"`+", line)), default=0)
        fence = "`" * max(longest + 1, 3)
        return "\n".join([f"{fence}{language}", *shown, fence]) if shown else ""

    def _inline(self, value: str) -> str:
        return value if isinstance(value, Inline) else self.text(value)


_WRITERS = tuple(
    Writer(rows=rows, prose=prose, name=name)
    for rows, prose, name in ((14, 400, 90), (10, 260, 70), (7, 180, 60), (5, 120, 48), (3, 90, 36), (2, 60, 24))
)
_SMALLEST = Writer(rows=1, prose=40, name=16)


def shortened(most: int, written: Callable[[Writer], str], longest: Writer | None = None) -> str:
    """The text written with the most room that stays within that many tokens; `longest` is tried first."""
    for writer in (*filter(None, (longest,)), *_WRITERS):
        text = written(writer)
        if tokens(text) <= most:
            return text
    return written(_SMALLEST)


def bold(value: Inline) -> Inline:
    """The text with weight; "" stays empty."""
    return Inline(f"**{value}**" if value else "")


def spaced(values: Iterable[str]) -> Inline:
    """Join the values that are not empty, with middle dots between them."""
    return Inline(" · ".join(value for value in values if value))


def _cut(text: str, most: int) -> str:
    """Cut the text to at most that many bytes: a letter beyond ASCII costs a language model as much as several."""
    raw = text.encode()
    return text if len(raw) <= most else f"{raw[: most - 3].decode(errors='ignore').rstrip()}…"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(_behind_backslash, text)


def _behind_backslash(character: re.Match[str]) -> str:
    return f"{character[0]}\\" if character[0].isdigit() else f"\\{character[0]}"


def _span(name: str) -> str:
    """A code span that no backtick in the name ends, nor, in a table, a bar: behind a backslash none can be escaped."""
    name = name.replace("\\|", "\\¦")
    longest = max((len(run) for run in re.findall(r"`+", name)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if name[0] == "`" or name[-1] == "`" else ""
    return f"{ticks}{pad}{name}{pad}{ticks}"


def _are_numbers(cells: Sequence[str]) -> bool:
    known = [cell.strip("*") for cell in cells if cell]
    return bool(known) and all(re.match(r"\\?[+\d.,-]+(?:$|x| (?:\S{1,7}|\S+/\S+)$)", cell) for cell in known)


def _more(hidden: int, before: str) -> list[str]:
    return [f"{before}+{hidden} more; {MORE}"] if hidden > 0 else []
