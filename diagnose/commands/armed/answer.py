"""A run with continuous timing: its step times, and each of its windows with its diagnosis."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from diagnose.analysis.answer import analyze
from diagnose.analysis.options import Options
from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.diagnosis import Applied, Diagnosis, Goodput
from diagnose.diagnosis.answer import Answer
from diagnose.errors import UserError, WrongUsage
from diagnose.judge.goodput import goodput_of_armed
from diagnose.probes.protocol import TRACE, WINDOW_FOLDER, rank_in
from diagnose.series.grown import GrowthReport, growth_over_run
from diagnose.series.not_told import NotTold
from diagnose.series.places import is_window, step_logs
from diagnose.series.sources import timing_series
from diagnose.series.timing_log import TimingLog, read_timing_log

MOST_LONG_STEPS = 32
_AGAIN = "diagnose trigger RUN opens another one while the job runs; --at-step K in another run"
_MEMORY = {"rss": "of the host", "device": "of the device, at most so far"}


class ArmedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """One window: why it opened, and its diagnosis.

    `first_step` is its first recorded step, `folder` the name of its folder in that of the run, "" if there is none.
    `ranks` have recorded it, `missed_by` were too late to. `slow_step` is the step in it that its rank found slow, None
    if none was. `diagnosis` is as `diagnose analyze` gives it, null if `not_told` says why.
    """

    first_step: int
    why: str
    folder: str
    ranks: tuple[int, ...]
    missed_by: tuple[int, ...]
    slow_step: int | None
    diagnosis: Diagnosis | None
    not_told: NotTold | None

    @property
    def is_usual(self) -> bool:
        """Whether its steps are typical of the run: no slow step opened it."""
        return self.slow_step is None


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that the rank with the most of them held: near the begin of the run, at its end, and at most."""

    what: str
    rank: int
    first_bytes: int
    last_bytes: int
    most_bytes: int


class LongStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that took far longer than usual, seen while it ran: after `after_s` seconds the job was `at`.

    `at` are lines of the user's, the innermost first; `calls` is the function that it called, "" if none is known;
    `doing` is what torch did meanwhile, as `UserCode` has it.
    """

    step: int
    rank: int
    after_s: float
    at: str
    calls: str
    doing: str


class ArmedRun(Answer, frozen=True, kw_only=True):
    """An armed run. `unended` are ranks whose log has no end: the job runs on, or they were killed.

    `goodput` is of the process of the first rank, from its ranges, and takes the place of that of `series`; null if its
    last process did not end by itself.

    `applied` is what the patch of `diagnose run --apply` bought, by the first window with it, one of usual steps if
    there is one; null in a run without a patch, and if no window shows it.
    """

    indented = 1
    on_one_line = None
    schema_version: int = 1
    world_size: int
    ranks: tuple[int, ...]
    series: SeriesReport
    windows: tuple[ArmedWindow, ...]
    long_steps: tuple[LongStep, ...]
    memory: tuple[MemoryUse, ...]
    growth: GrowthReport
    unended: tuple[int, ...]
    goodput: Goodput | None
    applied: Applied | None

    @property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """The diagnoses of the windows that have one."""
        return tuple(window.diagnosis for window in self.windows if window.diagnosis is not None)


def armed_run(folder: Path, options: Options | None = None, with_windows: bool = True) -> ArmedRun | None:
    """The armed run whose folder this is; None if it is none.

    Args:
        folder: of the run.
        options: of the analysis of its windows.
        with_windows: whether these are read.

    Raises:
        UserError: a step log cannot be read, or a rule of the user's.
        WrongUsage: an option has a value that a window does not know.
    """
    paths = step_logs(folder)
    if not paths:
        return None
    chosen = options or Options()
    if chosen.rules_dirs:
        _check_rules(chosen)
    logs = [read_timing_log(path) for path in paths]
    opened = tuple(_windows(folder, logs, chosen)) if with_windows else ()
    series = judged(timing_series(paths, logs))
    first = logs[0]
    goodput = goodput_of_armed(folder, first.rank, series.median_s) if first.ended else None
    return ArmedRun(
        world_size=max(log.world_size for log in logs),
        ranks=tuple(log.rank for log in logs),
        series=series if goodput is None else replace(series, goodput=None, goodput_not_told=None),
        windows=opened,
        long_steps=tuple(_long_steps(logs)),
        memory=tuple(_memory(logs)),
        growth=growth_over_run([log.longest_held() for log in logs], series.median_s),
        unended=tuple(log.rank for log in logs if not log.ended),
        goodput=goodput,
        applied=None if (tells := window_with_patch(opened)) is None else tells.applied,
    )


def _check_rules(options: Options) -> None:
    """Refuse rules that cannot be used; the windows would silently do without them."""
    from diagnose.metrics import units  # brings all that measures, which answers that are kept do without
    from diagnose.rule import load_rules

    load_rules(options.rules_dirs, units(), cache=options.loading.cache)


def window_with_patch(windows: Sequence[ArmedWindow]) -> Diagnosis | None:
    """The diagnosis that shows what the patch of the run bought; None if none does."""
    telling = sorted((one for one in windows if one.diagnosis is not None), key=lambda one: not one.is_usual)
    return next((one.diagnosis for one in telling if one.diagnosis and one.diagnosis.applied is not None), None)


def _windows(folder: Path, logs: Sequence[TimingLog], options: Options) -> Iterator[ArmedWindow]:
    told = [(log.rank, one) for log in logs for one in log.told if isinstance(one.get("first"), int)]
    keys = sorted({(one["loop"], one["first"]) for _, one in told})
    for loop, first in keys[-MOST_LONG_STEPS:]:
        here = [(rank, one) for rank, one in told if (one["loop"], one["first"]) == (loop, first)]
        yield _window(folder, first, here, options)


def _window(folder: Path, first: int, told: Sequence[tuple[int, dict[str, Any]]], options: Options) -> ArmedWindow:
    closed = [(rank, one) for rank, one in told if one["what"] == "closed"]
    name = next((one["folder"] for _, one in closed if is_window(one.get("folder"))), WINDOW_FOLDER.format(first))
    ranks = sorted(rank for path in (folder / name).glob("*") if (rank := rank_in(path.name, TRACE)) is not None)
    diagnosis, because = None, _why_none(told)
    if ranks:
        try:
            diagnosis = analyze(folder / name, options=options)
        except WrongUsage:
            raise
        except UserError as error:
            because = error.format_message()
    return ArmedWindow(
        first_step=first,
        why=next((str(one["why"]) for _, one in told if one.get("why")), ""),
        folder=name if ranks else "",
        ranks=tuple(ranks),
        missed_by=tuple(rank for rank, one in told if one["what"] == "missed"),
        slow_step=next((one["slow"] for _, one in closed if isinstance(one.get("slow"), int)), None),
        diagnosis=diagnosis,
        not_told=NotTold(because=because, capture_next=_AGAIN) if diagnosis is None else None,
    )


def _why_none(told: Sequence[tuple[int, dict[str, Any]]]) -> str:
    """The reason why a window left no trace: that of the first rank with one, else derived from the missing lines."""
    failed = next((str(one["error"]) for _, one in told if one.get("error")), "")
    if failed:
        return failed
    if all(one["what"] == "missed" for _, one in told):
        return "it was announced after its steps had begun"
    ranks = sorted({rank for rank, one in told if one["what"] == "window"})
    return f"rank {', '.join(map(str, ranks[:8]))} has not closed it: the process ended inside it, or is in it"


def _long_steps(logs: Sequence[TimingLog]) -> Iterator[LongStep]:
    """The long steps, one for each step: that of the first rank that saw it."""
    seen: dict[int, LongStep] = {}
    for log in logs:
        for one in log.told:
            step, after_ms = one.get("step"), one.get("after_ms")
            if one["what"] == "long" and isinstance(step, int) and isinstance(after_ms, int):
                words = {name: str(one.get(name, "")) for name in ("at", "calls", "doing")}
                seen.setdefault(step, LongStep(step=step, rank=log.rank, after_s=after_ms / 1000, **words))
    yield from (seen[step] for step in sorted(seen)[:MOST_LONG_STEPS])


def _memory(logs: Sequence[TimingLog]) -> Iterator[MemoryUse]:
    for kind, words in _MEMORY.items():
        held = [(max(most for _, most in log.memory[kind]), log) for log in logs if log.memory.get(kind)]
        if held:
            most, log = max(held, key=lambda one: one[0])
            values = [held_bytes for _, held_bytes in log.memory[kind]]
            yield MemoryUse(what=words, rank=log.rank, first_bytes=values[0], last_bytes=values[-1], most_bytes=most)
