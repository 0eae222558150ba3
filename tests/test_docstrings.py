"""Docstrings are sentences: none begins amid one, and a condition is an "if", as "where" is a place."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FRAGMENT = re.compile(r"(\.\.\.|(Of|By|With|Those|As|From|Which|Whose|Whom|Than|Between|Such|And|Or|But)\b)")
CONDITION = re.compile(
    r"""(\b(None|none|nothing|empty|False|True|null|NaN|unknown|also|even|UserError)|"\w*"|(?<!\w)-?[01]),?\s+where\b"""
)


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


def test_no_docstring_begins_amid_a_sentence() -> None:
    assert [f"{at} {text}" for at, text in docstrings(ROOT) if FRAGMENT.match(text)] == []


def test_where_is_no_condition() -> None:
    assert [f"{at} {found[0]}" for at, text in docstrings(ROOT) if (found := CONDITION.search(text))] == []


@pytest.mark.parametrize("text", ["Those of a run.", "...in, who is missing.", "With the rank.", "Of all ranks."])
def test_a_fragment_is_seen(text: str) -> None:
    assert FRAGMENT.match(text)


@pytest.mark.parametrize(
    "text", ["None where it is unknown.", 'A name; "" where none is.', "Seconds, 0\n    where none."]
)
def test_a_condition_is_seen(text: str) -> None:
    assert CONDITION.search(text)


@pytest.mark.parametrize("text", ["Whether it ran.", "One rank.", "The folder where it lies.", "Steps below 10 where."])
def test_a_sentence_and_a_place_pass(text: str) -> None:
    assert not FRAGMENT.match(text)
    assert not CONDITION.search(text)
