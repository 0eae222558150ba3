"""Announcements of libraries in this process: the known messages of warnings and loggers, read as they are made.

Nothing is put in their way. A warning that passes the filters becomes a `WarningMessage`, and a message that its logger
lets through a `LogRecord`, before anybody shows it: the two constructors are watched, which are over by then. So
filters, handlers, levels, `showwarning` and the stack that these see are the job's own. Of a text only the known
message stays, with the function or number that it names, the packages, and the place.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Mapping
from types import CodeType
from typing import Any

from .announcements import ANNOUNCEMENTS, PACKAGES, Announcement
from .guard import quietly
from .hand_over import at_exit, put_back, replace
from .introspection import in_package

MOST = 32
_LONGEST = 2000  # characters of a text that are looked at
_PLACE = 200
_LOGGERS = frozenset(each.logger for each in ANNOUNCEMENTS if each.logger)
_ALIASES = {"pytorch_lightning": "lightning"}
_announced: dict[tuple[str, str, tuple[str, ...]], dict[str, Any]] = {}


def watch() -> None:
    """Read messages from now on."""
    replace(warnings.WarningMessage, "__init__", _noting_warning, "warnings are not read")
    replace(logging.LogRecord, "__init__", _noting_record, "messages of loggers are not read")
    at_exit(_put_back, "messages are still read")


def _put_back() -> None:
    """Leave the constructors as they were: a warning of the interpreter's own end may find this module emptied."""
    for owner in (warnings.WarningMessage, logging.LogRecord):
        put_back(owner, "__init__")


def facts() -> list[dict[str, object]]:
    """The announcements so far, each once."""
    return list(_announced.values())


def samples_in(codes: Mapping[int, tuple[CodeType, str]], stacks: Mapping[Any, int]) -> int | None:
    """Samples with an announced function, or torch's implementation of it, on their stack; None if none has a name."""
    names = {name for row in facts() for name in (row["what"], f"torch_{row['what']}") if row["what"]}
    inside = {identity for identity, (code, _) in codes.items() if code.co_name in names}
    if not names:
        return None
    return sum(samples for stack, samples in stacks.items() if not inside.isdisjoint(stack[::2]))


def _noting_warning(
    original: Any, made: Any, /, message: Any, category: Any, filename: Any, lineno: Any, *rest: Any, **named: Any
) -> Any:
    result = original(made, message, category, filename, lineno, *rest, **named)
    quietly(lambda: _note("", _text_of(message), filename, lineno))
    return result


def _noting_record(
    original: Any, made: Any, /, name: Any, level: Any, pathname: Any, lineno: Any, msg: Any, *rest: Any, **named: Any
) -> Any:
    result = original(made, name, level, pathname, lineno, msg, *rest, **named)
    if type(name) is str and (logger := _first_part(name)) in _LOGGERS:
        quietly(lambda: _note(logger, msg, pathname, lineno))
    return result


def _first_part(name: str) -> str:
    first = name.partition(".")[0]
    return _ALIASES.get(first, first)


def _text_of(message: object) -> object:
    """The text that a warning was made with; its own `__str__`, which may do anything, is not called."""
    if isinstance(message, Warning):
        given = BaseException.args.__get__(message)  # type: ignore[attr-defined]
        return given[0] if given else None
    return message


def _note(logger: str, text: object, file: object, line: object) -> None:
    if type(text) is not str:
        return
    known = next(
        (each for each in ANNOUNCEMENTS if each.logger == logger and _holds(text[:_LONGEST], each.parts)), None
    )
    if known is None:
        return
    what, packages = _what(known, text[:_LONGEST]), _packages(text[:_LONGEST])
    key = known.key, what, packages
    if key not in _announced and len(_announced) < MOST:
        place = {"file": _place(file), "line": line if type(line) is int and line >= 0 else None}
        _announced[key] = {"message": known.key, "what": what or None, "packages": list(packages), **place}


def _holds(text: str, parts: tuple[str, ...]) -> bool:
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def _what(known: Announcement, text: str) -> str:
    found = re.search(known.what, text) if known.what else None
    return found[1] if found else ""


def _packages(text: str) -> tuple[str, ...]:
    """The packages that a text says to install, by their names; `mamba` is the folder of mamba-ssm."""
    plain = text.replace("_", "-").replace("state-spaces/mamba", "mamba-ssm").replace("flash-attention", "flash-attn")
    return tuple(each for each in PACKAGES if re.search(rf"(?<![\w.]){each}(?![\w.])", plain.replace("`", " ")))


def _place(file: object) -> str | None:
    """The file below its installation or the working folder, else its name alone."""
    if type(file) is not str:
        return None
    return (in_package(file) or os.path.basename(file))[:_PLACE]
