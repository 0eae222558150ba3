"""An armed run at one moment. Frozen; every form of it prints the same."""

from typing import Literal, get_args

import msgspec

from diagnose.commands.series.answer import SeriesReport
from diagnose.diagnosis import Diagnosis
from diagnose.facts import Fact

State = Literal["killed", "silent", "standing", "running", "ended", "waiting"]
STATES: tuple[State, ...] = get_args(State)
"""The states of a rank; that of a job is the first of these that a rank is in."""


class RankView(msgspec.Struct, frozen=True, kw_only=True):
    """A rank: its state and why, the steps that it has done, and the median of its last steps in seconds.

    `late_s` is how much later it ended a step than the first rank that ended the same one, by the clocks of their
    hosts; None if no step of the last ones is known of all ranks. `waited_share` is the part of the other ranks' steps
    that they waited for it in the last window, 0 if that does not name it; None without a diagnosis. The rest is as its
    log has it last, None if it does not: `goodput_share` is of the time of its process so far, `device_memory_bytes`
    the most that its tensors took, and `why_no_gpu` why nothing is read of its GPU, "" if it is.
    """

    rank: int
    host: str
    state: State
    says: str
    step: int
    now_s: float | None
    late_s: float | None
    waited_share: float | None
    goodput_share: float | None
    host_memory_bytes: float | None
    device_memory_bytes: float | None
    sm_clock_hz: float | None
    power_w: float | None
    why_no_gpu: str


class WindowView(msgspec.Struct, frozen=True, kw_only=True):
    """The last window that is diagnosed, else the last one: its first recorded step, and why it opened.

    `because` is why it has no diagnosis, "" if it has one. `newer` says what there is of a later window, "" if there
    is none.
    """

    first_step: int
    why: str
    diagnosis: Diagnosis | None
    because: str
    newer: str


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The run: `state` is that of its worst rank, and `says` why. `is_over`: nothing of it changes any more.

    `step` are the steps done by the rank that is behind all others, `total` those after which the loop ends, None if
    it does not say. `facts` are figures by name, each with its unit, and the reason where one is unknown. `ranks` are
    in the order of lateness. `series` is None before the first step. `missing` are ranks of the job without a log.
    """

    state: State
    says: str
    is_over: bool
    step: int
    total: int | None
    facts: tuple[Fact, ...]
    series: SeriesReport | None
    ranks: tuple[RankView, ...]
    missing: tuple[int, ...]
    window: WindowView | None
    problems: tuple[str, ...]

    def fact(self, name: str) -> Fact:
        """The figure of this name."""
        return next(fact for fact in self.facts if fact.name == name)
