"""Defaults of options from `diagnose.toml`, or from `[tool.diagnose]` of `pyproject.toml`, whichever is nearest.

    [analyze]
    rules = ["rules/"]
    gpu-hour-price = 2.5
    fail-on = "critical"

Options that write files or send traces elsewhere are not taken from a file: it may have come with somebody's code.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from diagnose.errors import UserError, printable

OWN, SHARED = "diagnose.toml", "pyproject.toml"
ONLY_TYPED = frozenset(
    {"html", "markdown", "tables", "annotate", "scheduler", "out", "json_file", "apply", "patch_file", "as_json"}
)
_LARGEST_BYTES = 1 << 20


def defaults_for(command: click.Command, folder: Path | None = None) -> dict[str, Any]:
    """The command's defaults from the nearest file in `folder` (the working directory) or above it.

    Raises:
        UserError: the file cannot be read, or names an option that the command does not have or does not take from it.
    """
    found = _nearest(folder or Path.cwd())
    if found is None:
        return {}
    path, tables = found
    table = tables.get(command.name or "", {})
    if not isinstance(table, Mapping):
        raise UserError("a setting cannot be used", where=path, why=f"{command.name} is no table", do="see --help")
    return {name: value for key, given in table.items() for name, value in [_checked(command, str(key), given, path)]}


def _nearest(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    for place in (folder, *folder.parents):
        if (place / OWN).is_file():
            return place / OWN, _parsed(place / OWN)
        if (place / SHARED).is_file():
            tables = _parsed(place / SHARED).get("tool", {})
            tables = tables.get("diagnose", {}) if isinstance(tables, Mapping) else {}
            if isinstance(tables, Mapping) and tables:
                return place / SHARED, tables
    return None


def _parsed(path: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return {}
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if path.name == SHARED:  # not ours to complain about
            return {}
        raise UserError(
            "the settings cannot be read", where=path, why=str(error), do="mend or remove the file"
        ) from error


def _checked(command: click.Command, key: str, value: object, path: Path) -> tuple[str, Any]:
    """The parameter's name and its value."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and f"--{key}" in parameter.opts:
            name = parameter.name or ""
            if name in ONLY_TYPED:
                raise UserError(
                    f"--{printable(key)} is only taken from the command line", where=path, do="remove it there"
                )
            return name, value
    known = ", ".join(_known(command))
    raise UserError(f"{command.name} has no option --{printable(key)}", where=path, do=f"choose from {known}")


def _known(command: click.Command) -> list[str]:
    options = (p for p in command.params if isinstance(p, click.Option) and p.name not in ONLY_TYPED)
    return sorted(p.opts[-1].removeprefix("--") for p in options if p.name != "help")
