"""Change points in synthetic step times: false alarms on stationary noise, and how many shifts are found.

    python benchmarks/series.py                        # 200 seeds per kind of noise, 50 per shift; about 20 minutes
    python benchmarks/series.py --seeds 20 --write     # fewer, written to benchmarks/reports/, dated

A shift of 5 to 20 % begins at 60 % of the series. It counts as found when a change in its direction is named within 10
samples or 2 % of the series, whichever is more. Everything is seeded: the same command gives the same table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from diagnose.arrays import Floats
from diagnose.series import Change, Series, Track, changes

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


def table(seeds: int) -> str:
    """The Markdown table."""
    heads = " | ".join(f"+{100 * shift:.0f} % found" for shift in SHIFTS)
    lines = [f"| noise | steps | false alarms | {heads} |", "|---" * (3 + len(SHIFTS)) + "|"]
    for n in LENGTHS:
        for kind in NOISE:
            shares = [power(kind, n, shift, max(seeds // 4, 1)) for shift in SHIFTS]
            cells = " | ".join(f"{100 * share:.0f} %" for share in shares)
            line = f"| {kind} | {n:,} | {100 * false_alarms(kind, n, seeds):.1f} % | {cells} |"
            print(line, flush=True)
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Print the table, or write it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=200)
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    day = datetime.now(UTC).date().isoformat()
    heading = (
        f"# Change points in step times, {day}\n\n"
        f"`python benchmarks/series.py --seeds {chosen.seeds} --write`: synthetic series of 300 ms steps,"
        f" {chosen.seeds} seeds for false alarms,\n{max(chosen.seeds // 4, 1)} for each shift. The percentage beside a"
        " noise is its deviation (its scale where the tails are heavy), of the\nstep time. A shift is found when it is"
        " named within 10 samples or 2 % of the series of its place. Shifts of less than\n5 %, rounded, are never"
        " named.\n\n"
    )
    text = heading + table(chosen.seeds) + "\n"
    if chosen.write:
        (Path(__file__).parent / "reports" / f"series-{day}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
