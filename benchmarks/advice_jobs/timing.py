"""What each job shares: its options, where it runs, the time of its steps, and which samples it has trained on."""

from __future__ import annotations

import hashlib
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


class Samples:
    """A digest of the rows that the model was trained on, whatever their order; ranks add theirs up."""

    def __init__(self) -> None:
        self._sum, self._count = 0, 0

    def saw(self, rows: Any, mask: Any = None) -> None:
        """Rows of a batch; of each only what the mask keeps. A GPU would be waited for, so there none is counted."""
        if rows.is_cuda:
            return
        rows, mask = rows.detach().numpy(), None if mask is None else mask.numpy().astype(bool)
        for at, row in enumerate(rows):
            kept = row if mask is None else row[mask[at]]
            self._sum += int.from_bytes(hashlib.blake2b(kept.tobytes(), digest_size=8).digest(), "little")
            self._count += 1

    def watch(self, model: Any) -> None:
        """Count what the model is called with in training: its first tensor, or `input_ids` without the padding."""
        import torch

        def called(module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            if module.training and torch.is_grad_enabled():
                self.saw(named.get("input_ids", inputs[0] if inputs else None), named.get("attention_mask"))

        model.register_forward_pre_hook(called, with_kwargs=True)

    def report(self) -> None:
        """Print their sum and count, of this rank, in one write: ranks share the output."""
        if self._count:
            print(f"samples {self._sum % 2**64} {self._count}\n", end="", flush=True)


class Steps:
    """Times the steps of a loop; the first ones warm up. None do in a `whole` run, whose compilations count, too."""

    def __init__(self, whole: bool = False) -> None:
        self._ended_ns: list[int] = [time.perf_counter_ns()] if whole else []
        self._warm_up = 0 if whole else WARM_UP

    def ended(self) -> None:
        """A step has ended on the host. The device is waited for once, where the warm-up ends."""
        if len(self._ended_ns) == self._warm_up:
            settle()
        self._ended_ns.append(time.perf_counter_ns())

    def report(self) -> None:
        """Print the mean of the steps behind the warm-up: what comes every few steps counts with its share."""
        settle()
        timed, ended_ns = self._ended_ns[self._warm_up :], time.perf_counter_ns()
        if len(timed) > 1 and os.environ.get("RANK", "0") == "0":
            last_ns = ended_ns if place() == "cuda" else timed[-1]
            print(f"mean_step_ns {(last_ns - timed[0]) // (len(timed) - 1)}\n", end="", flush=True)


def settle() -> None:
    """Wait until the device has nothing left to do."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
