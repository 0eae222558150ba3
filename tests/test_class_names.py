"""No module meets two classes of one name: what it defines, imports (under another name, too) and reads of modules."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import pytest

ROOT = Path(__file__).parent.parent
Imported = tuple[str, str, str]  # the name that is bound, the module, the name there ("" for the module itself)


def modules(root: Path) -> dict[str, ast.Module]:
    """The modules below diagnose/ and probes/, as they are imported."""
    files = [file for top in ("diagnose", "probes") for file in sorted((root / top).rglob("*.py"))]
    found = {}
    for file in files:
        parts = list(file.relative_to(root).with_suffix("").parts)
        if parts[:2] != ["diagnose", "probes"]:  # a link to the other folder
            dotted = ".".join(["diagnose"] * (parts[0] == "probes") + parts)
            found[dotted] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def imports(module: str, tree: ast.Module) -> list[Imported]:
    """What the module imports at any place; relative names made absolute."""
    found: list[Imported] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            home = ".".join([*above, *([node.module] if node.module else [])])
            found += [(alias.asname or alias.name, home, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.asname, alias.name, "") for alias in node.names if alias.asname]
    return found


class Tree:
    """The modules of a tree, and where the classes come from that they meet."""

    def __init__(self, parsed: dict[str, ast.Module]) -> None:
        self.parsed = parsed
        self.imports = {name: imports(name, tree) for name, tree in parsed.items()}
        self.classes = {
            name: {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
            for name, tree in parsed.items()
        }

    def module(self, dotted: str) -> str:
        """The module of that name, of a package what it begins with; "" if there is none."""
        return next((name for name in (dotted, f"{dotted}.__init__") if name in self.parsed), "")

    def origin(self, dotted: str, name: str, depth: int = 0) -> tuple[str, str] | None:
        """Module and name where a class is defined, or a module and ""; None for all else."""
        if inside := self.module(f"{dotted}.{name}" if name else dotted):
            return inside, ""
        module = self.module(dotted)
        if name in self.classes.get(module, ()):
            return module, name
        found = (
            self.origin(home, there, depth + 1) for bound, home, there in self.imports.get(module, ()) if bound == name
        )
        return next(filter(None, found), None) if depth < 9 else None

    def meets(self, module: str) -> Iterator[tuple[str, str]]:
        """The classes that the module defines, imports, or reads of a module that it imports."""
        yield from ((module, name) for name in self.classes[module])
        read = [(node.value.id, node.attr) for node in ast.walk(self.parsed[module]) if _of_a_name(node)]
        for bound, home, there in self.imports[module]:
            found = self.origin(home, there)
            if found is not None and found[1]:
                yield found
            elif found is not None:
                attributes = [attribute for name, attribute in read if name == bound]
                yield from filter(None, (self.origin(found[0], attribute) for attribute in attributes))


def _of_a_name(node: ast.AST) -> TypeGuard[Any]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


def shared(tree: Tree) -> dict[str, list[str]]:
    """Module and class name -> the modules that define the classes of that name which meet there."""
    found: dict[str, list[str]] = {}
    for module in tree.parsed:
        homes: dict[str, set[str]] = defaultdict(set)
        for home, name in tree.meets(module):
            if name:
                homes[name].add(home)
        found.update({f"{module}: {name}": sorted(each) for name, each in homes.items() if len(each) > 1})
    return found


@cache
def ours() -> Tree:
    return Tree(modules(ROOT))


@pytest.mark.long
def test_no_module_meets_two_classes_of_one_name() -> None:
    assert shared(ours()) == {}


@pytest.mark.long
def test_the_classes_of_the_tree_are_found() -> None:
    assert ("diagnose.ranks.job", "Job") in set(ours().meets("diagnose.ranks.report"))
    assert ("diagnose.trace.columns", "Trace") in set(ours().meets("diagnose.ranks.collectives.calls"))  # re-exported


@pytest.mark.parametrize(
    "meeting",
    [
        "from a.one import Window\nclass Window: pass",
        "from a.one import Window as First\nfrom a.two import Window",
        "from . import one\nfrom .two import Window\nkind = one.Window",
        "import a.one as one\nimport a.two as two\nkinds = one.Window, two.Window",
        "def later():\n    from a import Window\n    from a.two import Window",
    ],
)
def test_a_meeting_is_found(meeting: str) -> None:
    texts = {
        "a.__init__": "from a.one import Window",
        "a.one": "class Window: pass",
        "a.two": "class Window: pass",
        "a.both": meeting,
    }
    found = shared(Tree({name: ast.parse(text) for name, text in texts.items()}))
    assert list(found) == ["a.both: Window"]
