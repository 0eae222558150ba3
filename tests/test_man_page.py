"""docs/man/diagnose.1: every command with every option, in roff that a man reader takes."""

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from diagnose.cli import main

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "man" / "diagnose.1"


def written() -> str:
    spec = importlib.util.spec_from_file_location("man_page", ROOT / "docs" / "man_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.man_page(main))


def options(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    context = click.Context(command, info_name=path)
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            yield from ((path, name) for name in (*option.opts, *option.secondary_opts))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options(found, f"{path} {name}")


def test_every_option_of_every_command_is_on_the_page() -> None:
    page = written().replace(r"\-", "-")
    sections = {part.splitlines()[0].strip('"'): part for part in page.split("\n.SS ")[1:]}
    of = {path: next(p for title, p in sections.items() if title.startswith(f"{path} ")) for path, _ in told()}

    assert [(path, option) for path, option in told() if option not in of[path]] == []


def told() -> list[tuple[str, str]]:
    return [(path, option) for path, option in options(main, "diagnose") if path != "diagnose"]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_a_man_reader_takes_it_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "diagnose.1").write_text(written())

    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", str(tmp_path / "diagnose.1")], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
    assert "130    interrupted" in done.stdout


def test_what_a_reader_would_take_for_a_request_is_escaped() -> None:
    lines = written().splitlines()
    requests = {line.split()[0] for line in lines if line.startswith(".")}

    assert requests <= {'.\\"', ".TH", ".SH", ".SS", ".B", ".PP", ".TP", ".nf", ".fi"}
