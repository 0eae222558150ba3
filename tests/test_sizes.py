"""How large a file, a function and the top of the package may grow before a reader loses the thread."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("diagnose", "probes", "benchmarks", "docs", "sample_traces", "tests")
MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60
MOST_ROOMS = 26
NO_ROOMS = ("probes", "data")


def modules(root: Path) -> list[Path]:
    """The project's own files; `diagnose/probes` is a link to what is looked at as `probes`."""
    below = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    return [path for path in (*root.glob("*.py"), *below) if root / "diagnose" / "probes" not in path.parents]


def long_files(root: Path) -> Iterator[str]:
    for path in (*modules(root), *(root / "diagnose").rglob("*.[ch]")):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MOST_LINES_OF_A_FILE:
            yield f"{path.relative_to(root)}: {lines} lines"


def long_functions(root: Path) -> Iterator[str]:
    for path in modules(root):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MOST_LINES_OF_A_FUNCTION:
                    yield f"{path.relative_to(root)}: {node.name} has {lines} lines"


def rooms(package: Path) -> list[str]:
    """The modules and folders that a reader meets first; files of data and the link to the probes are none."""
    names = {path.stem if path.suffix == ".py" else path.name for path in package.iterdir()}
    return sorted(name for name in names if not name.startswith("_") and "." not in name and name not in NO_ROOMS)


def test_no_file_is_too_long() -> None:
    assert "\n".join(long_files(ROOT)) == ""


@pytest.mark.long
def test_no_function_is_too_long() -> None:
    assert "\n".join(long_functions(ROOT)) == ""


def test_the_package_has_few_rooms() -> None:
    found = rooms(ROOT / "diagnose")

    assert {"cli", "trace", "report", "errors"} <= set(found)
    assert len(found) <= MOST_ROOMS


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_too_long_is_named(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "most.py").write_text("def f():\n" + 59 * "    x\n" + 340 * "\n")
    (tmp_path / folder / "more.py").write_text("def f():\n" + 60 * "    x\n" + 340 * "\n")

    assert list(long_files(tmp_path)) == [f"{folder}/more.py: 401 lines"]
    assert list(long_functions(tmp_path)) == [f"{folder}/more.py: f has 61 lines"]
