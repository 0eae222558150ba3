"""Detect from outside that a job stands still, by the steps that its ranks on this host report as done.

The ranks write them once a second (`probes/timing/pulse`); this process's own clock times the changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose.decoding import MOST_COUNT, finite
from diagnose.probes.bundle.claim import json_object
from diagnose.probes.protocol import PULSE, rank_in

TIMES = 10  # the usual step time
WITHOUT_USUAL_S = 300.0  # the first steps compile, and search for kernels
MOST = 8  # in a run
_PARENT, _STARTED = 1, 19  # in /proc/PID/stat, counted from behind the name of the process
_DEEPEST = 64


@dataclass(frozen=True)
class RankPulse:
    """A live rank of this host: its process, the steps it has done (None outside a loop), their usual time or 0."""

    rank: int
    pid: int
    step: int | None
    usual_s: float


@dataclass(frozen=True)
class Standstill:
    """No rank of this host has ended a step for `for_s` seconds; `step` is the last step that a rank ended, None before
    any.

    `timed_out` says that a call of a collective timed out, as a dump shows.
    """

    step: int | None
    for_s: float
    usual_s: float
    timed_out: bool = False


class Watch:
    """Judge from the pulses, called again and again, whether the job stands still.

    A standstill that ends by itself is how the job runs, as evaluations between steps are: the next one has to be twice
    as long. So a run has few of them, and `MOST` at most.

    Args:
        least_s: the job stands still if no step has ended for so long, and for `TIMES` the usual step time.

    Attributes:
        stands: the standstill, as long as it lasts.
    """

    def __init__(self, least_s: float) -> None:
        self.stands: Standstill | None = None
        self._least_s = least_s
        self._steps: dict[int, int] = {}
        self._moved_s = 0.0
        self._dumps = self._count = 0

    def look(self, now_s: float, pulses: Sequence[RankPulse], dumps: int) -> None:
        """Take in the pulses of the ranks at `now_s`, and the number of dumps of torch's flight recorder until then."""
        steps = {pulse.rank: pulse.step for pulse in pulses if pulse.step is not None}
        moved = any(step != self._steps.get(rank) for rank, step in steps.items())
        timed_out, self._dumps, self._steps = dumps > self._dumps, max(dumps, self._dumps), steps
        if moved:
            if self.stands is not None and not self.stands.timed_out:
                self._least_s = max(self._least_s, 2 * (now_s - self._moved_s))
            self.stands, self._moved_s = None, now_s
        usual_s = max((pulse.usual_s for pulse in pulses), default=0.0)
        limit_s = patience_s(self._least_s, usual_s)
        for_s = now_s - self._moved_s if steps else 0.0
        if self.stands is None and self._count < MOST and (timed_out or for_s >= limit_s):
            self._count += 1
            self.stands = Standstill(max(steps.values(), default=None), for_s, usual_s, timed_out)


def patience_s(least_s: float, usual_s: float) -> float:
    """The seconds without a step after which a job stands still; a usual step of 0 seconds is not known."""
    return max(least_s, TIMES * usual_s if usual_s else WITHOUT_USUAL_S)


def pulses(scratch: Path, host: str, above: int, proc: Path = Path("/proc")) -> list[RankPulse]:
    """The ranks with a pulse file in `scratch` that run on `host`, live, and descend from the process `above`."""
    found = []
    for path in sorted(scratch.glob(PULSE.format("*"))):
        rank, told = rank_in(path.name, PULSE), json_object(path)
        if rank is None or told is None or told.get("host") != host:
            continue
        pid, started = _whole(told.get("pid"), 2, MOST_COUNT), _whole(told.get("started"), 0, MOST_COUNT)
        if pid is not None and started is not None and _lives(pid, started, above, proc):
            usual_s = (finite(told.get("usual_us"), 0, MOST_COUNT) or 0.0) / 1e6
            found.append(RankPulse(rank, pid, _whole(told.get("step"), 0, MOST_COUNT), usual_s))
    return found


def _lives(pid: int, started: int, above: int, proc: Path) -> bool:
    """Whether the process is the one that wrote the pulse, and descends from this command."""
    stat = _stat(pid, proc)
    if len(stat) <= _STARTED or stat[_STARTED] != str(started):
        return False
    for _ in range(_DEEPEST):
        if pid == above:
            return True
        stat = _stat(pid, proc)
        if len(stat) <= _PARENT or not stat[_PARENT].isdecimal():
            return False
        pid = int(stat[_PARENT])
    return False


def _whole(value: object, low: int, high: int) -> int | None:
    return value if type(value) is int and low <= value <= high else None


def _stat(pid: int, proc: Path) -> list[str]:
    try:
        return (proc / str(pid) / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
