"""Lines of a log that are no step: a checkpoint, an evaluation, or another event that may be near a slow step."""

from collections.abc import Callable

from diagnose.errors import printable
from diagnose.series.tracks import LogEvent

KINDS = ("checkpoint", "evaluation", "restart", "epoch", "gc", "compilation", "profiler", "log")
MOST_EVENTS = 100_000
LONGEST_TEXT = 160


def kind_of(line: str) -> str | None:
    """The kind of event in a line, or a cell; None if it is nothing that slows a step."""
    low = line.lower()
    return next((kind for kind, told in _TOLD if told(low)), None)


def event(kind: str, line: str, row: int, clock_s: float | None = None) -> LogEvent:
    """The event with the words of the line, without control characters and of bounded length."""
    return LogEvent(kind, printable(" ".join(line[: 4 * LONGEST_TEXT].split()))[:LONGEST_TEXT], row, clock_s)


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
