"""Defaults of options from `diagnose.toml`, or from `[tool.diagnose]` of `pyproject.toml`, whichever is nearest.

[analyze]
    rules = ["rules/"]
    gpu-hour-price = 2.5
    fail-on = "critical"

Options that write files, send traces elsewhere or start a command are not taken from a file: it may have come with
somebody's code. A file that cannot be used stops no job: `diagnose run` reports it in a line and goes on without.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from diagnose.errors import WrongUsage, printable

OWN, SHARED = "diagnose.toml", "pyproject.toml"
ONLY_TYPED = frozenset(
    {"html", "markdown", "report", "json", "tables", "annotate", "scheduler", "out", "apply", "patch_file", "as_json"}
    | {"export", "clear", "yes", "on_finding"}
)
_LARGEST_BYTES = 1 << 20
_STARTS_A_JOB = "run"


class SettingError(WrongUsage):
    """A file of settings that cannot be used: wrong usage, as if it were typed, with exit code 2."""


def defaults_for(command: click.Command, folder: Path | None = None) -> dict[str, Any]:
    """The command's defaults from the nearest file in `folder` (the working directory) or above it.

    Raises:
        SettingError: the file cannot be read, or names an option that the command does not have or take from it.
    """
    try:
        return _defaults_for(command, folder or working_folder())
    except SettingError as error:
        if command.name != _STARTS_A_JOB:
            raise
        click.echo(f"diagnose: the settings are left aside: {' '.join(error.format_message().split())}", err=True)
        return {}


def working_folder() -> Path | None:
    """The working folder, None if it was deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def _defaults_for(command: click.Command, folder: Path | None) -> dict[str, Any]:
    nearest = None if folder is None else _nearest(folder)
    if nearest is None:
        return {}
    path, tables = nearest
    table = tables.get(command.name or "", {})
    if not isinstance(table, Mapping):
        raise SettingError("a setting cannot be used", where=path, why=f"{command.name} is no table", do="see --help")
    return {name: value for key, given in table.items() for name, value in [_checked(command, str(key), given, path)]}


def _nearest(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    for directory in (folder, *folder.parents):
        if os.path.isfile(directory / OWN):  # a folder above that may not be read raises nothing here
            return directory / OWN, _parsed(directory / OWN)
        if os.path.isfile(directory / SHARED):
            tables = _parsed(directory / SHARED).get("tool", {})
            tables = tables.get("diagnose", {}) if isinstance(tables, Mapping) else {}
            if isinstance(tables, Mapping) and tables:
                return directory / SHARED, tables
    return None


def _parsed(path: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return {}
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise SettingError("the settings are nested too deep", where=path, do="mend or remove the file") from error
    except (OSError, ValueError) as error:
        if path.name == SHARED:  # not ours to complain about
            return {}
        raise SettingError(
            "the settings cannot be read", where=path, why=str(error), do="mend or remove the file"
        ) from error


def _checked(command: click.Command, key: str, value: object, path: Path) -> tuple[str, Any]:
    """The parameter's name and value for a key of the file."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and f"--{key}" in parameter.opts:
            name = parameter.name or ""
            if name in ONLY_TYPED:
                raise SettingError(
                    f"--{printable(key)} is only taken from the command line", where=path, do="remove it there"
                )
            return name, _fitting(command, parameter, value, path)
    known = ", ".join(_known(command))
    raise SettingError(f"{command.name} has no option --{printable(key)}", where=path, do=f"choose from {known}")


def _fitting(command: click.Command, option: click.Option, value: object, path: Path) -> object:
    """The value as it is, if the option takes it.

    Raises:
        SettingError: it is of another type or out of range.
    """
    name = option.opts[-1]
    values = value if option.multiple and isinstance(value, list) else [value]
    refused = SettingError(f"{name} does not take {printable(repr(value))[:60]}", where=path, do="see --help")
    taken = (str, bool) if option.is_flag else (str, int, float)
    if not all(type(each) in taken for each in values):
        raise refused
    if any("\0" in each for each in values if isinstance(each, str)):
        raise refused
    try:
        option.type_cast_value(click.Context(command), value)
    except click.UsageError as error:
        raise SettingError(printable(error.format_message()), where=path, do="see --help") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise refused from error
    return value


def _known(command: click.Command) -> list[str]:
    options = (p for p in command.params if isinstance(p, click.Option) and p.name not in ONLY_TYPED)
    return sorted(p.opts[-1].removeprefix("--") for p in options if p.name != "help")
