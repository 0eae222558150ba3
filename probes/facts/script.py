"""The lines that set a job up, read from the text of its own modules: options, calls, and the keys of Hydra's config.

Nothing of the job runs for it: its modules are known by their files, and these are parsed.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any

from ..guard import quietly
from ..introspection import INSTALLED, attributes
from ..redaction import is_secret_name

_MOST_FILES, _LARGEST, _MOST_TEXT = 64, 200_000, 500_000  # characters; parsing takes half a second for a million
_MOST_OPTIONS, _MOST_CALLS, _MOST_KEYS = 256, 64, 512
_CALLS = (
    "DataLoader",
    "DistributedDataParallel",
    "Accelerator",
    "Trainer",
    "from_pretrained",
    "HfArgumentParser",
    "TrlParser",
    "LightningCLI",
    "hydra.main",
)
_ENDS = ("TrainingArguments",)
_OPTION = ("add_argument", "option")  # of argparse and of click
_TAKES_NOTHING = ("store_true", "store_false", "BooleanOptionalAction")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_KNOWN_ESCAPES = "\n\r\\'\"abfnrtvxuUN01234567"  # Python warns of any other, and the job would see the warning
_KEY = re.compile(r"(?P<indent> *)(?P<key>[\w.-]+):(?: +(?P<value>\S.*))?\Z")


def script_facts(optimizer: object) -> dict[str, object] | None:
    """The options and the calls of the job's own modules, with their lines; None if no text of them can be read.

    Args:
        optimizer: whose class is one of the calls that are looked for.
    """
    wanted = {*_CALLS, *([type(optimizer).__name__] if optimizer is not None else ())}
    options: list[dict[str, object]] = []
    calls: list[dict[str, object]] = []
    files = list(_texts())
    for file, text in files:
        for call in _calls_in(text) if any(word in text for word in (*wanted, *_ENDS, *_OPTION)) else ():
            place = {"file": file, "line": call.lineno}
            name = _name_of(call.func)
            if name.rpartition(".")[2] in _OPTION and (option := _option(call)):
                options.append({**option, **place})
            elif (known := name if name in wanted else name.rpartition(".")[2]) in wanted or known.endswith(_ENDS):
                calls.append({"name": known, **place})
    found = {"options": options[:_MOST_OPTIONS], "calls": calls[:_MOST_CALLS], "config": quietly(_hydra_config)}
    return found if files else None


def _texts() -> Iterator[tuple[str, str]]:
    """The name and the text of each Python file of the job's own: of its main module, and of what is not installed."""
    seen: set[str] = set()
    total = 0
    library = (sysconfig.get_paths()["stdlib"], os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for name, module in [("__main__", sys.modules.get("__main__")), *sys.modules.items()]:
        path = attributes(module).get("__file__")
        if type(path) is not str or not path.endswith(".py") or path in seen or len(seen) >= _MOST_FILES:
            continue
        path = os.path.abspath(path)
        installed = path.startswith(library) or any(part in INSTALLED for part in path.split(os.sep))
        if (installed and name != "__main__") or path in seen or name.startswith("diagnose."):
            continue
        seen.add(path)
        text = quietly(lambda path=path: _read(path))  # type: ignore[misc]
        if type(text) is str and total + len(text) <= _MOST_TEXT:
            total += len(text)
            near = os.path.relpath(path)
            yield (os.path.basename(path) if near.startswith("..") else near), text


def _read(path: str) -> str | None:
    if os.path.getsize(path) > _LARGEST:
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def _calls_in(text: str) -> list[ast.Call]:
    """The calls in a file, in the order of its lines; none in a text that is no Python."""
    plain = _ESCAPE.sub(lambda pair: pair[0] if pair[1] in _KNOWN_ESCAPES else f"/{pair[1]}", text)
    try:
        calls = [node for node in ast.walk(ast.parse(plain)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError):
        return []
    return sorted(calls, key=lambda call: call.lineno)


def _name_of(called: ast.expr) -> str:
    """`hydra.main`, `DataLoader`: the last two parts of what is called."""
    if isinstance(called, ast.Name):
        return called.id
    if isinstance(called, ast.Attribute):
        return f"{called.value.id}.{called.attr}" if isinstance(called.value, ast.Name) else called.attr
    return ""


def _option(call: ast.Call) -> dict[str, object] | None:
    """The flags of an option, whether a value follows, and its default if that is a number or a flag."""
    words = [word.value for word in call.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    flags = [flag for word in words for flag in word.split("/") if re.match(r"--?[A-Za-z][\w-]*\Z", flag)]
    if not flags:
        return None
    given = {word.arg: word.value for word in call.keywords if word.arg}
    default = given.get("default")
    value = default.value if isinstance(default, ast.Constant) and type(default.value) in (bool, int, float) else None
    value = None if any(map(is_secret_name, flags)) else value
    return {"flags": flags, "takes": _takes(given), "default": value}


def _takes(given: dict[str, ast.expr]) -> str:
    """Words that follow the option: "nothing", "value", "maybe" one, or "values"."""
    action, nargs = given.get("action"), given.get("nargs")
    name = action.value if isinstance(action, ast.Constant) else _name_of(action).rpartition(".")[2] if action else ""
    is_flag = given.get("is_flag")
    if name in _TAKES_NOTHING or (isinstance(is_flag, ast.Constant) and is_flag.value is True):
        return "nothing"
    if isinstance(nargs, ast.Constant):
        return "maybe" if nargs.value == "?" else "values" if nargs.value is not None else "value"
    return "value"


def _hydra_config() -> dict[str, object] | None:
    """The keys of the config that Hydra composed, with numbers, flags and targets; None without Hydra."""
    module: Any = sys.modules.get("hydra.core.hydra_config")
    if module is None:
        return None
    runtime = module.HydraConfig.get()
    folder = runtime.runtime.output_dir
    text = _read(os.path.join(folder, runtime.output_subdir, "config.yaml"))
    return dict(list(_keys(text or "").items())[:_MOST_KEYS])


def _keys(text: str) -> dict[str, object]:
    """The dotted keys of a YAML text as Hydra writes it: nested by indentation, one key a line."""
    found: dict[str, object] = {}
    outer: list[tuple[int, str]] = []
    for line in text.splitlines():
        entry = _KEY.match(line)
        if entry is None:
            continue
        indent = len(entry["indent"])
        outer = [(at, key) for at, key in outer if at < indent]
        path = ".".join([*(key for _, key in outer), entry["key"]])
        outer.append((indent, entry["key"]))
        if entry["value"] is not None:
            found[path] = _value(entry["key"], entry["value"])
    return found


def _value(key: str, text: str) -> object:
    """A number or a flag, or the name of a class to make; None of any other value, which may be a secret."""
    if is_secret_name(key):
        return None
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?\d{1,15}", text):
        return int(text)
    return text if key == "_target_" and re.fullmatch(r"[\w.]{1,120}", text) else None
