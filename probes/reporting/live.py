"""The job's speed since the Trainer's last log, as figures for the same log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..protocol import DATA_WAIT_RANGE, EVAL_RANGE, FIRST_BATCH_RANGE, OWN_RANGE, SAVE_RANGE
from ..recording.range_times import times
from .figures import PREFIX

BESIDE = (EVAL_RANGE, SAVE_RANGE, OWN_RANGE)  # what takes no time of a step
WAITING = (DATA_WAIT_RANGE, FIRST_BATCH_RANGE)
MOST_MFU = 1.0  # more is a window that was of other steps


class Live:
    """Steps and their time since the last call of `scalars`, evaluations, saves and the probe's own work left out.

    Tokens and FLOPs of a step are those of the last window that was analysed, so that rates agree with its report.
    """

    def __init__(self, ran: Mapping[str, int] = times.run, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._ran, self._now = ran, now
        self._steps, self._since, self._spent = 0, 0, dict.fromkeys((*BESIDE, *WAITING), 0)
        self._tokens: float | None = None
        self._flops_share: float | None = None  # seconds of a step at the peak

    def step_ended(self) -> None:
        """Count a step; the first one, in which a job compiles and fills its caches, begins the count."""
        if not self._since:
            self._begin()
        else:
            self._steps += 1

    def knows(self, diagnosis: Mapping[str, Any], ranks: int) -> None:
        """Take what a step computes from the diagnosis of a window of so many ranks."""
        mfu = diagnosis["mfu"]
        flops, peak, tokens = (mfu.get(name) for name in ("model_flops_per_step", "peak_flops", "tokens_per_step"))
        self._flops_share = flops / peak if flops and peak and mfu.get("value") is not None else None
        self._tokens = tokens * ranks if tokens else None

    def scalars(self, samples: float | None) -> dict[str, float]:
        """Figures by name since the last call, of `samples` in a step of all ranks; unknown ones are left out."""
        if not self._steps:
            return {}
        times.look()
        grown = {name: self._ran.get(name, 0) - before for name, before in self._spent.items()}
        spent_ns = self._now() - self._since - sum(grown[name] for name in BESIDE)
        step_s = spent_ns / self._steps / 1e9
        self._begin()
        if step_s <= 0:
            return {}
        found = {"step_ms": 1e3 * step_s, "waiting_percent": 100 * sum(grown[name] for name in WAITING) / spent_ns}
        return {f"{PREFIX}live_{name}": value for name, value in (found | self._rates(step_s, samples)).items()}

    def _rates(self, step_s: float, samples: float | None) -> dict[str, float]:
        found = {"samples_per_s": samples / step_s} if samples else {}
        if self._tokens is not None:
            found["tokens_per_s"] = self._tokens / step_s
        if self._flops_share is not None and self._flops_share / step_s <= MOST_MFU:
            found["mfu_percent"] = 100 * self._flops_share / step_s
        return found

    def _begin(self) -> None:
        self._steps, self._since = 0, self._now()
        self._spent = {name: self._ran.get(name, 0) for name in self._spent}
