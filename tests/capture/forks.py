"""Interpreters that imported torch once: each script runs in a fork of one, without seconds of importing it again.

As a script, `forks.py MODULE...` is such an interpreter: one line of JSON on stdin for each script to run, and its exit
code on stdout. The script is its `__main__`, and ends it as it would end an interpreter of its own: exit code, signals
and exit handlers are the same. Only the memory is not taken apart at the end, which takes longer than all else: who
asks about that needs a fresh interpreter.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NoReturn

PROBES = ("session", "hooks.torch_hooks", "trainers.transformers_trainer")  # which hook nothing until they are asked
TORCH = ("torch", "torch._dynamo", "torch.profiler", *(f"diagnose.probes.{name}" for name in PROBES))
TRANSFORMERS = (*TORCH, "accelerate", "transformers.trainer", "transformers.models.llama.modeling_llama")
_IMPORTS_TRANSFORMERS = re.compile(r"^\s*(from|import) (transformers|accelerate)\b", re.MULTILINE)


def run(script: Path, environment: dict[str, str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run `script` with its folder as its argument."""
    imports = TRANSFORMERS if _IMPORTS_TRANSFORMERS.search(script.read_text()) else TORCH
    forking = _started(imports)
    out, err = script.with_suffix(".out"), script.with_suffix(".err")
    print(json.dumps([str(script), str(out), str(err), environment]), file=forking.stdin, flush=True)
    if not select.select([forking.stdout], [], [], timeout_s)[0]:
        _end(forking)
        _started.cache_clear()
        raise subprocess.TimeoutExpired(str(script), timeout_s, out.read_text(), err.read_text())
    code = int(forking.stdout.readline())  # type: ignore[union-attr]
    return subprocess.CompletedProcess([str(script)], code, out.read_text(), err.read_text())


@cache
def _started(imports: tuple[str, ...]) -> subprocess.Popen[str]:
    forking = subprocess.Popen(
        [sys.executable, "-P", __file__, *imports],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(_end, forking)
    return forking


def _end(forking: subprocess.Popen[str]) -> None:
    if forking.poll() is None:
        os.killpg(forking.pid, signal.SIGKILL)  # and a script that hangs
        forking.communicate()


def _script_of_a_fork() -> str:
    """The script that this fork is to run; the interpreter that forks stays here until its stdin ends."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return _prepared(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    raise SystemExit


def _prepared(script: str, out: str, err: str, environment: dict[str, str]) -> str:
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [script, str(Path(script).parent)]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    return script


def _end_of_a_fork(code: int) -> NoReturn:
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()  # else each fork copies all of it, at the latest when it ends
    path = _script_of_a_fork()
    sys.modules["__main__"] = main = ModuleType("__main__")
    main.__file__ = path
    code = None
    try:
        exec(compile(Path(path).read_text(), path, "exec"), vars(main))
    except SystemExit as ended:
        code = ended.code
        if not isinstance(code, int | None):
            raise
    _end_of_a_fork(code or 0)
