"""The last safety net: a failure inside one metric, rule or section is reported and leaves the rest whole.

It catches unforeseen errors only. `DIAGNOSE_DEFECTS=raise` disables it, so that tests and the fuzzer see the error.
"""

import os
from collections.abc import Callable
from typing import TypeVar

import click

VARIABLE = "DIAGNOSE_DEFECTS"
NOT_JUDGED = "not judged: a bug in diagnose, in "
REPORT_IT = f"report it, with the traceback that {VARIABLE}=raise and DIAGNOSE_TRACEBACK=1 show"
_LONGEST = 120

Value = TypeVar("Value")


def netted(name: str, action: Callable[[], Value], otherwise: Callable[[str], Value]) -> Value:
    """Return `action()` or, if it fails, `otherwise` of the sentence that reports the failure.

    Args:
        name: the metric, rule or section.
        action: computes it.
        otherwise: makes the value to use instead.

    Raises:
        UserError, click.Abort, MemoryError: they are no defects.
        Exception: with `DIAGNOSE_DEFECTS=raise`, whatever `action` raised.
    """
    try:
        return action()
    except (click.exceptions.Exit, click.Abort, click.ClickException, MemoryError, OSError):
        raise
    except Exception as error:
        if os.environ.get(VARIABLE) == "raise":
            raise
        return otherwise(_sentence(name, error))


def _sentence(name: str, error: Exception) -> str:
    text = " ".join(str(error).split())
    kind = type(error).__name__
    why = f"{kind}: {text}" if text and text.isprintable() else kind
    return f"{NOT_JUDGED}{name} ({why[:_LONGEST]})"
