"""A bare training loop with one known fault, and, in forked processes without the probe, how fast it is with and
without.

fault_job.py NAME RESULT.json

Two children, forked before CUDA starts, time the loop with the fault and with its remedy, one after the other. No child
is looked at by the probe. Then the parent trains with the fault: that is what `diagnose run` sees. Beside it nothing
computes, since the probe reads the machine to the end of the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from fault_loop import PLACE, TINY, train
from fault_table import FAULTS, options_of

LONG_S, SHORT_S = (2.5, 0.6) if TINY else (5.0, 2.0)
NOWHERE = Path(os.devnull)


def main() -> None:
    """Let the children go, one after the other, then train with the fault."""
    slow, fast = options_of(FAULTS[sys.argv[1]], TINY)
    children = {name: forked(options) for name, options in (("slow", slow), ("fast", fast))}
    done = {name: answered(*child) for name, child in children.items()}
    done["probed"] = probed(slow)
    Path(sys.argv[2]).write_text(json.dumps(done))
    if "failed" in done["probed"]:
        raise SystemExit(1)


def probed(options: dict[str, Any]) -> dict[str, Any]:
    """The loop under the probe."""
    with NOWHERE.open("w") as nowhere:
        prints = contextlib.redirect_stdout(nowhere) if options["prints"] else contextlib.nullcontext()
        try:
            with prints:
                seconds, units = train(options, LONG_S, 30)
        except Exception as error:
            return {"failed": f"{type(error).__name__}: {error}"[:300]}
    return {"step_ms": seconds * 1e3, "units_per_s": units / seconds}


def forked(options: dict[str, Any]) -> tuple[int, int, int]:
    """A child that waits for its turn: its process, what lets it go, and where it answers."""
    (gate, opens), (hears, answer) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(opens)
        child(options, gate, answer)
    os.close(gate)
    os.close(answer)
    return pid, opens, hears


def child(options: dict[str, Any], gate: int, answer: int) -> None:
    """Waits for the gate, trains with `options`, and answers; never returns."""
    told: dict[str, Any]
    try:
        os.read(gate, 1)
        os.environ.update(options.get("env") or {})
        for name in options.get("unset") or ():
            os.environ.pop(name, None)
        with NOWHERE.open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            seconds, units = train(options, SHORT_S, 6)
        peak = torch.cuda.max_memory_allocated() if PLACE == "cuda" else None
        told = {"step_ms": seconds * 1e3, "units_per_s": units / seconds, "peak": peak}
    except BaseException as error:
        told = {"failed": f"{type(error).__name__}: {error}"[:300]}
    os.write(answer, json.dumps(told).encode())
    os._exit(0)


def answered(pid: int, opens: int, hears: int) -> dict[str, Any]:
    """What the child says once it may go."""
    os.write(opens, b"g")
    content = b""
    while piece := os.read(hears, 65536):
        content += piece
    os.waitpid(pid, 0)
    found: dict[str, Any] = json.loads(content or b'{"failed": "no answer"}')
    return found


if __name__ == "__main__":
    main()
