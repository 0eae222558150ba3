"""Stacks as the user reads them: the user's own lines, with library frames below folded into the line that called them.

Only file names, line numbers and names of functions are kept of the code, also of those that a line calls.
"""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

from ..announced import samples_in
from ..frameworks import CALL_HOOKS, FRAMEWORKS, HOOKED, LOOP, LOOPS, PASS, WORK_OF_A_LINE
from ..introspection import INSTALLED, in_package, path_below, working_folder
from ..protocol import MOST_BELOW, MOST_STACK_FRAMES, MOST_STACKS
from .sampling import Stacks, StackSampler

_LIBRARIES = (*(package for each in FRAMEWORKS for package in each.packages), "datasets", "numpy")
_TORCH = ("torch", "diagnose")
_GENERATED = ("torchinductor_",)  # code that torch.compile writes, in a folder of the user's
_PART_OF_A_FUNCTION = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
# What the job does while one of these is on the stack: part of a file's path, function, name.
DOING = (
    ("torch/utils/data/", None, "loading"),
    ("torch/_tensor.py", "backward", "backward"),
    ("torch/autograd/__init__.py", None, "backward"),
    ("torch/autograd/graph.py", "_engine_run_backward", "backward"),
    ("torch/nn/modules/module.py", "_call_impl", "forward"),
    ("torch/optim/lr_scheduler.py", None, "step"),
    ("torch/optim/", None, "optimizer"),
    *(frame for each in FRAMEWORKS for frame in each.frames),
    *((path, None, "step") for path in WORK_OF_A_LINE),
    *((path, None, LOOP) for path in LOOPS),
)
STEP, OPTIMIZER = "step", "optimizer"
# Of several that are found, the first: a dataset's transform is a module, too, and a forward pass may run again in the
# backward pass.
_FIRST = ("loading", "backward", "forward", OPTIMIZER, LOOP)
_ENDS_AT_A_FRAME_OF_THE_USER = (OPTIMIZER, LOOP)  # a closure's code, or a callback's, is the step's again


def stack_samples(sampler: StackSampler, asked: bool) -> dict[str, Any]:
    """The samples as the record has them; `asked` is whether sampling was requested."""
    if not asked:
        return {"why_none": "sampling is off"}
    if not sampler.samples:
        return {"why_none": sampler.why_none or "the loop ended before a step was sampled"}
    folded = _folded(sampler)
    most = sorted(folded.items(), key=lambda item: -sum(item[1].values()))
    return {
        "interval_ms": sampler.wall_ns / max(sampler.samples, 1) / 1e6,
        "steps": sampler.steps,
        "first_step": sampler.first_step,
        "step_ns": sampler.step_ns,
        "wall_ms": sampler.wall_ns / 1e6,
        "cost_ms": sampler.cost_ns / 1e6,
        "samples": sampler.samples,
        "in_user_code": sum(sum(by_step.values()) for (frames, *_), by_step in most if frames),
        "stacks": [
            {
                "frames": [list(frame) for frame in frames],
                "doing": doing,
                "calls": calls,
                "below": [list(function) for function in below],
                "samples": sum(by_step.values()),
                "by_step": [list(pair) for pair in sorted(by_step.items())],
            }
            for (frames, doing, calls, below), by_step in most[:MOST_STACKS]
        ],
        "in_reference_kernels": samples_in(sampler.codes, sampler.stacks),
        "left_out": sum(sum(by_step.values()) for _, by_step in most[MOST_STACKS:]),
    }


def _folded(sampler: StackSampler) -> dict[tuple[Any, ...], dict[int, int]]:
    """Number of samples by step, for each stack as the record has it."""
    folding, folded = Folding(sampler.codes), dict[Any, dict[int, int]]()
    for stack, by_step in sampler.by_step.items():
        steps = folded.setdefault((*folding.one(stack), folding.below(stack)), {})
        for step, samples in by_step.items():
            steps[step] = steps.get(step, 0) + samples
    return folded


