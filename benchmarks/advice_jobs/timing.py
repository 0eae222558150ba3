"""What each job shares: its options, where it runs, and the time of its steps."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

WARM_UP = 8


def options(**defaults: Any) -> dict[str, Any]:
    """The defaults, with those of the command line (`workers=4`) in their place, of the same types."""
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    return {name: _like(usual, given[name]) if name in given else usual for name, usual in defaults.items()}


def _like(usual: Any, text: str) -> Any:
    """A text may stand without its quotes."""
    return text if isinstance(usual, str) and not text.startswith('"') else type(usual)(json.loads(text))


def place() -> str:
    """The device of a job: the GPU where torch sees one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def where() -> str:
    """What a report says of the machine: its cores, and the GPU that the jobs run on."""
    import torch

    cores = f"{os.cpu_count()} cores"
    return f"{cores} and one {torch.cuda.get_device_name()}" if torch.cuda.is_available() else cores


class Steps:
    """Times the steps of a loop; the first ones warm up."""

    def __init__(self) -> None:
        self._ended_ns: list[int] = []

    def ended(self) -> None:
        """A step has ended on the host. The device is waited for once, where the warm-up ends."""
        if len(self._ended_ns) == WARM_UP:
            settle()
        self._ended_ns.append(time.perf_counter_ns())

    def report(self) -> None:
        """Print the mean of the steps behind the warm-up: what comes every few steps counts with its share."""
        settle()
        timed, ended_ns = self._ended_ns[WARM_UP:], time.perf_counter_ns()
        if len(timed) > 1 and os.environ.get("RANK", "0") == "0":
            last_ns = ended_ns if place() == "cuda" else timed[-1]
            print(f"mean_step_ns {(last_ns - timed[0]) // (len(timed) - 1)}", flush=True)


def settle() -> None:
    """Wait until the device has nothing left to do."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
