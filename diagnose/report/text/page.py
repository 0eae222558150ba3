"""A page of labelled lines that fits the console: wrapping, columns and bars."""

import re
from collections.abc import Sequence
from math import ceil

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

LABEL = 12  # cells of the label column of most commands
WIDEST = 120  # prose beyond this is hard to read
NARROWEST = 40
USUAL = 80
_UNBROKEN = re.compile(
    r"(?<=\d) (?=%|(?:[num]?s|[KMGT]iB|[kMGTP]?FLOP)\b)|(?<=diagnose) (?=explain )|(?<=diagnose explain) (?=\S)"
)
_HELD = "\ue000"  # one cell wide, and never in printable text


class Extent(msgspec.Struct, frozen=True):
    """How much of a section to print: everything with `details`, and the `kernels` longest kernels."""

    details: bool = False
    kernels: int = 0


def joined(parts: Sequence[Text | str], gap: str = "   ") -> Text:
    """The parts that are not empty, with `gap` between them."""
    return Text(gap).join(part if isinstance(part, Text) else Text(part) for part in parts if part)


class Page:
    """Prints lines of at most the console's width; never interprets markup."""

    def __init__(self, console: Console, label: int = LABEL) -> None:
        self.console, self.label, self.printed = console, label, 0
        self.width = max(min(console.width, WIDEST), NARROWEST)
        self.ascii_only = console.options.ascii_only

    def line(self, text: Text) -> None:
        """Print one line that already fits."""
        text.rstrip()
        self.printed += 1
        self.console.print(text, no_wrap=True, overflow="ignore", crop=False, highlight=False)

    def gap(self) -> None:
        """An empty line."""
        self.printed += 1
        self.console.print()

    def paragraph(self, text: Text | str, label: str = "", most: int = 0) -> None:
        """Print `text`, wrapped right of the label column and cut after `most` lines; 0 cuts nothing.

        Lines are those of a page of the usual width: a narrower one gets as many more as hold the same words.
        """
        width = self.width - self.label
        for i, part in enumerate(self.wrapped(text, width, ceil(most * max((USUAL - self.label) / width, 1.0)))):
            head = label.ljust(self.label) if i == 0 else " " * self.label
            self.line(Text.assemble((head, "bold"), part))

    def entries(self, label: str, texts: Sequence[Text], hidden: int = 0, most: int = 0) -> None:
        """Print paragraphs under one label, then the number of hidden ones, on the last line if it fits."""
        more = Text(f"+{hidden} more: --details", "dim") if hidden else Text()
        listed = list(texts)
        if hidden and (not listed or joined([listed[-1], more]).cell_len > self.width - self.label):
            listed.append(more)
        elif hidden:
            listed[-1] = joined([listed[-1], more])
        for i, text in enumerate(listed):
            self.paragraph(text, label="" if i else label, most=most)

    def field(self, name: str, text: Text | str) -> None:
        """Print a named part of a section, its name in a column of its own."""
        column = 10
        for i, part in enumerate(self.wrapped(text, self.width - self.label - column)):
            head = (name if i == 0 else "").ljust(column)
            self.line(Text.assemble(" " * self.label, (head, "dim"), part))

    def wrapped(self, text: Text | str, width: int, most: int = 0) -> list[Text]:
        """`text` in lines of at most `width` cells; what is cut after `most` lines ends with dots."""
        body = Text(text) if isinstance(text, str) else text.copy()
        body.plain = _UNBROKEN.sub(_HELD, body.plain)
        lines = list(body.wrap(self.console, width))
        for line in lines:
            line.plain = line.plain.replace(_HELD, " ")
        if not most or len(lines) <= most:
            return lines
        dots = "..." if self.ascii_only else "…"
        last = lines[most - 1]
        last.rstrip()
        if last.cell_len + len(dots) > width:
            word = last.plain.rfind(" ", width // 2, width - len(dots))
            last.truncate(word if word > 0 else width - len(dots), overflow="crop")
        last.rstrip()
        last.append(dots)
        return lines[:most]

    def hanging(self, text: Text | str, left: int = 4) -> None:
        """Print `text`, wrapped, `left` cells from the edge."""
        for part in self.wrapped(text, self.width - left):
            self.line(Text.assemble(" " * left, part))

    def fitted(self, text: str, width: int) -> str:
        """`text` cut or padded to exactly `width` cells."""
        cell = Text(text)
        cell.truncate(width, overflow="crop" if self.ascii_only else "ellipsis", pad=True)
        return cell.plain

    def bar(self, share: float, width: int, style: str) -> Text:
        """`share` of `width` cells filled; whatever rounds to half a percent or more shows."""
        full, empty = ("#", ".") if self.ascii_only else ("█", "░")
        filled = min(max(round(share * width), 1 if share >= 0.005 else 0), width)
        return Text.assemble((full * filled, style), (empty * (width - filled), "dim"))


def widest(names: Sequence[str], limit: int) -> int:
    """Cells of the widest name, at most `limit`."""
    return min(max((cell_len(name) for name in names), default=0), limit)
