"""Changes, stalls and long steps in synthetic step times: false alarms on noise, and how many planted ones are found.

    python benchmarks/series.py                        # 200 seeds per kind of noise, 50 per shift; about 40 minutes
    python benchmarks/series.py --only stalls --seeds 20 --write     # fewer, written to benchmarks/reports/, dated

A shift of 5 to 20 % begins at 60 % of the series. It counts as found when a change in its direction is named within 10
samples or 2 % of the series, whichever is more. A stall counts as found when it is named at its step with its cost
within a fifth, a cadence when the stall named has its period; a long step in noise when it is listed. With
DIAGNOSE_PUBLIC_TABLES the logged step times of the MLPerf runs there are looked through, too. Everything is seeded: the
same command gives the same table.
"""

from collections.abc import Callable, Iterator
from itertools import groupby, product
from os import environ
from pathlib import Path

import numpy as np
from reporting import REPORTS, parser, publish, table, today

from diagnose.arrays import Floats
from diagnose.commands.series.answer import Stall
from diagnose.commands.series.judge import judged
from diagnose.series import Change, Series, Track, changes, read_series

LENGTHS = (60, 300, 2000)
SHIFTS = (0.05, 0.07, 0.10, 0.20)


def autoregressive(seeded: np.random.Generator, n: int, correlation: float, deviation: float) -> Floats:
    """A stationary autoregressive process of order one."""
    innovation = deviation * np.sqrt(1 - correlation**2) * seeded.standard_normal(n)
    values = np.empty(n)
    values[0] = deviation * seeded.standard_normal()
    for i in range(1, n):
        values[i] = correlation * values[i - 1] + innovation[i]
    return values


NOISE: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "log-normal, 5 %": lambda seeded, n: 0.05 * seeded.standard_normal(n),
    "log-normal, 15 %": lambda seeded, n: 0.15 * seeded.standard_normal(n),
    "heavy tails: Student t, 2 degrees, 5 %": lambda seeded, n: 0.05 * seeded.standard_t(2, n),
    "heavy tail upward: Pareto 1.5, 5 %": lambda seeded, n: np.log1p(0.05 * seeded.pareto(1.5, n)),
    "correlated: AR(1) 0.5, 8 %": lambda seeded, n: autoregressive(seeded, n, 0.5, 0.08),
    "correlated: AR(1) 0.9, 8 %": lambda seeded, n: autoregressive(seeded, n, 0.9, 0.08),
    "slow under fast: AR(1) 0.95, 6 %, and 8 %": lambda seeded, n: (
        autoregressive(seeded, n, 0.95, 0.06) + 0.08 * seeded.standard_normal(n)
    ),
}


