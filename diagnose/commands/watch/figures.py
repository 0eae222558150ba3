"""The figures of a run by name: those that its logs hold, and those of its last window."""

from collections.abc import Mapping

from diagnose.commands.watch.pace import mean_s, now_s
from diagnose.commands.watch.view import WindowView
from diagnose.diagnosis import Diagnosis
from diagnose.facts import STEP, Fact, Unknown, Value
from diagnose.series.timing_log import TimingLog

_NO_TOTAL = "only a trainer says how many steps its loop has"
_NO_WINDOW = "no window has been recorded yet (diagnose trigger RUN opens one)"
_NO_STEPS = "no step has been timed yet"


def figures_of(
    logs: Mapping[int, TimingLog], usual_s: float, going_on: TimingLog | None, window: WindowView | None
) -> tuple[Fact, ...]:
    """The figures of the run; `going_on` is the log of a loop that has not ended, None if there is none."""
    now = max((took for log in logs.values() if (took := now_s(log)) is not None), default=None)
    unknown = Unknown(_NO_STEPS, None)
    found = window.diagnosis if window is not None else None
    why = _NO_WINDOW if window is None else f"the window at step {window.first_step:,}: {window.because}"
    return (
        Fact("now", unknown if now is None else now * 1e9, "ns"),
        Fact("usual", usual_s * 1e9 if usual_s else unknown, "ns"),
        Fact("left", _left(going_on), "ns"),
        Fact("tokens_per_s", _per_s(found, "global_batch_tokens", now, why), "count"),
        Fact("real_tokens_per_s", _real_tokens_per_s(found, now, why), "count"),
        Fact("samples_per_s", _per_s(found, "global_batch_samples", now, why), "samples_per_s"),
        _mfu(found, why),
        _of_window(found, "data_wait_share", why),
    )


def _left(log: TimingLog | None) -> Value:
    """Nanoseconds until the loop ends, if its other steps take as long as those so far."""
    if log is None or log.total is None:
        return Unknown(_NO_TOTAL if log is not None else "no loop goes on", None)
    mean = mean_s(log)
    return Unknown(_NO_STEPS, None) if mean is None else max(log.total - log.step, 0) * mean * 1e9


def _per_s(diagnosis: Diagnosis | None, batch: str, now_s: float | None, why: str) -> Value:
    """The batch of all ranks, as the window shows it, over the step time now."""
    size = _of_window(diagnosis, batch, why).value
    if isinstance(size, Unknown):
        return size
    return Unknown(_NO_STEPS, None) if not now_s else float(size) / now_s


def _real_tokens_per_s(diagnosis: Diagnosis | None, now_s: float | None, why: str) -> Value:
    """Tokens without the padding of the batches that were seen until the end of the window."""
    rate, padding = _per_s(diagnosis, "global_batch_tokens", now_s, why), _of_window(diagnosis, "padding_share", why)
    if isinstance(rate, Unknown) or isinstance(padding.value, Unknown):
        return rate if isinstance(rate, Unknown) else padding.value
    return float(rate) * (1 - float(padding.value))


def _of_window(diagnosis: Diagnosis | None, name: str, why: str) -> Fact:
    told = next((fact for fact in diagnosis.facts if fact.name == name), None) if diagnosis is not None else None
    if told is None:
        return Fact(name, Unknown(why, None), "share")
    return Fact(name, Unknown(told.because, None) if told.value is None else told.value, told.unit, told.of)


def _mfu(diagnosis: Diagnosis | None, why: str) -> Fact:
    known = diagnosis.mfu.of_own_peak if diagnosis is not None else None
    reason = diagnosis.mfu.reason if diagnosis is not None else why
    return Fact("mfu", Unknown(reason, None) if known is None else known, "share", f"peak FLOP/s times {STEP}")
