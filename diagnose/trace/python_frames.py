"""Read the name of a Python event: a line of the user's code or a library's, a function in C, and its purpose.

torch.profiler with with_stack=True names a call "FILE(LINE): FUNCTION", LINE being where the function begins, or where
a generator continues; a call into C is "<built-in method item of Tensor object at 0x...>".
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from diagnose.probes.frameworks import CALL_HOOKS, FRAMEWORKS, LOOP, LOOPS, PASS, WORK_OF_A_LINE
from diagnose.trace.stacks import Frame

_TABLE = Path(__file__).parents[1] / "data" / "python_libraries.toml"
_CALL = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
_IN_C = re.compile(r"<built-in (?:method|function) (?P<function>\w+)")
_INSTALLED = re.compile(
    r"(^|/)(site-packages|dist-packages)/|/lib(64)?/python\d[\d.]*/|/python[\d.]*/lib/", re.IGNORECASE
)
_COMPILED = re.compile(r"/torchinductor_[^/]+/|/[a-z2-7]{2}/c[a-z2-7]{30,}\.py$")  # in its cache, or in another folder
_BUILT = re.compile(r"/pytorch/torch/")  # torch that runs where it was built
_TYPED_IN = re.compile(r"<(stdin|ipython-input)")  # other names in angle brackets are of code that a library made
COLLECTION = "Python GC"
DOINGS = ("collecting", "loading", "backward", "forward", "optimizer", LOOP, "step")
ENDS_AT_USERS_CODE = ("optimizer", LOOP)  # a closure's code, or a callback's, is the step's again
"""What a thread is doing; of two that hold, as in a forward pass that is run again in the backward pass, the first."""


def _made(doing: str, in_file: str, *whole: str) -> re.Pattern[str]:
    """Names that begin with `whole`, or whose file is one of torch's, `in_file`, or one of a framework's."""
    of_frameworks = (
        re.escape(path) + (rf"\(\d+\): {function}" if function else "")
        for each in FRAMEWORKS
        for path, function, name in each.frames
        if name == doing
    )
    return re.compile("|".join((*whole, rf"(.*/)?({'|'.join((in_file, *of_frameworks))})")))


def _any_of(paths: Iterable[str]) -> str:
    return "|".join(map(re.escape, paths))


_DONE_BY = {  # what the name of a call says of all that runs inside it
    "collecting": re.compile(COLLECTION),
    "loading": _made("loading", r"torch/utils/data"),
    "backward": _made(
        "backward", r"torch/(_tensor|autograd/\w+)\.py\(\d+\): \w*backward", r"<built-in method run_backward"
    ),
    "forward": _made("forward", r"torch/nn/modules/module\.py\(\d+\): \w*call_impl", r"nn\.Module: "),
    "optimizer": _made("optimizer", r"torch/optim/(?!lr_scheduler)"),
    LOOP: re.compile(rf"(.*/)?(?!{_any_of(WORK_OF_A_LINE)})({_any_of(LOOPS)})"),
}


_CALLS_HOOKS = re.compile(
    "|".join([r"<built-in method run_backward", *(rf"(.*/)?{re.escape(path)}\(\d+\): {of}" for path, of in CALL_HOOKS)])
)


def calls_hooks(name: str) -> bool:
    """Whether a user's function that a call of this name makes is a hook, unless it is a module's pass."""
    return _CALLS_HOOKS.match(name) is not None


def is_pass(frame: Frame) -> bool:
    """Whether a function of the user's that torch calls is a module's pass by its name."""
    return frame.function.endswith(PASS)


def user_frame(name: str) -> Frame | None:
    """The line of the user's code in an event of this name; None if it is a library's, C's, or no call."""
    call = _CALL.fullmatch(name)
    if call is None or name.startswith("nn.Module: "):
        return None
    file = call["file"]
    return None if is_of_library(file) else Frame(file, int(call["line"]), call["function"])


def is_of_library(file: str) -> bool:
    """Whether a file, named in full or without an entry of sys.path, is of Python, of a package, or made by one."""
    path = file.replace("\\", "/")
    if path.startswith("<"):
        return _TYPED_IN.match(path) is None
    if is_compiled(path) or any(pattern.search(path) for pattern in (_INSTALLED, _BUILT)):
        return True
    return not path.startswith("/") and path.split("/")[0].removesuffix(".py") in _libraries()


def is_compiled(file: str) -> bool:
    """Whether torch.compile has written a file: what runs in it is of the model's code."""
    return _COMPILED.search(file.replace("\\", "/")) is not None


def called(name: str) -> str:
    """The function, in C or in Python, that an event of this name calls, "" if it names none."""
    call = _IN_C.match(name) or _CALL.fullmatch(name)
    return call["function"] if call else ""


def doing_of(name: str) -> str:
    """The purpose of everything inside a call of this name, "" if the name does not show it."""
    return next((doing for doing, made_by in _DONE_BY.items() if made_by.match(name)), "")


@cache
def _libraries() -> frozenset[str]:
    listed = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return sys.stdlib_module_names.union(*listed.values(), *(each.packages for each in FRAMEWORKS))