def found_in(noise: Floats, shift: float = 0.0) -> tuple[Change, ...]:
    """The changes named in 300 ms steps with the noise, slower by `shift` from 60 % on."""
    seconds = 0.3 * np.exp(noise)
    seconds[len(noise) * 6 // 10 :] *= 1 + shift
    track = Track(0, "", np.arange(1, len(noise) + 1), seconds)
    return changes(Series("csv", (), "", (track,)))


def false_alarms(kind: str, n: int, seeds: int) -> float:
    """Share of the seeds in which a change is named though there is none."""
    return sum(bool(found_in(NOISE[kind](np.random.default_rng(seed), n))) for seed in range(seeds)) / seeds


def power(kind: str, n: int, shift: float, seeds: int) -> float:
    """Share of the seeds in which the shift is found."""
    begin, near = n * 6 // 10 + 1, max(10, 0.02 * n)
    hits = 0
    for seed in range(seeds):
        named = found_in(NOISE[kind](np.random.default_rng(10_000 + seed), n), shift)
        hits += any(c.change_share > 0 and abs(c.since_step - begin) <= near for c in named)
    return hits / seeds


def shifts_found(seeds: int) -> Iterator[list[str]]:
    """A row for each length and noise: false alarms, and how many of each shift are found."""
    for n, kind in product(LENGTHS, NOISE):
        shares = [power(kind, n, shift, max(seeds // 4, 1)) for shift in SHIFTS]
        alarms = f"{100 * false_alarms(kind, n, seeds):.1f} %"
        yield [kind, f"{n:,}", alarms, *(f"{100 * share:.0f} %" for share in shares)]


STALL_LENGTHS = (60, 300, 3500)
_MLPERF = "mlperf_v5.1_step_times.csv.gz"


def single(seconds: Floats, share: float) -> tuple[list[int], float]:
    """A step in the middle that takes `share` of the run more; where, and what it costs."""
    at, cost = len(seconds) // 2, share * float(seconds.sum())
    seconds[at] += cost
    return [at], cost


def burst(seconds: Floats) -> tuple[list[int], float]:
    """A hundredth of the steps, 16 at least, in the middle that take 1.3 times as long."""
    at = np.arange(max(16, len(seconds) // 100)) + len(seconds) // 2
    cost = 0.3 * float(seconds[at].sum())
    seconds[at] *= 1.3
    return at.tolist(), cost


def cadence(seconds: Floats, every: int, times: float) -> tuple[list[int], float]:
    """Every `every` steps one that takes `times` as long as the others."""
    at = np.arange(every - 1, len(seconds), every)
    seconds[at] += (times - 1) * 0.3
    return at.tolist(), (times - 1) * 0.3


PLANTED: dict[str, Callable[[Floats], tuple[list[int], float]]] = {
    "one step, 1 % of the run": lambda seconds: single(seconds, 0.01),
    "one step, 5 % of the run": lambda seconds: single(seconds, 0.05),
    "a burst of 1.3x": burst,
    "every 50 steps 3x": lambda seconds: cadence(seconds, 50, 3),
    "every 1,000 steps 30x": lambda seconds: cadence(seconds, 1000, 30),
}
_LEAST_LENGTH = {"a burst of 1.3x": 300, "every 50 steps 3x": 300, "every 1,000 steps 30x": 2000}


def stalls_in(seconds: Floats) -> tuple[Stall, ...]:
    """The stalls that are named in the step times."""
    return judged(Series("csv", (), "", (Track(0, "", np.arange(1, len(seconds) + 1), seconds),))).stalls


def tells(stalls: tuple[Stall, ...], what: str, at: list[int], cost: float) -> bool:
    """Whether the stalls name what was planted at the samples `at`."""
    if what.startswith("every"):
        every = at[1] - at[0]
        return any(one.recurs is not None and one.recurs.every_steps == every for one in stalls)
    near = [one for one in stalls if one.step <= at[-1] + 1 and one.last_step >= at[0] + 1]
    return abs(sum(one.cost_s for one in near) - cost) <= 0.2 * cost


def stalls_found(seeds: int) -> Iterator[list[str]]:
    """A row for each length and noise: false alarms, and how many stalls of each kind planted are found."""
    for n, kind in product(STALL_LENGTHS, NOISE):
        series = [0.3 * np.exp(NOISE[kind](np.random.default_rng(20_000 + seed), n)) for seed in range(seeds)]
        alarms = 100 * sum(bool(stalls_in(seconds)) for seconds in series) / seeds
        cells = []
        for what, plant in PLANTED.items():
            fits = n >= _LEAST_LENGTH.get(what, 0)
            found = [_found(seconds.copy(), what, plant) for seconds in series[: max(seeds // 2, 1)] if fits]
            cells.append(f"{100 * sum(found) / len(found):.0f} %" if found else "-")
        yield [kind, f"{n:,}", f"{alarms:.1f} %", *cells]


def _found(seconds: Floats, what: str, plant: Callable[[Floats], tuple[list[int], float]]) -> bool:
    at, cost = plant(seconds)
    return tells(stalls_in(seconds), what, at, cost)


LONG = 8  # medians
SIGMAS = (0.05, 0.15, 0.3, 0.45, 0.6)


def long_listed(seeds: int) -> Iterator[list[str]]:
    """A row for each length and noise: how often the planted long step is listed, and stalls named beside it."""
    for n, sigma in product((300, 2000), SIGMAS):
        listed = beside = 0
        for seed in range(seeds):
            seconds = 0.3 * np.exp(sigma * np.random.default_rng(30_000 + seed).standard_normal(n))
            seconds[n // 2] = LONG * np.median(seconds)
            report = judged(Series("csv", (), "", (Track(0, "", np.arange(1, n + 1), seconds),)))
            listed += any(one.step <= n // 2 + 1 <= one.last_step for one in (*report.stalls, *report.longest))
            beside += any(not one.step <= n // 2 + 1 <= one.last_step for one in report.stalls)
        yield [f"log-normal, {sigma:g}", f"{n:,}", f"{listed} of {seeds}", f"{beside} of {seeds}"]


def real_runs() -> str:
    """A table of the published runs: stalls that are named, by system."""
    path = Path(environ.get("DIAGNOSE_PUBLIC_TABLES", "")) / _MLPERF
    if not path.is_file():
        return "Published runs were not looked through: DIAGNOSE_PUBLIC_TABLES names no folder with them."
    report = judged(read_series(path))
    rows = []
    for job, runs in groupby(report.runs, key=lambda run: run.job):
        of_job = list(runs)
        named = [one for one in report.stalls if one.job == job]
        at = ", ".join(f"step {step:,}" for step in sorted({one.optimizer_step for one in named})) or "none"
        runs_with = f" in {len({one.run for one in named})} runs" if named else ""
        changed = sum(change.run in {run.name for run in of_job} for change in report.changes)
        samples = sum(run.samples for run in of_job)
        long = sum(one.job == job for one in report.longest)
        rows.append((job, len(of_job), f"{samples:,}", f"{at}{runs_with}", long, changed))
    return table(("job", "runs", "steps logged", "stalls", "other long steps", "changes"), rows)


def changes_text(seeds: int) -> str:
    """The report of changes."""
    heads = "noise", "steps", "false alarms", *(f"+{100 * shift:.0f} % found" for shift in SHIFTS)
    return f"""# Change points in step times, {today()}

`python benchmarks/series.py --seeds {seeds} --write`: synthetic series of 300 ms steps, {seeds} seeds for false alarms,
{max(seeds // 4, 1)} for each shift. The percentage beside a noise is its deviation (its scale where the tails are
heavy), of the step time. A shift is found when it is named within 10 samples or 2 % of the series of its place. Shifts
of less than 5 %, rounded, are never named.

{table(heads, shifts_found(seeds))}
"""


def stalls_text(seeds: int) -> str:
    """The report of stalls."""
    return f"""# Stalls in step times, {today()}

`python benchmarks/series.py --only stalls --seeds {seeds} --write`: series of 300 ms steps, {seeds} seeds for false
alarms, {max(seeds // 2, 1)} for each kind of stall. A stall is found when it is named at its step with its cost within
a fifth; a cadence when a stall is named with its period. A burst is a hundredth of the steps, 16 at least.

{table(("noise", "steps", "false alarms", *PLANTED), stalls_found(seeds))}

Step times that MLPerf training runs logged, all in one file, and the stalls of each job:

{real_runs()}
"""


def long_text(seeds: int) -> str:
    """The report of long steps in noise, with those that the published runs have."""
    few = max(seeds // 4, 1)
    return f"""# Long steps in noisy step times, {today()}

`python benchmarks/series.py --only long --seeds {seeds} --write`: series of 300 ms steps with log-normal noise, {few}
seeds each. One step takes {LONG} medians. It counts as listed if it is among the stalls, or among the long steps that
are said not to be told from noise. Stalls named elsewhere are false alarms.

{table(("noise, sigma", "steps", "listed", "with stalls named elsewhere"), long_listed(few))}

Step times that MLPerf training runs logged, all in one file, and the stalls and other long steps of each job:

{real_runs()}
"""


def main() -> None:
    """Print the tables, or write them."""
    options = parser(__doc__, writes=False)
    options.add_argument("--seeds", type=int, default=200)
    options.add_argument("--write", action="store_const", const=REPORTS)
    options.add_argument("--only", choices=("changes", "stalls", "long"))
    chosen = options.parse_args()
    texts = (("stalls", "stalls", stalls_text), ("long", "long-steps", long_text), ("changes", "series", changes_text))
    for what, stem, text in texts:
        if chosen.only in (what, None):
            publish(text(chosen.seeds), chosen.write, stem)


if __name__ == "__main__":
    main()
