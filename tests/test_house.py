"""The core knows no command: no import, no text, no table of it names `diagnose.commands`. Commands keep to a list."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "diagnose"
TABLE = PACKAGE / "cli" / "__init__.py"  # where each command is, as text, so that `--help` loads none
WRITTEN_OUT = re.compile(r"\bdiagnose[./]commands\b|(?<![\w.])\.+commands(\.|$)|^commands\.\w")


def core(package: Path) -> list[Path]:
    """The files of every room but `commands/`, with those of the probes, tables and templates."""
    rooms = sorted(path for path in package.iterdir() if path.name != "commands")
    files = [path for room in rooms for path in (sorted(room.rglob("*")) if room.is_dir() else [room])]
    return [path for path in files if path.is_file() and _is_text(path)]


def _is_text(path: Path) -> bool:
    return path.suffix in (".py", ".pyi", ".toml", ".csv", ".json", ".html", ".js", ".css", ".c", ".h")


def names_of_commands(path: Path, package: Path) -> Iterator[str]:
    """Each place at which a file names the package of the commands: its line and what stands there."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from (f"{n}: {line}" for n, line in enumerate(text.split("\n"), 1) if WRITTEN_OUT.search(line))
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WRITTEN_OUT.search(node.value):
            yield f"{node.lineno}: {node.value}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            named = imported(node, path.relative_to(package.parent).parts[:-1])
            yield from (f"{node.lineno}: {each}" for each in named if f"{each}.".startswith("diagnose.commands."))


def imported(node: ast.Import | ast.ImportFrom, within: tuple[str, ...]) -> list[str]:
    """The absolute names that an import may mean, of a module in the package `within`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    above = within[: len(within) - node.level + 1] if node.level else ()
    base = ".".join((*above, *([node.module] if node.module else [])))
    return [f"{base}.{alias.name}" for alias in node.names]


def test_the_core_names_no_command() -> None:
    files = core(PACKAGE)

    rooms = {path.relative_to(PACKAGE).parts[0] for path in files}
    assert {"analysis", "cli", "data", "judge", "probes", "notebook.py"} <= rooms
    assert list(names_of_commands(TABLE, PACKAGE)) != []
    named = {path: list(names_of_commands(path, PACKAGE)) for path in files if path != TABLE}
    assert {path.as_posix(): names for path, names in named.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import diagnose.commands.hang",
        "from diagnose import commands",
        "from diagnose.commands import hang",
        "def f():\n    from ..commands.hang import answer",
        "from .. import commands",
        "LAZY = {'hang': 'diagnose.commands.hang.answer'}",
        "import_module('..commands.hang', __package__)",
        "import_module(f'diagnose.{room}')\nroom = 'commands.hang'",
        '"""See diagnose/commands/hang."""',
    ],
)
def test_each_form_of_a_name_is_seen(text: str, tmp_path: Path) -> None:
    module = tmp_path / "diagnose" / "judge" / "module.py"
    module.parent.mkdir(parents=True)
    module.write_text(text)

    assert len(list(names_of_commands(module, tmp_path / "diagnose"))) == 1
    module.write_text("from diagnose.cli import command\nSAID = 'type these commands.'")
    assert list(names_of_commands(module, tmp_path / "diagnose")) == []


def test_the_list_of_the_commands_holds_each_and_each_exception_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    [independent] = [contract for contract in contracts if contract["type"] == "independence"]
    folders = {path.parent.name for path in (PACKAGE / "commands").glob("*/__init__.py")}
    exceptions = re.search(r"^ignore_imports = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)

    assert {name.removeprefix("diagnose.commands.") for name in independent["modules"]} == folders
    assert exceptions is not None
    assert exceptions[1].startswith("    # ")
