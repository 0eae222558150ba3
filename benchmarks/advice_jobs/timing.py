"""What each job shares: its options, and the time of its steps."""

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


class Steps:
    """Times the steps of a loop; the first ones warm up."""

    def __init__(self) -> None:
        self._ended_ns: list[int] = []

    def ended(self) -> None:
        """A step has ended."""
        self._ended_ns.append(time.perf_counter_ns())

    def report(self) -> None:
        """Print the mean of the steps behind the warm-up: what comes every few steps counts with its share."""
        timed = self._ended_ns[WARM_UP:]
        if len(timed) > 1 and os.environ.get("RANK", "0") == "0":
            print(f"mean_step_ns {(timed[-1] - timed[0]) // (len(timed) - 1)}", flush=True)
