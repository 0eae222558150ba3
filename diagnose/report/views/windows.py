"""The windows of a run in words: which one the report is of, and how the others differ from it."""

from pathlib import PurePath
from shlex import quote

from diagnose.diagnosis import Diagnosis, WindowReport
from diagnose.facts import duration
from diagnose.report.views.breakdown import CLASS_NAMES, INVISIBLE
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted, spans

DIFFERS = 0.05  # of the reported window's step: a smaller difference of a class is not named
MANY_TIMES = 2.0
STACKS = "stacks"


def windows_lines(diagnosis: Diagnosis) -> list[str]:
    """A sentence on the window that is reported, then one for each other, the latest first; empty without others."""
    own = next((window for window in diagnosis.windows if window.is_reported), None)
    if own is None:
        return []
    second = [window for window in diagnosis.windows if window.holds]
    if second:
        return [_second(window, own) for window in second]
    others = [window for window in reversed(diagnosis.windows) if window is not own]
    whole = [window for window in diagnosis.windows if not window.is_cut]
    last = "the last" if own is diagnosis.windows[-1] else "the last whole one" if own is whole[-1] else "one"
    of = f" of {plain(own.process)}" if own.process else ""
    on = f" on rank {own.rank}" if len(diagnosis.ranks) > 1 else ""
    first = f"this report is of {last} of {counted(len(diagnosis.windows), 'window')}{of}: {_itself(own, on)}"
    return [
        first,
        *(f"{_itself(window)}{_difference(window, own)}; --run {quote(plain(window.name))}" for window in others),
    ]


def _second(window: WindowReport, own: WindowReport) -> str:
    """The content of a second window of `diagnose run`, and its part in this report."""
    steps = f"{'steps' if len(window.numbers) > 1 else 'step'} {spans(window.numbers)}"
    more = f"diagnose analyze {quote(plain(str(PurePath(window.files[0]).parent)))}" if window.files else ""
    each = duration(window.step_ns) if window.step_ns is not None else "of unknown length"
    if window.holds == STACKS:
        return f"a second window has {steps} with stacks, {each} per step: only lines of code are taken from it; {more}"
    return f"a second window has {steps}, of those that come again, {each}{_difference(window, own)}; {more}"


def _itself(window: WindowReport, on: str = "") -> str:
    """The steps of a window, its step time and its begin, as far as they are known."""
    steps = f"{'steps' if len(window.numbers) > 1 else 'step'} {spans(window.numbers)}" if window.numbers else ""
    count = steps or (counted(window.steps, "step") if window.steps else "")
    each = f"{duration(window.step_ns)} per step{on}" if window.step_ns is not None else window.because
    began = f"began {window.began}" if window.began else ""
    return ", ".join(filter(None, (count, plain(each), began, "cut short" if window.is_cut else "")))


def _difference(window: WindowReport, own: WindowReport) -> str:
    """How a window's step time differs from the reported one's, and the class of causes that differs most."""
    if not window.step_ns or not own.step_ns:
        return ""
    than = f", {_ratio(window.step_ns / own.step_ns)} the reported one's"
    changed = {name: window.class_ns.get(name, 0.0) - own.class_ns.get(name, 0.0) for name in CLASS_NAMES}
    most = max(changed, key=lambda name: abs(changed[name]))
    if abs(changed[most]) < DIFFERS * own.step_ns:
        return than
    here, there = (duration(each.class_ns.get(most, 0.0)) for each in (window, own))
    return f"{than}; {CLASS_NAMES[most]} takes {here}, not {there}"


def _ratio(ratio: float) -> str:
    if abs(ratio - 1) < INVISIBLE:
        return "as long as"
    if ratio >= MANY_TIMES:
        return f"{ratio:.1f} times"
    return f"{100 * abs(ratio - 1):.1f} % {'longer' if ratio > 1 else 'shorter'} than"
