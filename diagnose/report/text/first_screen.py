"""The first screen as printed: sixteen lines of eighty columns, of which the table of classes takes what is left."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from diagnose.diagnosis import Diagnosis, bounding
from diagnose.report.text.breakdown import STYLE
from diagnose.report.text.page import USUAL, Page, widest
from diagnose.report.views.first_screen import ClassLine, ScreenLine, first_screen

MOST_LINES = 16
LEAST_CLASSES = 2
BRIEF_LINES = 5
LABEL = 10
_MOST = {"verdict": 3, "why": 3, "next": 2, "gain": 2, "": 2, "try": 2, "applied": 2, "speed": 2, "MFU": 2, "scope": 2}
_CUT_FIRST = ("MFU", "why", "verdict", "scope", "applied", "", "gain")
_BAR = 20  # cells of the whole step
_NUMBERS = 17  # cells of a time and a share


def print_first_screen(page: Page, diagnosis: Diagnosis, more: str = "") -> None:
    """Print the answer, the classes of the step, what was measured, and where there is `more`."""
    screen, narrow = first_screen(diagnosis), Page(page.console, LABEL)
    lines = [*screen.lines, ScreenLine("scope", ". ".join(filter(None, (screen.scope, more))))]
    most = _limits(narrow, lines, min(len(screen.classes), LEAST_CLASSES))
    *answer, scope = lines
    for line in answer:
        _line(narrow, line, diagnosis, most[line.label])
    if screen.classes:
        page.gap()
    used = sum(_height(narrow, line, most[line.label]) for line in lines)
    _classes(narrow, screen.classes[: _room(narrow, used)])
    narrow.paragraph(Text(scope.text, "dim"), label=scope.label, most=most[scope.label])
    page.printed += narrow.printed


def print_brief(page: Page, diagnosis: Diagnosis) -> None:
    """Print the first lines, five at most: each is cut to one but the change, which is pasted."""
    narrow, left = Page(page.console, LABEL), BRIEF_LINES
    for line in first_screen(diagnosis).lines:
        most = _MOST["next"] if line.label == "next" else 1
        if (left := left - _height(narrow, line, most)) < 0:
            return
        _line(narrow, line, diagnosis, most)


def _room(page: Page, used: int) -> int:
    """Classes that fit below the answer; on a narrow page, which has more lines, all of them."""
    return MOST_LINES - used - 1 if page.width >= USUAL else MOST_LINES


def _limits(page: Page, lines: Sequence[ScreenLine], classes: int) -> dict[str, int]:
    """The most lines of each label, so that all of them and some classes fit; those that say least are cut first."""
    most = dict(_MOST)
    for label in _CUT_FIRST:
        used = sum(_height(page, line, most[line.label]) for line in lines)
        if page.width < USUAL or used + (classes and classes + 1) <= MOST_LINES:
            break
        most[label] = max(most[label] - 1, 1)
    return most


def _height(page: Page, line: ScreenLine, most: int) -> int:
    return min(len(page.wrapped(line.text, page.width - LABEL)), most)


def _line(page: Page, line: ScreenLine, diagnosis: Diagnosis, most: int) -> None:
    page.paragraph(_styled(line, diagnosis), label=line.label, most=most)


def _styled(line: ScreenLine, diagnosis: Diagnosis) -> Text:
    if line.label == "verdict":
        text = Text(line.text)
        class_, _, _ = line.text.partition(",")
        text.stylize(f"bold {_colour(diagnosis)}", 0, len(class_))
        return text
    if line.label == "gain":
        return Text(line.text, "bold yellow" if line.warns else "bold green")
    return Text(line.text, "bold" if line.is_code else "")


def _colour(diagnosis: Diagnosis) -> str:
    return STYLE.get(bounding(diagnosis.verdict.class_), STYLE["unexplained"])


def _classes(page: Page, classes: Sequence[ClassLine]) -> None:
    """Print a row for each class: its time, its share, a bar, and its term of the iron law if there is room."""
    names = widest([row.name for row in classes], 14)
    told = [row.term.replace("·", "*") if page.ascii_only else row.term for row in classes]
    terms = widest(told, 40)
    room = page.width - LABEL - names - _NUMBERS
    most = max((row.share for row in classes), default=1.0)
    whole = min(_BAR, int((room - terms - 5) / most))
    longest = max((_cells(row, whole) for row in classes), default=0)
    for i, (row, term) in enumerate(zip(classes, told, strict=True)):
        name = page.fitted(row.name, names)
        head = ("step" if i == 0 else "").ljust(LABEL)
        text = Text.assemble((head, "bold"), (name, "bold"), f"{row.time:>10} {row.percent:>6}")
        if whole >= _BAR // 2:
            bar = ("#" if page.ascii_only else "█") * _cells(row, whole)
            text.append("  ").append(bar.ljust(longest), STYLE[row.class_]).append(f"   {term}")
        elif cell_len(term) + 2 <= room:
            text.append(f"  {term}")
        page.line(text)


def _cells(row: ClassLine, whole: int) -> int:
    return min(round(row.share * whole), whole)
