"""The dated report of how long readers take: its tables, and how far diagnose is from the least that it has to do."""

import re
from collections.abc import Callable, Mapping, Sequence

from measuring import Outcome, Timed, Untimed
from reporting import table

from .compared import Measured, Runs
from .readers import FLOOR, OURS

BAR = 3.0  # times the floor that diagnose may take, wall
Seconds = Callable[[Timed], float]


def _wall(run: Timed) -> float:
    return run.wall_s


def _cpu(run: Timed) -> float:
    return run.cpu_s


def best(outcomes: Sequence[Outcome]) -> float | None:
    """The least wall seconds of all rounds, None without any."""
    return min((each.wall_s for each in outcomes if isinstance(each, Timed)), default=None)


def rounds(runs: Runs, text_bytes: int, against: str) -> str:
    """Each round of each reader, how many times the floor it took, and how many times more `against` took."""
    heads = ["reader", "round", "wall s", "CPU s", "peak MiB", "peak, times the text", "times the floor: wall", "CPU"]
    rows = []
    for name, outcomes in runs.items():
        for number, each in enumerate(outcomes):
            floor, other = (_of_round(runs.get(of, ()), number) for of in (FLOOR, against))
            rows.append([name, number + 1, *_cells(each, floor, other, text_bytes)])
    return table([*heads, f"{against}: wall", "CPU"], rows)


def _of_round(outcomes: Sequence[Outcome], number: int) -> Outcome:
    return outcomes[min(number, len(outcomes) - 1)] if outcomes else Untimed("not run")


def _cells(each: Outcome, floor: Outcome, other: Outcome, text_bytes: int) -> list[str]:
    if isinstance(each, Untimed):
        return [each.why, *(7 * [""])]
    return [
        f"{each.wall_s:.2f}",
        f"{each.cpu_s:.2f}",
        f"{each.peak_bytes / 2**20:.0f}",
        f"{each.peak_bytes / text_bytes:.2f}",
        *(_times(each, floor, of) for of in (_wall, _cpu)),
        *(_times(other, each, of) for of in (_wall, _cpu)),
    ]


def _times(longer: Outcome, shorter: Outcome, of: Seconds) -> str:
    """How many times the seconds of one those of the other are, empty where that is not known."""
    if not isinstance(shorter, Timed) or not of(shorter):
        return ""
    if isinstance(longer, Timed):
        return f"{of(longer) / of(shorter):.1f}x"
    if longer.at_least_s is not None and of is _wall:
        return f">{longer.at_least_s / of(shorter):.1f}x"
    return ""


def in_short(measured: Sequence[Measured], others: Sequence[str]) -> str:
    """A row for each text: what diagnose takes, over the floor, and every other tool over it; of the best rounds."""
    heads = ["source", "MB", "diagnose: wall s", "peak, times the text", "times the floor: wall", "CPU"]
    heads += [f"{name}: wall" for name in others]
    return table(heads, [_short_row(each, others) for each in measured]) + "\n\n" + bar(measured)


def _short_row(each: Measured, others: Sequence[str]) -> list[str]:
    ours, floor = _best_run(each.runs, OURS), _best_run(each.runs, FLOOR)
    if isinstance(ours, Timed):
        cells = [f"{ours.wall_s:.2f}", f"{ours.peak_bytes / each.text_bytes:.2f}"]
    else:
        cells = [ours.why, ""]
    cells += [_times(ours, floor, of) for of in (_wall, _cpu)]
    cells += [_times(run, ours, _wall) or _word(run) for run in (_best_run(each.runs, name) for name in others)]
    return [each.source.name, f"{each.text_bytes / 1e6:.0f}", *cells]


def _best_run(runs: Runs, name: str) -> Outcome:
    outcomes = runs.get(name) or (Untimed("not run"),)
    timed = [each for each in outcomes if isinstance(each, Timed)]
    return min(timed, key=_wall) if timed else outcomes[-1]


def _word(run: Outcome) -> str:
    """Why it has no times, without the details."""
    return re.split("[:,]", run.why)[0] if isinstance(run, Untimed) else ""


def bar(measured: Sequence[Measured]) -> str:
    """Whether diagnose keeps within its bar, and where it is furthest from it."""
    times = [
        (ours / floor, each)
        for each in measured
        if (ours := best(each.runs.get(OURS, ()))) is not None and (floor := best(each.runs.get(FLOOR, ())))
    ]
    floor_is = "The floor is one pass of msgspec over the text with the fields in use."
    if not times:
        return f"{floor_is} It was not measured."
    most, of = max(times, key=lambda each: each[0])
    return (
        f"{floor_is} diagnose takes at most {BAR:g} times its wall: {sum(each <= BAR for each, _ in times)} of "
        f"{len(times)} texts. The most is {most:.1f} times, of {of.text_bytes / 1e6:.0f} MB of {of.source.name}."
    )


def parts(measured: Sequence[Measured], others: Mapping[str, str], skipped: Mapping[str, str]) -> list[str]:
    """The parts of the report.

    Args:
        measured: what was.
        others: the versions of other tools, by reader.
        skipped: why tools are left out, by reader.
    """
    against = next(iter(others), OURS)
    listed = [f"- {name}: {versions}" for name, versions in others.items()]
    listed += [f"- skipped: {name}, {why}" for name, why in skipped.items()]
    made = [in_short(measured, tuple(others)), *(["\n".join(listed)] if listed else [])]
    for at, each in enumerate(measured):
        if not at or measured[at - 1].source != each.source:
            made.append(f"## {each.source.name}\n\n{each.source.shape}.")
        title = f"### {each.source.name}: {each.text_bytes / 1e6:.0f} MB of text"
        made.append(f"{title}\n\n{rounds(each.runs, each.text_bytes, against)}")
    return made
