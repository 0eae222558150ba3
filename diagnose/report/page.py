"""A page of labelled lines that fits the console: wrapping, columns and bars."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from diagnose.errors import printable

LABEL = 12  # cells of the label column; "not judged:" is the longest label
WIDEST = 120  # prose beyond this is hard to read
NARROWEST = 40


def plain(text: object) -> str:
    """`text` on one line, with control characters escaped."""
    return printable(" ".join(str(text).split()))


def joined(parts: Sequence[Text | str], gap: str = "   ") -> Text:
    """The parts that are not empty, with `gap` between them."""
    return Text(gap).join(part if isinstance(part, Text) else Text(part) for part in parts if part)


class Page:
    """Prints lines of at most the console's width; never interprets markup."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = max(min(console.width, WIDEST), NARROWEST)
        self.ascii_only = console.options.ascii_only

    def line(self, text: Text) -> None:
        """Print one line that already fits."""
        text.rstrip()
        self.console.print(text, no_wrap=True, overflow="ignore", crop=False, highlight=False)

    def gap(self) -> None:
        """An empty line."""
        self.console.print()

    def paragraph(self, text: Text | str, label: str = "", indent: int = 0) -> None:
        """Print `text`, wrapped right of the label column; `indent` moves all but the label further right."""
        left = LABEL + indent
        body = Text(text) if isinstance(text, str) else text
        for i, part in enumerate(body.wrap(self.console, self.width - left)):
            head = label.ljust(left) if i == 0 else " " * left
            self.line(Text.assemble((head, "bold"), part))

    def field(self, name: str, text: Text | str) -> None:
        """Print a named part of a section, its name in a column of its own."""
        body = Text(text) if isinstance(text, str) else text
        column = 10
        for i, part in enumerate(body.wrap(self.console, self.width - LABEL - column)):
            head = (name if i == 0 else "").ljust(column)
            self.line(Text.assemble(" " * LABEL, (head, "dim"), part))

    def hanging(self, text: Text | str, left: int = 4) -> None:
        """Print `text`, wrapped, `left` cells from the edge."""
        body = Text(text) if isinstance(text, str) else text
        for part in body.wrap(self.console, self.width - left):
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
