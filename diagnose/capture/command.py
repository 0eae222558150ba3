"""The command of `diagnose run`: the words to execute, and its environment."""

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from diagnose.capture.folder import has_siblings
from diagnose.patch.patch_file import Request
from diagnose.probes.config import Config
from diagnose.probes.protocol import CONFIG, MARKS, PATCH, PIPELINE
from diagnose.probes.redaction import words_without_secrets

_LONGEST_COMMAND = 8192  # characters: it travels in the environment of every process of the job
_COERCED = {"C.UTF-8", "C.utf8", "UTF-8"}
_INTERPRETERS = ("python", "pypy")
_BLOCK = Path("/proc/self/environ")  # as it was when this process started


def inherited_environment() -> dict[str, str]:
    """The environment this process was started with: without the locale that Python itself has put there (PEP 538)."""
    env = dict(os.environ)
    if env.get("LC_CTYPE") in _COERCED:
        with contextlib.suppress(OSError):
            if b"LC_CTYPE" not in {entry.split(b"=")[0] for entry in _BLOCK.read_bytes().split(b"\0")}:
                del env["LC_CTYPE"]
    return env


def resolved(command: Sequence[str]) -> list[str]:
    """The command as executed: a script or `-m` gets our interpreter, the rest is run as is.

    A program that is not on PATH is looked for in the folder of our interpreter: environments are often used without
    activation.
    """
    first = command[0]
    if first == "-m" or first.endswith((".py", ".pyw")):
        return [sys.executable, *command]
    beside = Path(sys.executable).parent / first
    if os.sep not in first and shutil.which(first) is None and beside.is_file():
        return [str(beside), *command[1:]]
    return list(command)


def recorded(command: Sequence[str], env: Mapping[str, str]) -> list[str] | None:
    """The words of the command as the record holds them, without secrets.

    None if they do not start the whole job, since a launcher starts a `diagnose run` for each rank, or if they are no
    text, or too long to be passed on.
    """
    is_text = all(word.isprintable() or word.encode(errors="replace").decode() == word for word in command)
    if has_siblings(env) or not is_text or sum(map(len, command)) > _LONGEST_COMMAND:
        return None
    return words_without_secrets(command)


def environment(
    inherited: Mapping[str, str], config: Config, marks: Path, patch: Request | None = None
) -> dict[str, str]:
    """The job's environment: Python in it runs our sitecustomize at start, which applies the patch.

    `marks` is the folder in which the hooked processes record how far they got.
    """
    ours = {CONFIG: config.to_json(), MARKS: str(marks)}
    if patch is not None:
        return hooked({**inherited, **patch.variables(inherited)}, {**ours, PATCH: patch.to_json()})
    return hooked(inherited, ours)


def hooked(inherited: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Python runs our sitecustomize, with `ours` as the only variables of diagnose.

    Our folder goes before what PYTHONPATH holds; an empty entry there is the current folder and stays one.
    """
    bootstrap = str(bootstrap_folder())
    others = inherited.get("PYTHONPATH", "")
    while others == bootstrap or others.startswith(bootstrap + os.pathsep):  # below another `diagnose run`
        others = others[len(bootstrap) + 1 :]
    path = bootstrap + os.pathsep + others if others else bootstrap
    others_of_us = (CONFIG, MARKS, PATCH, PIPELINE)
    kept = {name: text for name, text in inherited.items() if name not in others_of_us}
    return {**kept, "PYTHONPATH": path, **ours}


def bootstrap_folder() -> Path:
    """The folder of the sitecustomize."""
    spec = importlib.util.find_spec("diagnose.probes.bootstrap")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the installation has no diagnose.probes.bootstrap")
    return Path(spec.submodule_search_locations[0]).resolve()


def ignores_our_hook(argv: Sequence[str]) -> str | None:
    """The option that makes the interpreter ignore PYTHONPATH or sitecustomize; None if there is none."""
    if not Path(argv[0]).name.startswith(_INTERPRETERS):
        return None
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            return None
        if word.startswith("--"):
            continue
        for i, letter in enumerate(word[1:], start=1):
            if letter in "IES":
                return f"-{letter}"
            if letter in "cm":
                return None
            if letter in "WX":  # these take a value: the rest of the word, else the next one
                if i == len(word) - 1:
                    next(words, None)
                break
    return None
