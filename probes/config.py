"""What to capture: the settings that `diagnose run` hands to the training process, and who this process is."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

VARIABLE = "PYTHON_DIAGNOSE"


@dataclass(frozen=True)
class Config:
    """The window, counted in optimizer steps.

    Args:
        out: folder of the bundle.
        steps: profiled and recorded.
        warmup: profiled and thrown away.
        skip: steps after which the window opens even if step times have not settled.
        at_step: number of the first recorded step, from 1; None opens the window when step times settle.
        stop: end the job once the window is written.
        control: steps timed without the profiler, before and again after.
    """

    out: str
    steps: int = 3
    warmup: int = 2
    skip: int = 10
    at_step: int | None = None
    stop: bool = False
    control: int = 3


def from_environment() -> Config | None:
    """The settings in PYTHON_DIAGNOSE; None when this process is not to be captured.

    Raises:
        ValueError: the variable holds no JSON object.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    given = json.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"{VARIABLE} holds no JSON object")
    known = {field.name: given[field.name] for field in fields(Config) if given.get(field.name) is not None}
    known.setdefault("out", default_out())
    return Config(**known)


def default_out() -> str:
    """A folder named for the time, in UTC."""
    return str(Path("diagnose-runs") / time.strftime("%Y%m%d-%H%M%S", time.gmtime()))


def rank_and_world() -> tuple[int, int]:
    """This process's rank and the number of ranks: of the process group, else of the environment, else alone."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return _number("RANK", 0), _number("WORLD_SIZE", 1)


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else default
