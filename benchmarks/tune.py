"""What `diagnose tune` makes of small jobs that are slow for one reason each, from the first run to the last change.

    python benchmarks/tune.py --write benchmarks/reports      # all jobs, an hour on two cores
    python benchmarks/tune.py --jobs loader --times 1
    python benchmarks/tune.py --again                         # what the rules say of the runs that are kept, none made

Each job of `advice_jobs/kinds.py` that is named here is tuned `--times` times, then run with each change that a run can
make by itself, and with the cure that stands beside the job (`followed`), typed by hand. What a tune tried is run
again, without and with it, until there are three pairs of runs. All of it stays in `--keep`, and what is there is not
run again. Needs torch, transformers and accelerate, and a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from advice_jobs.kinds import KINDS, Kind
from msgspec.structs import replace
from pairs.runs import command
from tune_pairs import Further, further, told_apart
from tune_report import USUAL_TIMES, Alone, Tuned, header, line, written

from diagnose.analysis import analyze
from diagnose.commands.tune.answer import Rung, Settings, Tuning
from diagnose.commands.tune.evidence import held_against, pooled
from diagnose.commands.tune.proposals import Proposal, changes_of
from diagnose.commands.tune.running import CapturedSteps, JobRuns
from diagnose.commands.tune.state import TuneFolder
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.terms import Estimate

RUNS, BUDGET_S, MOST_S = 12, 360, 90.0
LOOP = {"steps": 300}
WINDOW = CapturedSteps(
    steps=8, at_step=132, control=120
)  # most steps of the loop without the profiler, and some for samples
PAIRS = 2  # of runs without and with a change by itself
PAIRS_OF_A_PROMISE = 3  # and of what a tune tried, its own among them
JOBS = (
    "loader sleeps, 0 workers", "loader sleeps on both ranks", "loader computes", "tokenises in the collator",
    "Trainer, batch 1 x accumulation 8", "dynamic padding, skewed lengths", "AdamW, one tensor at a time",
    "Adagrad, one tensor at a time", "many objects in each step", "logs each step, which costs little",
    "Python in a callback", "checkpoint every other step", "searches for unused parameters", "small buckets",
    "host work on rank 1", "healthy: large products",
)  # fmt: skip
BY_HAND = "by hand"
QUIET = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "DIAGNOSE_LEDGER": "off"}


def tuned(kind: Kind, folder: Path) -> None:
    """Tune the job as a user does, or go on where that ended."""
    limits = ["--runs", str(RUNS), "--budget", f"{BUDGET_S}s"]
    window = ["--steps", str(WINDOW.steps), "--at-step", str(WINDOW.at_step), "--control", str(WINDOW.control)]
    asked = [sys.executable, "-m", "diagnose", "tune", "--out", str(folder), *limits, *window, "--"]
    words = [*asked, *command(kind, {**kind.slow, **LOOP})]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | QUIET, check=False)
    if done.returncode:
        raise SystemExit(f"{kind.name}: tune ended with {done.returncode}\n{done.stderr}")


def alone(kind: Kind, folder: Path, first: Diagnosis, again: bool) -> tuple[Alone, ...]:
    """Each change that a run can make of the job as it is, by itself; what was run is read. `again` runs none."""
    made = [
        _alone(kind, folder / f"alone-{change.rule}", first, change)
        for change in changes_of(first, allow_numerics=True)
        if not again or (folder / f"alone-{change.rule}").is_dir()
    ]
    if not kind.followed:
        return tuple(made)
    options = {**kind.slow, **kind.followed}
    hand = _ran(kind, folder / "by-hand", first, options, {})
    return (*made, Alone(rule=BY_HAND, change=_said(kind), speedup=hand))


def _alone(kind: Kind, folder: Path, first: Diagnosis, change: Proposal) -> Alone:
    speedup = _ran(kind, folder, first, kind.slow, change.settings)
    return Alone(rule=change.rule, change=change.change, predicted=change.predicted, speedup=speedup)


def predicted_anew(folder: Path, tuning: Tuning) -> Tuning:
    """The tune with what the rules say of its captures, in the place of what they said when it was made."""
    rungs: list[Rung] = []
    for rung in tuning.rungs:
        standing = next((each for each in reversed(rungs) if each.stands), None)
        if rung.predicted is not None and standing is not None:
            finding = analyze(folder / standing.bundle).finding(rung.rule)
            rung = replace(rung, predicted=finding.predicted_speedup if finding is not None else None)
        rungs.append(rung)
    return replace(tuning, rungs=tuple(rungs))


def _said(kind: Kind) -> str:
    return ", ".join(f"{name}={value}" for name, value in kind.followed.items())


def _ran(
    kind: Kind, folder: Path, first: Diagnosis, options: dict[str, object], settings: Settings
) -> tuple[float, float, float] | None:
    """The speed-up by all pairs of runs; None where each failed.

    The first pair is of the tune's first run and one with the change. Before every further one the job as it is runs
    again, so that a machine that gets faster or slower meanwhile does so for both.
    """
    known = folder / "speedup.json"
    if known.is_file():
        return msgspec.json.decode(known.read_bytes(), type=tuple[float, float, float] | None)
    folder.mkdir(parents=True, exist_ok=True)
    changed, as_it_is = (
        JobRuns(command(kind, {**asked, **LOOP}), os.environ | QUIET, folder, WINDOW) for asked in (options, kind.slow)
    )
    found: list[Estimate] = []
    before: Diagnosis | None = first
    for pair in range(PAIRS):
        before = as_it_is(2 * pair, {}, None, MOST_S).diagnosis if pair else before
        after = changed(2 * pair + 1, settings, None, MOST_S).diagnosis
        speedup = held_against(before, after, None).speedup if before is not None and after is not None else None
        found += [speedup] if speedup is not None else []
    together = pooled(found) if found else None
    known.write_bytes(msgspec.json.encode(together))
    return together


def measured(kind: Kind, folder: Path, times: int, again: bool) -> Tuned:
    """All that is asked of one job; `again` analyses its captures anew and makes no run."""
    folders = [folder / f"tune-{number}" for number in range(times)]
    for each in folders if not again else ():
        tuned(kind, each)
    read = [(each, TuneFolder(each).read()) for each in folders]
    tunings = [(each, tuning) for each, tuning in read if tuning is not None]
    first = analyze(folders[0] / "run-0") if again else TuneFolder(folders[0]).diagnosis("run-0.json")
    singles = alone(kind, folder, first, again)
    return Tuned(
        job=kind.name,
        tunings=tuple(predicted_anew(each, tuning) if again else tuning for each, tuning in tunings),
        first_advice=first.next.rule,
        advised_by_hand=first.next.rule in kind.right and all(each.rule != first.next.rule for each in singles),
        alone=tuple(each for each in singles if each.rule != BY_HAND),
        by_hand=next((each for each in singles if each.rule == BY_HAND), None),
        further=tuple(_further(kind, each, tuning, again) for each, tuning in tunings),
        told_apart=tuple(apart for each, tuning in tunings for apart in told_apart(each, tuning)),
    )


def _further(kind: Kind, folder: Path, tuning: Tuning, again: bool) -> Further:
    """Pairs of runs of what the tune tried, beyond those by which it decided; `again` makes none."""
    asked = command(kind, {**kind.slow, **LOOP})
    pairs = 0 if again else PAIRS_OF_A_PROMISE
    return further(folder, tuning, lambda into: JobRuns(asked, os.environ | QUIET, into, WINDOW), MOST_S, pairs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the jobs that are asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="", help="those whose name holds this text")
    parser.add_argument("--times", type=int, default=USUAL_TIMES, help="how often each is tuned")
    parser.add_argument("--keep", type=Path, default=Path("diagnose-runs/tune-benchmark"), help="folder of all runs")
    parser.add_argument("--again", action="store_true", help="judge the kept runs by the rules of now, make none")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write a dated report there")
    asked = parser.parse_args(arguments)
    kinds = {kind.name: kind for kind in KINDS}
    found = []
    print(header())
    for name in (name for name in JOBS if asked.jobs in name):
        folder = asked.keep / re.sub(r"\W+", "-", name)
        found.append(measured(kinds[name], folder, asked.times, asked.again))
        print(line(found[-1]), flush=True)
    if asked.write is not None:
        print(written(found, asked.write, asked.again))


if __name__ == "__main__":
    main()
