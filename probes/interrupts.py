"""Find out whether an exception comes from the probe, or from the job while the probe ran.

A Python signal handler runs between any two instructions of the main thread, those of the probe among them, and its
exception (a timeout, a request to save and leave) is meant for the job. Its frame stands in the traceback, called by
nobody: it is the frame that was given a frame above it as an argument. The standard library alone is needed, so that
the start-up file can ask too.
"""

from __future__ import annotations

import os
import signal
import sys
from types import CodeType, FrameType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_OWN_EXCEPTIONS = ("builtins", "torch", "numpy", "transformers", "accelerate", "nvtx")
_THEIRS = "__diagnose_theirs__"
_BARE = (AssertionError, MemoryError, StopIteration, GeneratorExit)  # Python raises these without a word
_TAKES_MORE = 0x04  # CO_VARARGS


class AskedToEnd(SystemExit):
    """The job ends here because `--stop` asks for it: as a `SystemExit`, which no guard of the probe holds back."""


def theirs(error: BaseException) -> BaseException:
    """Mark an exception that the job's own code raised, called by the probe on its behalf: it goes through."""
    vars(error)[_THEIRS] = True
    return error


def of_the_job(error: BaseException, handled: BaseException | None = None) -> BaseException | None:
    """The exception of the job that `error` is, or that a library turned into it; None when it is the probe's own.

    `handled` was being handled when the probe was called: it, and what came before it, is no part of the answer.
    """
    current: BaseException | None = error
    visited: set[int] = set()
    while current is not None and current is not handled and id(current) not in visited:
        visited.add(id(current))
        if isinstance(current, (KeyboardInterrupt, AskedToEnd)) or _THEIRS in vars(current):
            return current
        if _raised_by_a_handler(current) or _sent_from_elsewhere(current):
            return current
        current = current.__cause__ or current.__context__
    return None


def in_a_handler() -> bool:
    """Whether this thread runs a Python signal handler: then no long work, such as writing files, is done.

    A handler is called with the frame that it interrupted, which stands above its own.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return any(_was_given_one_of(each, frames[position + 1 :]) for position, each in enumerate(frames))


def let_out(error: BaseException, handled: BaseException | None = None) -> None:
    """Re-raise the job's exception; return if the error is the probe's own."""
    interrupt = of_the_job(error, handled)
    if interrupt is error:
        raise interrupt
    if interrupt is not None:
        raise interrupt from interrupt.__cause__


def _raised_by_a_handler(error: BaseException) -> bool:
    frames = _frames(error)
    codes = _codes_of_handlers() if len(frames) > 1 else set()
    return any(
        frame.f_code in codes or _was_given_one_of(frame, frames[:position])
        for position, frame in enumerate(frames)
        if position
    )


def _was_given_one_of(frame: FrameType, outer: list[FrameType]) -> bool:
    """Whether an argument of the call is a frame around it: only signal handlers are called so."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _TAKES_MORE)]
    values = [frame.f_locals.get(name) for name in names]
    given = [value for value in values if type(value) is FrameType]
    given += [each for value in values if type(value) is tuple for each in value if type(each) is FrameType]
    return any(each is frame_around for each in given for frame_around in outer)


def _codes_of_handlers() -> set[CodeType]:
    """The code of the job's Python handlers in place now, for one that forgot its arguments."""
    codes = (_code_of(signal.getsignal(number)) for number in signal.valid_signals())
    return {code for code in codes if code is not None and not _is_ours(code)}


def _is_ours(code: CodeType) -> bool:
    return os.path.abspath(code.co_filename).startswith(_HERE + os.sep)


def _code_of(handler: Any) -> CodeType | None:
    for _ in range(8):  # partials of methods of wrapped functions
        code = getattr(handler, "__code__", None)
        if isinstance(code, CodeType):
            return code
        inner = getattr(handler, "func", None) or getattr(handler, "__func__", None)
        handler = inner if inner is not None else vars(type(handler)).get("__call__")
    return None


def _sent_from_elsewhere(error: BaseException) -> bool:
    """Whether the probe's own line cannot have raised it: another thread or a handler in C set it.

    Another thread sets a class, which becomes an instance without arguments.
    """
    frames = _frames(error)
    bare = not error.args and not isinstance(error, _BARE)
    if bare and isinstance(error, SystemExit):
        return True
    if not frames or not _is_ours(frames[-1].f_code):
        return False
    if bare:
        return True
    module = type(error).__module__.partition(".")[0]
    known = (*_OWN_EXCEPTIONS, *getattr(sys, "stdlib_module_names", ()), (__package__ or "").partition(".")[0])
    return module not in known


def _frames(error: BaseException) -> list[FrameType]:
    frames, step = [], error.__traceback__
    while step is not None:
        frames.append(step.tb_frame)
        step = step.tb_next
    return frames
