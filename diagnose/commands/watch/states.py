"""Whether a rank runs, stands still, is silent, was killed or has ended: a pure function of its log and who writes it.

A clock of another machine is never compared with that of this one.
"""

import platform
from collections.abc import Sequence

from diagnose.capture.standstill import patience_s
from diagnose.commands.watch.step_logs import SeenLog
from diagnose.commands.watch.view import STATES, State
from diagnose.facts import duration
from diagnose.probes.timing.step_log import BLOCK_S
from diagnose.series.timing_log import TimingLog

_TIMES = 3  # what is written late now and then is not silent
LEFT_ALONE_S = 600.0  # after the end of a loop: another one, or the end of the process, may come until then
GIVEN_UP_S = 3600.0  # of silence

Told = tuple[State, str]


def state_of(seen: SeenLog, log: TimingLog, usual_s: float, is_tidied: bool) -> Told:
    """The state of a rank, and why; its usual step takes `usual_s`, 0 if unknown.

    If the run `is_tidied`, its `diagnose run` has ended.
    """
    lives = _lives(seen, log)
    stood_s, silent_s = _stood_s(log), _silent_from_s(log, usual_s)
    if log.ended:
        return "ended", log.why_ended
    if lives is False or (is_tidied and not lives):
        return "killed", "no process writes its log, which has no end: killed, or it could not write the end"
    if seen.quiet_s > silent_s:
        return "silent", f"nothing written for {_spoken(seen.quiet_s)}: {_why_silent(lives)}"
    if stood_s > patience_s(silent_s, usual_s):
        return "standing", f"no step has ended for {_spoken(stood_s)}"
    return "running", ""


def worst(states: Sequence[State]) -> State:
    """The state of a job whose ranks are in these."""
    return next((state for state in STATES if state in states), "waiting")


def is_over(seen: SeenLog, state: State, has_run_time: bool, is_tidied: bool) -> bool:
    """Whether nothing more comes of a rank, or nothing that is worth waiting for.

    It `has_run_time` once its process has written, at its end, where its time went.
    """
    if state == "silent":
        return seen.quiet_s > GIVEN_UP_S and not seen.is_written
    return state == "killed" or (state == "ended" and (is_tidied or has_run_time or seen.quiet_s > LEFT_ALONE_S))


def _lives(seen: SeenLog, log: TimingLog) -> bool | None:
    """Whether the process lives; None if only its own host could know."""
    if seen.is_written is False and log.host != platform.node():
        return None
    return seen.is_written


def _silent_from_s(log: TimingLog, usual_s: float) -> float:
    """The seconds after which a log that does not grow is silent: readings of the machine come as far apart as so."""
    apart_s = log.readings[-1].over_s if log.readings else 0.0
    covers = log.blocks[-1][1] if log.blocks and not log.readings else 1
    return _TIMES * max(BLOCK_S * covers, apart_s, usual_s)


def _stood_s(log: TimingLog) -> float:
    """The seconds, by the readings of the machine, over which no step has ended."""
    stood_s = 0.0
    for reading, before in zip(log.readings[:0:-1], log.readings[-2::-1], strict=True):
        if before.step != log.step or reading.step != log.step:
            break
        stood_s += reading.over_s
    return stood_s


def _why_silent(lives: bool | None) -> str:
    if lives:
        return "its process lives, and is stopped, or cannot write (is the disk full?)"
    return "it was killed, is stopped, cannot write (is the disk full?), or is cut off from this folder"


def _spoken(seconds: float) -> str:
    return duration(seconds * 1e9)
