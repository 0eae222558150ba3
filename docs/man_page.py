"""The manual page of the command line, in roff, from what `--help` says."""

import inspect
import re
from collections.abc import Iterator

import click

from diagnose import __version__
from diagnose.cli.group import LazyGroup

_BLOCK = "\b"  # before a paragraph whose lines click leaves as they are
_ENDINGS = (
    ("0", "it ran"),
    ("1", "--fail-on or --fail-on-regression was hit, or a run is slower than its baseline"),
    ("2", "wrong usage"),
    ("3", "the input cannot be used, or the output not written"),
    ("70", "a bug in diagnose"),
    ("130", "interrupted"),
)


def man_page(group: LazyGroup) -> str:
    """All commands on one page: what each does, its options and its example."""
    root = click.Context(group, info_name="diagnose")
    lines = [
        r".\" Written by docs/generate.py from the commands' help.",
        f'.TH DIAGNOSE 1 "" "diagnose {roff(__version__)}" "User Commands"',
        ".SH NAME",
        r"diagnose \- say why a PyTorch training job is slow, and what to change",
        ".SH SYNOPSIS",
        r".B diagnose",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(group.help or ""),
    ]
    for heading, commands in group.commands_in.items():
        lines.append(f'.SH "{roff(heading.upper())}"')
        for name in commands:
            command = group.get_command(root, name)
            assert command is not None
            lines += _command(command, root, name)
    lines.append(".SH EXIT STATUS")
    for code, meaning in _ENDINGS:
        lines += [".TP", roff(code), roff(meaning)]
    return "\n".join(lines) + "\n"


def roff(text: str) -> str:
    """The text so that nothing in it is taken for a request or an escape."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq").replace("`", r"\(ga")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _command(command: click.Command, above: click.Context, name: str) -> Iterator[str]:
    """The command, and those below it."""
    context = click.Context(command, info_name=name, parent=above)
    yield f'.SS "{roff(" ".join((context.command_path, *command.collect_usage_pieces(context))))}"'
    yield from _paragraphs(command.help or "")
    for option in command.get_params(context):
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record is not None and option.name != "help":
            yield from (".TP", rf"\fB{roff(record[0])}\fR", roff(" ".join(record[1].split())))
    if command.epilog:
        yield from (".PP", roff(" ".join(command.epilog.split())))
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from _command(found, context, below)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith(_BLOCK):
            yield from (".PP", ".nf", *(roff(line) for line in paragraph.splitlines()[1:]), ".fi")
        else:
            yield from (".PP", roff(" ".join(paragraph.split())))
