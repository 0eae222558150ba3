"""The words of a view: labelled lines for a page, and one line for a log. Nothing is measured or judged here."""

from collections.abc import Callable, Iterable, Iterator

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.views import result
from diagnose.commands.watch.view import RankView, View, WindowView
from diagnose.facts import Fact, Unknown, duration, spoken
from diagnose.report.views.brief import brief
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain
from diagnose.report.views.summary import late_rank_lines

RANKS_SHOWN = 8
_LATE_FROM = 0.1  # of a step: by less clocks of several hosts differ
BAD = ("killed", "silent", "standing")
_MOST_PROBLEMS = 4


def head(view: View) -> list[ScreenLine]:
    """The state with its reason, the progress, and the step time."""
    return [
        ScreenLine("state", plain(_state(view)), warns=view.state in BAD),
        ScreenLine("progress", plain(progress(view))),
        ScreenLine("step", plain(_step_time(view))),
    ]


def rest(view: View) -> list[ScreenLine]:
    """Speed, waiting for data, ranks, stalls and changes, the last window, and what is wrong with the files."""
    ranks = [ScreenLine("" if i else "ranks", line) for i, line in enumerate(_ranks(view))]
    problems = [
        ScreenLine("" if i else "files", plain(problem), warns=True)
        for i, problem in enumerate(view.problems[:_MOST_PROBLEMS])
    ]
    return [
        *(() if view.state == "waiting" else (*_figures(view), *_of_processes(view))),
        *ranks,
        ScreenLine("series", plain(series(view)), warns=bool(view.series and _is_uneven(view.series))),
        *_window(view.window),
        *problems,
    ]


def one_line(view: View) -> str:
    """All of it in one line without what is unknown."""
    parts = [
        _state(view),
        progress(view),
        _step_time(view),
        "" if _rate(view) is None else _speed(view),
        _known(view, "mfu", "MFU"),
        _known(view, "data_wait_share", "waiting for data"),
        *(f"{label} {text}" for label, text in _processes(view).items()),
        f"slowest rank {view.ranks[0].rank}" if any(one.waited_share for one in view.ranks) else "",
        series(view),
        verdict(view.window) if view.window is not None else "",
        *view.problems[:1],
    ]
    return plain("; ".join(filter(None, parts)))


def progress(view: View) -> str:
    """The steps done, of how many, and the time left."""
    if view.state == "waiting":
        return ""
    if view.total is None:
        return f"step {view.step:,}"
    left = view.fact("left").value
    after = f", about {duration(float(left))} left" if not isinstance(left, Unknown) and left else ""
    return f"step {view.step:,} of {view.total:,} ({100 * view.step / view.total:.1f} %){after}"


def series(view: View) -> str:
    """The stalls and changes of the step times so far; "" before there is any step."""
    return result(view.series) if view.series is not None else ""


def verdict(window: WindowView) -> str:
    """The class and the next change of the window, or why there is none."""
    return brief(window.diagnosis) if window.diagnosis is not None else f"no verdict: {window.because}"


def rank_line(rank: RankView) -> str:
    """A rank with its steps, its step time, how late it is, and its state unless it runs."""
    now = "" if rank.now_s is None else f"{duration(rank.now_s * 1e9)} per step"
    late = f"{duration(rank.late_s * 1e9)} behind the first" if _is_late(rank) and rank.late_s is not None else ""
    state = "" if rank.state == "running" else rank.state
    waited = f"others wait {spoken(rank.waited_share, 'share')} of their step for it" if rank.waited_share else ""
    return plain(", ".join(filter(None, (f"{rank.rank}: step {rank.step:,}", now, state, waited, late))))


def _state(view: View) -> str:
    if view.state == "waiting":
        return "over: no training loop began" if view.is_over else "waiting: no training loop has begun"
    return f"{view.state}{f': {view.says}' if view.says else ''}"


def _step_time(view: View) -> str:
    now, usual = view.fact("now").value, view.fact("usual").value
    if isinstance(now, Unknown):
        return "" if view.state == "waiting" else f"unknown, because {now.because}"
    when = "at the end" if view.state in ("killed", "ended") else "now"
    return f"{spoken(now, 'ns')} {when}" + ("" if isinstance(usual, Unknown) else f", {spoken(usual, 'ns')} usual")


