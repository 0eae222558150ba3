"""Find the files that are part of the user's command, so that no output replaces them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from diagnose.cli.whole_file import is_same_file

_MODULE = "-m"


def refuse_over(command: Sequence[str], outputs: Mapping[str, Path | None]) -> None:
    """Refuse an output at the place of a file of the command: its script, or a file among its arguments.

    Args:
        command: its words.
        outputs: files that are to be written, by the option that names each.

    Raises:
        UsageError: there is one.
    """
    for option, to in outputs.items():
        for file in files_of(command) if to is not None else ():
            if to is not None and file.is_file() and is_same_file(to, file):
                raise click.UsageError(f"--{option} would overwrite {file}, which the command uses: name another file.")


def files_of(command: Sequence[str]) -> Iterator[Path]:
    """Paths that the words may name: as they are, after `=` or `@`, before `#`, or as the module that Python runs."""
    for before, word in zip(("", *command), command, strict=False):
        yield Path(word)
        yield Path(word.lstrip("@"))
        yield Path(word.partition("=")[2])
        yield Path(word.partition("#")[0])
        if before == _MODULE or word.startswith(_MODULE):
            module = word.removeprefix(_MODULE).replace(".", "/")
            yield from map(Path, (f"{module}.py", f"{module}/__main__.py", f"{module}/__init__.py"))
