"""Lines of a log that are no step: a checkpoint, an evaluation, or another event that may be near a slow step."""

import re
from collections.abc import Callable

from diagnose.errors import printable
from diagnose.series.tracks import LogEvent

KINDS = ("checkpoint", "evaluation", "restart", "epoch", "gc", "compilation", "profiler", "log")
MOST_EVENTS = 100_000
LONGEST_TEXT = 160
_TOOK = re.compile(r"\b(\d{1,9}(?:\.\d{1,9})?) ?(ms|milliseconds?|s|secs?|seconds?|mins?|minutes?)\b", re.IGNORECASE)
_TIMER = re.compile(
    r"\.: \(\d{1,12}\.\d{1,6}, (\d{1,12}\.\d{1,6})\)"
)  # Megatron-LM's: least and most of the ranks, in ms
_LOGGER = re.compile(r"\A.{0,120}? - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - ")


def kind_of(line: str) -> str | None:
    """The kind of event in a line, or a cell; None if it is nothing that slows a step."""
    low = line.lower()
    return next((kind for kind, told in _TOLD if told(low)), None)


def event(kind: str, line: str, row: int, clock_s: float | None = None) -> LogEvent:
    """The event with the words of the line, without what its logger sets before them, and with the time it states.

    A warning's time is left out: it may be a limit.
    """
    words = _LOGGER.sub("", " ".join(line[: 4 * LONGEST_TEXT].split()))
    return LogEvent(kind, printable(words)[:LONGEST_TEXT], row, clock_s, None if kind == "log" else _seconds(words))


def _seconds(words: str) -> float | None:
    """The last time that the words state, in seconds; None if they state none."""
    if timer := _TIMER.search(words):
        return float(timer[1]) / 1e3
    stated = _TOOK.findall(words)
    return float(stated[-1][0]) * _unit(stated[-1][1].lower()) if stated else None


def _unit(spelled: str) -> float:
    """Seconds in the unit: "ms" and "milliseconds", "minutes" and "min", else seconds."""
    if spelled.startswith("m"):
        return 1e-3 if spelled == "ms" or spelled.startswith("mil") else 60.0
    return 1.0


def _any(*words: str) -> Callable[[str], bool]:
    return lambda low: any(word in low for word in words)


def _both(one: Callable[[str], bool], other: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda low: one(low) and other(low)


_CHECKPOINT = _any("checkpoint", "ckpt", "snapshot")
_TOLD: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("restart", _both(_CHECKPOINT, _any("load", "resum", "restor"))),
    ("checkpoint", _both(_CHECKPOINT, _any("sav", "writ", "finish", "complet", "took", "async", "upload"))),
    ("restart", _any("restarting", "resuming", "worker group", "rendezvous")),
    ("evaluation", _any("validat", "evaluat", "eval_", "val_loss", "val loss", "eval loss", "eval/", "val/")),
    ("gc", _any("garbage collect", "[gc]", "gc collection", "gc.collect")),
    ("profiler", _any("profiler trace", "memory snapshot")),
    ("compilation", _any("recompil", "torch.compile", "autotun", "torchdynamo")),
    (
        "epoch",
        _both(_any("epoch", "re-loop", "relooped"), _any("start", "begin", "end", "finish", "done", "complet", "loop")),
    ),
    ("log", _any("warn", "error", "timeout", "timed out", "exception", "retry", "straggler")),
)
