"""No module of the repository imports itself by way of others, wherever in a file the imports stand."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOTS = {  # folder: the package that it is imported as, "" where its modules are found by their own names
    "diagnose": "diagnose",
    "probes": "diagnose.probes",
    "benchmarks": "",
    "sample_traces": "",
    "docs": "",
    "tests": "",
}
Imports = Mapping[str, set[str]]


def modules(root: Path, folders: Mapping[str, str]) -> dict[str, Path]:
    """Every module by its dotted name; a package by that of its folder. Links are not followed."""
    named = {}
    for folder, package in folders.items():
        for path in sorted((root / folder).rglob("*.py")):
            inside = path.relative_to(root / folder).with_suffix("").parts
            parts = (*package.split("."), *inside) if package else inside
            if not any(above.is_symlink() for above in (path, *path.parents) if above != root):
                named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imports_of(name: str, path: Path) -> Iterator[tuple[str, ...]]:
    """What a module imports: each time the names to try, the longest first. `import_module` counts where it is spelled
    out, and so do imports for type checkers.
    """
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((f"{base}.{alias.name}", base) for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in (vars(node.func).get("attr"), vars(node.func).get("id")):
            spelled = ast.unparse(node.args[0]).strip("'")
            yield (".".join([*package, spelled[1:]]) if spelled.startswith(".") else spelled,)


def graph(named: Mapping[str, Path]) -> Imports:
    """The modules that each module imports, of those named."""
    return {
        name: {next((each for each in names if each in named), name) for names in imports_of(name, path)} - {name}
        for name, path in named.items()
    }


def circle(imports: Imports) -> list[str]:
    """The modules of one circle, the first of them again at the end; none where there is no circle."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for imported in sorted(imports[name]):
            if around := walk(imported, [*path, name]):
                return around
        done.add(name)
        return []

    return next((around for name in sorted(imports) if (around := walk(name, []))), [])


@pytest.mark.long
def test_no_module_imports_itself_by_way_of_others() -> None:
    imports = graph(modules(ROOT, ROOTS))

    assert {
        "diagnose.commands.run.command",
        "diagnose.probes.session",
        "simulator.job",
        "generate",
        "kineto",
    } <= imports.keys()
    assert " -> ".join(circle(imports)) == ""


@pytest.mark.parametrize(
    "back",
    [
        "from . import a",
        "from .a import x",
        "def f():\n    from ..pack.a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pack.a",
        "import importlib\ndef f():\n    importlib.import_module('.a', __package__)",
    ],
)
def test_a_circle_is_named_however_it_is_closed(tmp_path: Path, back: str) -> None:
    (tmp_path / "pack").mkdir()
    for name, text in {"__init__": "", "a": "from pack.b import y", "b": "from . import c", "c": back}.items():
        (tmp_path / "pack" / f"{name}.py").write_text(text)

    imports = graph(modules(tmp_path, {"pack": "pack"}))

    assert circle(imports) == ["pack.a", "pack.b", "pack.c", "pack.a"]
    assert circle({**imports, "pack.c": set()}) == []