class Folding:
    """Folds stacks of these codes, each with the name of its module."""

    def __init__(self, codes: Mapping[int, tuple[CodeType, str]]) -> None:
        self._codes = codes
        libraries = tuple(library_folders())
        self._here = working_folder()
        self._users = {
            identity: is_the_users(code.co_filename, module, libraries) for identity, (code, module) in codes.items()
        }
        self._lines: dict[tuple[int, int], int] = {}

    def of(self, stacks: Stacks) -> dict[tuple[Any, ...], int]:
        """Number of samples by the user's frames (outermost first), the job's activity, and the last frame's call."""
        folded: dict[tuple[Any, ...], int] = {}
        for stack, samples in stacks.items():
            key = self.one(stack)
            folded[key] = folded.get(key, 0) + samples
        return folded

    def one(self, stack: tuple[int, ...]) -> tuple[tuple[tuple[str, int, str], ...], str, str | None]:
        """The user's frames of a stack (outermost first), the job's activity, and the last frame's call."""
        pairs = list(zip(stack[::2], stack[1::2]))  # noqa: B905 - Python 3.9 has no `strict`
        users = [pair for pair in pairs if self._users[pair[0]]]
        calls = called_name(self._codes[users[0][0]][0], users[0][1]) if users else None
        return tuple(self._frames(users))[-MOST_STACK_FRAMES:], self._doing(pairs), calls

    def below(self, stack: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
        """File and name of the libraries' functions below the user's last frame, the outermost first.

        Those of Python itself and of torch are left out, which say little of what the job does.
        """
        found: list[tuple[str, str]] = []
        for identity in stack[::2]:
            if self._users[identity]:
                break
            code = self._codes[identity][0]
            file = _in_package(code.co_filename)
            if file and not code.co_name.startswith("<") and (not found or found[-1] != (file, code.co_name)):
                found.append((file, code.co_name))
        return tuple(reversed(found[:MOST_BELOW]))

    def _frames(self, users: list[tuple[int, int]]) -> Iterator[tuple[str, int, str]]:
        """The frames, outermost first; a comprehension is part of the function around it, as from Python 3.12 on."""
        function = ""
        for position in range(len(users) - 1, -1, -1):
            identity, at = users[position]
            code = self._codes[identity][0]
            inner = self._codes[users[position - 1][0]][0] if position else None
            if inner is not None and inner.co_name in _PART_OF_A_FUNCTION and inner in code.co_consts:
                function = function or code.co_name
                continue
            yield path_below(code.co_filename, self._here), self._line(identity, at), function or code.co_name
            function = ""

    def _line(self, identity: int, at: int) -> int:
        if (identity, at) not in self._lines:
            code = self._codes[identity][0]
            lines = [line for begin, line in dis.findlinestarts(code) if begin <= at and line]
            self._lines[identity, at] = lines[-1] if lines else code.co_firstlineno
        return self._lines[identity, at]

    def _doing(self, pairs: list[tuple[int, int]]) -> str:
        found = set()
        in_users = in_hook = False
        callers = [*(caller for caller, _ in pairs[1:]), None]
        for (identity, _), caller in zip(pairs, callers):  # noqa: B905 - Python 3.9 has no `strict`
            in_users = in_users or self._users[identity]
            doing = STEP if self._users[identity] else _done_by(self._codes[identity][0])
            if not (in_users and doing in _ENDS_AT_A_FRAME_OF_THE_USER) and not (in_hook and doing in HOOKED):
                found.add(doing)
            in_hook = in_hook or self._is_hook(identity, caller)
        return next((doing for doing in _FIRST if doing in found), STEP)

    def _is_hook(self, called: int, caller: int | None) -> bool:
        if caller is None or not self._users[called] or self._codes[called][0].co_name.endswith(PASS):
            return False
        code = self._codes[caller][0]
        path = code.co_filename.replace(os.sep, "/")
        return any(part in path and function in ("", code.co_name) for part, function in CALL_HOOKS)


def _in_package(path: str) -> str:
    """The path of an installed package's file from the package on; "" for torch and what is not installed so."""
    inside = in_package(path)
    return "" if inside.split("/")[0] in _TORCH else inside


def _done_by(code: CodeType) -> str:
    """The work that a library's function does."""
    path = code.co_filename.replace(os.sep, "/")
    return next((doing for part, function, doing in DOING if part in path and function in (None, code.co_name)), STEP)


def is_the_users(path: str, module: str, libraries: tuple[str, ...]) -> bool:
    """Whether code of this path and module is the user's, and of none of the folders of `libraries`."""
    if path.startswith("<"):  # executed text: of a notebook, of `python -c`, or made by a library
        return module == "__main__"
    parts = path.split(os.sep)
    if any(name in parts for name in INSTALLED) or any(part.startswith(_GENERATED) for part in parts):
        return False
    return not path.startswith(libraries)


def library_folders() -> Iterator[str]:
    """Folders of the standard library, of installed packages, of libraries wherever they are, and of the probe."""
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield from _both(sysconfig.get_path(name))
    for name in _LIBRARIES:
        module = sys.modules.get(name)
        file = vars(module).get("__file__") if module is not None else None
        if type(file) is str:
            yield from _both(os.path.dirname(file))
    yield from _both(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _both(folder: str | None) -> Iterator[str]:
    """The folder's path as given and with links resolved, each with the separator at its end."""
    for path in (folder, os.path.realpath(folder)) if folder else ():
        yield path.rstrip(os.sep) + os.sep


# The name of the function that a line calls, read from bytecode: `item` in `total += loss.item()`.

_NAMES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_BORROW")


def called_name(code: CodeType, at: int) -> str | None:
    """The name by which the call at position `at` finds its function; None if none runs there, or it has no name.

    A call and the load of its function begin at one place of the source. The name is not known before Python 3.11, nor
    if positions are not kept.
    """
    if not hasattr(code, "co_positions"):
        return None
    instructions = list(dis.get_instructions(code))
    call = next((each for each in reversed(instructions) if each.offset <= at), None)  # its caches follow it
    if call is None or not call.opname.startswith(("CALL", "PRECALL")):
        return None
    positions = call.positions
    if positions is None or None in positions:
        return None
    begin, end = (positions.lineno, positions.col_offset), (positions.end_lineno, positions.end_col_offset)
    names: dict[Any, object] = {}  # of expressions that begin with the call, by their end: the longest is the function
    for each in instructions:
        where = each.positions
        if each.offset >= call.offset or where is None or None in where or (where.lineno, where.col_offset) != begin:
            continue
        if (reached := (where.end_lineno, where.end_col_offset)) < end:
            names[reached] = each.argval if each.opname in _NAMES else names.get(reached)
    found = names[max(names)] if names else None
    return found if type(found) is str else None
