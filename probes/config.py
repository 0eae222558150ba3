"""Settings of a capture, which `diagnose run` passes to the training process, and the rank of this process."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, fields
from typing import Any

from . import protocol


@dataclass(frozen=True)
class Config:
    """The window, counted in optimizer steps.

    Args:
        out: folder of the bundle; absolute if the parent gives it, since jobs change directory.
        steps: profiled and recorded; None leaves it to the number of ranks.
        warmup: profiled and thrown away.
        skip: steps after which the window opens even if step times have not settled.
        at_step: number of the first recorded step, from 1; None opens the window when step times settle.
        step_on: what ends a step in a loop without a trainer: an optimizer's step, or a backward pass.
        stop: end the job once the window is written.
        control: steps timed without the profiler, before and again after.
        sample_steps: steps in which the stack is sampled, at most; 0 samples none, None as many as the samples take.
        armed: the job is armed: what opens its windows, as `timing.triggers.Triggers` reads it; None captures one
            window.
        budget_bytes: the most text of a rank's trace, before it is compressed.
        ranks: which ranks record, as `chosen_ranks.parsed` reads it; None leaves it to their number.
        flight_recorder: whether torch's is armed, so that a job that hangs leaves what `diagnose hang` reads.
        looked_at_by: the `diagnose run` that reads stacks if the job stands still, as `timing.pulse.name_of` names it;
            None without one.
        pulse: whether each rank writes its progress for the `diagnose run` above; always if that reads stacks.
        deep: whether a second window follows, with stacks of Python and the history of allocations; in an armed run,
            another one at the next step of a stall that comes again and was recorded.
        memory: whether allocations are recorded, and a snapshot of them is written.
        log: the loggers of the trainer receive each window.
        nsight: Nsight Systems records the window, and torch's profiler stays off.
        command: the words that `diagnose run` was given to run, without secrets; None if they are not known.
        token: distinguishes this run's files from those of others; None without a `diagnose run`.
    """

    out: str
    steps: int | None = None
    warmup: int = protocol.WARMUP
    skip: int = protocol.SKIP
    at_step: int | None = None
    step_on: str = protocol.BY_OPTIMIZER
    stop: bool = False
    control: int = protocol.CONTROL
    sample_steps: int | None = None
    armed: dict[str, Any] | None = None
    budget_bytes: int = protocol.BUDGET_BYTES
    ranks: str | None = None
    flight_recorder: bool = True
    looked_at_by: dict[str, Any] | None = None
    pulse: bool = False
    deep: bool = False
    memory: bool = False
    log: bool = False
    nsight: bool = False
    command: list[str] | None = None
    token: str | None = None

    def steps_of(self, world_size: int) -> int:
        """How many steps each of so many ranks records, unless the budget cuts them."""
        usual = protocol.STEPS_OF_RANKS if world_size > 1 else protocol.STEPS
        return usual if self.steps is None else max(self.steps, 1)

    def to_json(self) -> str:
        """The settings as `from_environment` reads them."""
        return json.dumps(asdict(self))


def from_environment() -> Config | None:
    """The settings in PYTHON_DIAGNOSE; None when this process is not to be captured.

    Raises:
        ValueError: the variable holds no JSON object.
    """
    text = os.environ.get(protocol.CONFIG)
    if not text:
        return None
    given = json.loads(text)
    if not isinstance(given, dict):
        raise ValueError(f"{protocol.CONFIG} holds no JSON object")
    known = {field.name: given[field.name] for field in fields(Config) if given.get(field.name) is not None}
    known.setdefault("out", protocol.default_out())
    return Config(**known)


def rank_and_world_size() -> tuple[int, int]:
    """This process's rank and the number of ranks, from the process group, else the environment, else 0 and 1."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return _number("RANK", 0), _number("WORLD_SIZE", 1)


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else default
