"""The steps and ranks that this window may record: by choice of ranks, the budget, and the size of a step's trace."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ..config import Config, rank_and_world_size
from ..guard import quietly
from ..machine.cores import local_ranks
from ..protocol import STEPS
from ..threaded import run_in_thread
from .capture_size import CaptureChoice, TrialStep, fitted, shown
from .chosen_ranks import ONE_PER_NODE, left_out, recorded
from .room import collective_timeout_s, limits

_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_TEXT_PER_NODE, _TEXT_PER_NODE_ON_A_GPU = 3_000, 10_000  # bytes, without shapes: operators, and launches with kernels


class Allowance:
    """Asked by the recorder, before the first recorded step; counts the nodes of autograd's graph, which costs nothing.

    Attributes:
        asked_steps: the steps that were to be recorded, 0 before a window opens.
        choice: the steps and the content that are recorded.
        left_out: why this rank records nothing by choice, "" if it does.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._seen: tuple[int, int] | None = None
        self.begins(0)

    def begins(self, steps: int) -> None:
        """Begin a window of `steps` steps."""
        self.asked_steps, self.choice, self.left_out = steps, CaptureChoice(steps), ""

    def look(self, step: int) -> None:
        """Note the graph's nodes at the end of the job's step `step`, some steps before the window."""
        count = quietly(_nodes)
        self._seen = (step, count) if isinstance(count, int) else None

    def refuses(self, step: int) -> bool:
        """Whether nothing is to be recorded, not even a trial; the job has done `step` steps."""
        rank, world_size = rank_and_world_size()
        why = left_out(rank, world_size, self._config.ranks, _local_rank())
        text = self._text_of_a_step(step)
        if not why and text > self._config.budget_bytes:
            budget = shown(self._config.budget_bytes)
            why = f"by its operators a step takes about {shown(text)} of text, and the budget is {budget}"
        self._keep(CaptureChoice(0, False, None, why) if why else self.choice)
        return bool(why)

    def decide(self, trial: TrialStep, folder: Path) -> CaptureChoice:
        """Choose what to record, from a trial step."""
        _, world_size = rank_and_world_size()
        alone = self._config.ranks == ONE_PER_NODE
        ranks = 1 if alone else min(local_ranks(os.environ, world_size) or 1, self._recorded())
        timeout_s = quietly(collective_timeout_s)
        timeout_s = timeout_s if isinstance(timeout_s, float) else None
        allowed = run_in_thread(lambda: limits(self._config.budget_bytes, folder, ranks, timeout_s))
        enough = STEPS if self._config.steps is None else None
        self._keep(fitted(trial, self.asked_steps, allowed, _local_rank() == 0, enough))
        return self.choice

    def facts(self) -> dict[str, object]:
        """The allowance as the record has it."""
        return {
            "budget_bytes": self._config.budget_bytes,
            "ranks": self._config.ranks,
            "recorded_ranks": self._recorded(),
            **self.choice.facts(self.asked_steps),
        }

    def _recorded(self) -> int:
        _, world_size = rank_and_world_size()
        return recorded(world_size, self._config.ranks, local_ranks(os.environ, world_size))

    def _keep(self, choice: CaptureChoice) -> None:
        self.choice = choice
        self.left_out = "" if choice.steps else choice.because

    def _text_of_a_step(self, step: int) -> int:
        count = quietly(_nodes)
        if self._seen is None or not isinstance(count, int) or step <= self._seen[0]:
            return 0
        torch: Any = sys.modules["torch"]
        each = _TEXT_PER_NODE_ON_A_GPU if torch.cuda.is_initialized() else _TEXT_PER_NODE
        return (count - self._seen[1]) * each // (step - self._seen[0])


def _nodes() -> int:
    """Nodes that this thread has put into autograd's graph so far."""
    torch: Any = sys.modules["torch"]
    return int(torch.autograd._get_sequence_nr())


def _local_rank() -> int | None:
    text = next((os.environ[name] for name in _LOCAL_RANK if os.environ.get(name)), "")
    return int(text) if text.isdecimal() else None