def _is_uneven(report: SeriesReport) -> bool:
    return bool(report.changes or report.stalls)


def _rate(view: View) -> Fact | None:
    """Tokens of a second if they are known, else samples."""
    facts = (view.fact("tokens_per_s"), view.fact("samples_per_s"))
    return next((fact for fact in facts if fact.known), None)


def _speed(view: View) -> str:
    known = _rate(view)
    if known is None:
        unknown = view.fact("samples_per_s").value
        return f"unknown, because {unknown.because}" if isinstance(unknown, Unknown) else ""
    assert not isinstance(known.value, Unknown)
    return f"{known.value:,.0f} tokens/s" if known.name == "tokens_per_s" else spoken(known.value, known.unit)


def _share(view: View, name: str) -> str:
    fact = view.fact(name)
    if isinstance(fact.value, Unknown):
        return f"unknown, because {fact.value.because}"
    step = f", in the window at step {view.window.first_step:,}" if view.window is not None else ""
    return f"{spoken(fact.value, fact.unit)} of {fact.of}{step}"


def _figures(view: View) -> Iterator[ScreenLine]:
    """The figures that a window shows; a reason that several have in common is said once."""
    words = {"speed": _speed(view), "mfu": _share(view, "mfu"), "data wait": _share(view, "data_wait_share")}
    before = ""
    for label, text in words.items():
        yield ScreenLine(label, "unknown likewise" if text == before else plain(text))
        before = text


def _of_processes(view: View) -> Iterator[ScreenLine]:
    told = _processes(view)
    why = next((one.why_no_gpu for one in view.ranks if one.why_no_gpu), "")
    if "gpu" not in told and why:
        told["gpu"] = f"unknown, because {why}"
    yield from (ScreenLine(label, plain(text)) for label, text in told.items())


def _processes(view: View) -> dict[str, str]:
    """Goodput, memory and GPU, by label: of several ranks the one that has least left, or runs slowest."""
    goodput = _extreme(view, "goodput_share", min)
    host, device = _extreme(view, "host_memory_bytes", max), _extreme(view, "device_memory_bytes", max)
    clock, power = _extreme(view, "sm_clock_hz", min), _extreme(view, "power_w", max)
    memory = {"host": (host, "bytes"), "device, at most so far": (device, "bytes")}
    gpu = {"clock": (None if clock is None else clock / 1e6, "mhz"), "power": (power, "w")}
    told = {
        "goodput": "" if goodput is None else f"{spoken(goodput, 'share')} of the time so far",
        "memory": ", ".join(f"{spoken(value, unit)} ({name})" for name, (value, unit) in memory.items() if value),
        "gpu": ", ".join(f"{name} {spoken(value, unit)}" for name, (value, unit) in gpu.items() if value),
    }
    return {label: text for label, text in told.items() if text}


def _extreme(view: View, field: str, of: Callable[[Iterable[float]], float]) -> float | None:
    known = [value for one in view.ranks if (value := getattr(one, field)) is not None]
    return of(known) if known else None


def _known(view: View, name: str, words: str) -> str:
    fact = view.fact(name)
    return "" if isinstance(fact.value, Unknown) else f"{words} {spoken(fact.value, fact.unit)}"


def _is_late(rank: RankView) -> bool:
    return rank.late_s is not None and rank.late_s > _LATE_FROM * (rank.now_s or 0.0)


def _ranks(view: View) -> Iterator[str]:
    if len(view.ranks) > 1:
        yield from map(rank_line, view.ranks[:RANKS_SHOWN])
    if len(view.ranks) > RANKS_SHOWN:
        yield f"and {len(view.ranks) - RANKS_SHOWN:,} more"
    if view.missing:
        yield f"without a step log: {', '.join(map(str, view.missing[:RANKS_SHOWN]))}"
    if view.window is not None and view.window.diagnosis is not None:
        yield from (plain(line) for line in late_rank_lines(view.window.diagnosis))


def _window(window: WindowView | None) -> Iterator[ScreenLine]:
    if window is None:
        return
    yield ScreenLine("window", plain(f"step {window.first_step:,}: {window.why}"))
    yield ScreenLine("verdict", plain(verdict(window)), is_code=True)
    if window.newer:
        yield ScreenLine("newer", plain(window.newer))
