"""Docstrings are sentences: they begin as one, a condition is an "if", since "where" is a place, and no code tells."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PREPOSITION = "Of|By|With|Without|As|From|Than|Between|After|Before|Over|Under|Into"
PRONOUN = r"Those|What(?! to)|Who|Whom|Whose|Which|Such|So"
FRAGMENT = re.compile(rf"\.\.\.|({PREPOSITION}|{PRONOUN}|And|Or|But|Not)\b")
VALUE = r"""\b(None|none|nothing|empty|False|True|null|NaN|unknown|also|even|UserError)|"\w*"|(?<!\w)-?[01]"""
CONDITION = re.compile(rf"({VALUE}),?\s+where\b")
CODE = re.compile(r"`[^`]*`|^\s+[\w, ]+:", re.MULTILINE)  # names in a sentence, and those that a list explains
TELLS = re.compile(r"\b(tells?|told)\b", re.IGNORECASE)


@cache
def docstrings(root: Path) -> list[tuple[str, str]]:
    """Each docstring of the package and the probes, behind its file and line."""
    files = [path for folder in ("diagnose", "probes") for path in sorted((root / folder).rglob("*.py"))]
    own = [path for path in files if root / "diagnose" / "probes" not in path.parents]
    return [each for path in own for each in _of(path, root)]


def _of(path: Path, root: Path) -> Iterator[tuple[str, str]]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield f"{path.relative_to(root)}:{getattr(node, 'lineno', 1)}", text


def faults(text: str) -> list[str]:
    """The words of a docstring that no sentence of ours has."""
    found = (FRAGMENT.match(text), CONDITION.search(text), TELLS.search(CODE.sub("", text)))
    return [match[0] for match in found if match]


def test_docstrings_are_sentences_in_plain_words() -> None:
    assert len(docstrings(ROOT)) > 1000
    assert [f"{at} {words}" for at, text in docstrings(ROOT) if (words := faults(text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "Those of a run.",
        "...in, who is missing.",
        "With the rank.",
        "Of all ranks.",
        "What a step takes.",
        "None where it is unknown.",
        'A name; "" where none is.',
        "Seconds, 0\n    where none.",
        "The side that a log tells.",
        "Called with what is told.",
    ],
)
def test_each_fault_is_seen(text: str) -> None:
    assert len(faults(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Whether it ran.",
        "One rank.",
        "The folder where it lies.",
        "Call `tell` once for each `told` line.",
        "A run.\n\n    told: the lines so far.",
        "Withhold a line.",
    ],
)
def test_a_sentence_a_place_and_a_name_pass(text: str) -> None:
    assert faults(text) == []
