"""The job's speed since the last log, its memory and its goodput, as figures for that log; reasons for unknown ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..machine.now import Machine, unread
from ..protocol import DATA_WAIT_RANGE, EVAL_RANGE, FIRST_BATCH_RANGE, OWN_RANGE, SAVE_RANGE
from ..recording.range_times import times
from ..recording.run_time import run_time
from .figures import PREFIX

BESIDE = (EVAL_RANGE, SAVE_RANGE, OWN_RANGE)  # what takes no time of a step
WAITING = (DATA_WAIT_RANGE, FIRST_BATCH_RANGE)
MOST_MFU = 1.0  # more is a window that was of other steps
NO_WINDOW = "no window has been analysed yet"
_ABOVE = "it came out above 100 %: the window was of other steps"
_PUNCTUAL = "the others waited for no rank in the last window"
_NO_START = "the start of this process was not seen"
_RATES = {"samples_per_s": "global_batch_samples", "tokens_per_s": "global_batch_tokens"}


class Live:
    """Steps and their time since the last figures, evaluations, saves and the probe's own work left out.

    Samples, tokens and FLOPs of a step are those of the last window that was analysed, so that rates agree with its
    report.

    Args:
        ran: nanoseconds by range so far.
        now: returns nanoseconds.
        machine: returns what the process holds and how its GPU runs.
        goodput: returns the nanoseconds of steps without what they wait for, and of the process so far.

    Attributes:
        unknown: by the names of the last figures that are not known, why.
        unlogged: why the last window has no tokens or FLOPs, by the names of the figures that need them.
        counts: what the FLOPs of the MFU count; "" if they are not known.
    """

    def __init__(
        self,
        ran: Mapping[str, int] = times.run,
        now: Callable[[], int] = time.perf_counter_ns,
        machine: Callable[[], Machine] = unread,
        goodput: Callable[[float], tuple[int, int] | None] = run_time.goodput,
    ) -> None:
        self._ran, self._now, self._machine, self._goodput = ran, now, machine, goodput
        self._steps = self._from = 0
        self._since: int | None = None
        self._spent: dict[str, int] = {}
        self._of_step: dict[str, float] = {}
        self._of_ranks: dict[str, float] = {}
        self._why = dict.fromkeys((*_RATES, "real_tokens_per_s", "mfu_percent", "slowest_rank"), NO_WINDOW)
        self.unknown: dict[str, str] = {}
        self.unlogged: dict[str, str] = {}
        self.counts = ""

    def step_ended(self) -> None:
        """Count a step; the first one, in which a job compiles and fills its caches, begins the count."""
        self._steps += 1
        if self._since is None:
            self.begins(self._steps, self._now())

    def begins(self, step: int, at_ns: int) -> None:
        """Begin the count behind this step, which ended at that time."""
        self._steps = self._from = step
        self._since = at_ns
        self._spent = {name: self._ran.get(name, 0) for name in (*BESIDE, *WAITING)}

    def is_behind(self, step: int) -> bool:
        """Whether steps up to this one are to be counted."""
        return self._since is not None and step > self._from

    def knows(self, diagnosis: Mapping[str, Any]) -> None:
        """Take what a step computes, and which rank is slow, from the diagnosis of a window."""
        facts, mfu = {fact["name"]: fact for fact in diagnosis["facts"]}, diagnosis["mfu"]
        told = {figure: facts[name] for figure, name in _RATES.items()}
        tokens, padding = told["tokens_per_s"], facts["padding_share"]
        self._of_step = {name: fact["value"] for name, fact in told.items() if fact["value"] is not None}
        self._why = {name: fact["because"] for name, fact in told.items()}
        self._why["real_tokens_per_s"] = tokens["because"] or padding["because"]
        if tokens["value"] is not None and padding["value"] is not None:
            self._of_step["real_tokens_per_s"] = tokens["value"] * (1 - padding["value"])
        self._knows_mfu(mfu)
        self.unlogged = {name: self._why[name] for name in ("tokens_per_s", "mfu_percent") if name not in self._of_step}
        self._knows_ranks(diagnosis["stragglers"], len(diagnosis["ranks"]))

    def scalars(self, samples: float | None) -> dict[str, float]:
        """Figures by name since the last call, of `samples` in a step of all ranks; unknown ones are left out."""
        if not self.is_behind(self._steps):
            return {}
        times.look()
        found = self.figures(self._steps, self._now(), samples)
        return {f"{PREFIX}live_{name}": value for name, value in found.items()}

    def figures(self, step: int, at_ns: int, samples: float | None = None) -> dict[str, float]:
        """The same at the end of this step, by the bare names; they are counted from there on."""
        grown = {name: self._ran.get(name, 0) - before for name, before in self._spent.items()}
        assert self._since is not None
        spent_ns = at_ns - self._since - sum(grown[name] for name in BESIDE)
        step_s = spent_ns / max(step - self._from, 1) / 1e9
        self.begins(step, at_ns)
        if step_s <= 0:
            return {}
        self.unknown = dict(self._why)
        waited = 100 * sum(grown[name] for name in WAITING) / spent_ns
        of_step = self._of_step if samples is None else {**self._of_step, "samples_per_s": samples}
        found = {"step_ms": 1e3 * step_s, "waiting_percent": min(waited, 100.0)}
        found |= self._rates(of_step, step_s) | self._of_ranks | self._of_process(1e9 * step_s)
        self.unknown = {name: why for name, why in self.unknown.items() if name not in found}
        return found

    def _knows_mfu(self, mfu: Mapping[str, Any]) -> None:
        flops, peak = mfu["model_flops_per_step"], mfu["peak_flops"]
        self._why["mfu_percent"], self.counts = mfu["reason"], mfu["numerator"]
        if flops and peak and mfu["value"] is not None:
            self._of_step["mfu_percent"] = 100 * flops / peak
            self._why["mfu_percent"] = _ABOVE

    def _knows_ranks(self, late: list[Mapping[str, Any]], ranks: int) -> None:
        self._of_ranks = {}
        self._why["slowest_rank"] = _PUNCTUAL if ranks > 1 else "the window is of one rank"
        if late:
            slowest = max(late, key=lambda one: one["share"])
            self._of_ranks = {"slowest_rank": slowest["rank"], "waited_for_percent": 100 * slowest["share"]}

    def _rates(self, of_step: Mapping[str, float], step_s: float) -> dict[str, float]:
        """Each amount of a step per second."""
        found = {name: amount / step_s for name, amount in of_step.items()}
        if found.get("mfu_percent", 0.0) > 100 * MOST_MFU:
            del found["mfu_percent"]
        return found

    def _of_process(self, step_ns: float) -> dict[str, float]:
        """Memory, GPU and goodput."""
        machine, spent = self._machine(), self._goodput(step_ns)
        self.unknown |= machine.unknown
        if spent is None:
            self.unknown["goodput_percent"] = _NO_START
            return dict(machine.figures)
        return {**machine.figures, "goodput_percent": 100 * spent[0] / spent[1]}
