"""Whether the first advice is right, and its promised gain true, on small jobs that are slow for one reason each.

    python benchmarks/first_advice.py                         # all kinds, about ten minutes on two cores
    python benchmarks/first_advice.py --only loader --write benchmarks/reports

Each job is run under `diagnose run`; then it and the form in which the advice is followed take turns without it.
Followed is the value of the advice's patch where it has one, else what `advice_jobs/kinds.py` says. Only the ratio of
mean steps counts, the median over the repeats. Jobs of one process run on a GPU where torch sees one; which advice is
right is stated for a CPU. Needs torch and transformers, and a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from advice_jobs.kinds import KINDS, Kind
from advice_jobs.timing import where

SCRIPTS = Path(__file__).parent / "advice_jobs"
REPEATS = 3
TIMEOUT_S = 300
NOISE = 0.03  # a mean of some dozen steps is no better than that; where the repeats lie further apart, that counts
WIDTHS = (32, 20, 24, 16, 12, 9, 7, 0)
STEP_NS = re.compile(r"^mean_step_ns (\d+)$", re.MULTILINE)
HEADS = ("job", "class", "first advice", "right", "promised", "measured", "inside", "repeats")


@dataclass(frozen=True)
class Told:
    """What `diagnose run` said: the rule of the first advice ("" for nothing), its gain, its patch, and the class."""

    rule: str
    promised: tuple[float, float | None] | None
    patch: Mapping[str, object]
    class_: str = ""


@dataclass(frozen=True)
class Outcome:
    """One kind: what was told, and the measured speed-up of each repeat, none where there is no advice to follow."""

    kind: Kind
    told: Told
    speedups: tuple[float, ...] = ()

    @property
    def right(self) -> bool:
        """Whether one of the right rules came first, or none where nothing is worth doing."""
        return self.told.rule in self.kind.right if self.kind.right else not self.told.rule

    @property
    def class_right(self) -> bool | None:
        """Whether the class is one of those that the job has by how it is made; None where that is not stated."""
        return self.told.class_ in self.kind.classes if self.kind.classes else None

    @property
    def inside(self) -> bool | None:
        """Whether the measured gain lies in the promised range; None where either is missing."""
        if not self.speedups or self.told.promised is None:
            return None
        low, high = self.told.promised
        middle = median(self.speedups)
        noise = max(NOISE, 1.48 * median(abs(one - middle) for one in self.speedups) / middle)
        return low * (1 - noise) <= middle <= (math.inf if high is None else high) * (1 + noise)


def told_of(diagnosis: Mapping[str, Any]) -> Told:
    """The first advice of a diagnosis; a better capture counts as none."""
    first, class_ = diagnosis["next"], diagnosis["verdict"]["class"]
    if first["kind"] != "change":
        return Told("", None, {}, class_)
    promised = first["predicted_speedup"]
    return Told(first["rule"], promised and (promised[0], promised[1]), (first["patch"] or {}).get("set", {}), class_)


def followed_options(kind: Kind, told: Told) -> dict[str, object]:
    """The options of the job with the advice followed."""
    by_patch = {kind.by_patch[key]: value for key, value in told.patch.items() if key in kind.by_patch}
    return {**kind.slow, **kind.followed, **by_patch}


def command(kind: Kind, options: Mapping[str, object]) -> list[str]:
    """How the job is started."""
    start = [sys.executable]
    if kind.ranks > 1:
        start += ["-m", "torch.distributed.run", f"--nproc_per_node={kind.ranks}", "--standalone"]
    return [*start, str(SCRIPTS / kind.script), *(f"{name}={json.dumps(value)}" for name, value in options.items())]


def ran(words: Sequence[str]) -> str:
    """The output of a command, which succeeds, or dies behind its last step, as threads of gloo may have it do."""
    variables = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(words, capture_output=True, text=True, env=variables, timeout=TIMEOUT_S, check=False)
    if done.returncode and not STEP_NS.search(done.stdout):
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def diagnosed(kind: Kind) -> Told:
    """What `diagnose run` says of the job as it is."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "diagnosis.json"
        asked = [sys.executable, "-m", "diagnose", "run", "--out", f"{folder}/bundle", "--json", str(answer), "--"]
        ran([*asked, *command(kind, kind.slow)])
        return told_of(json.loads(answer.read_text()))


def step_ns(kind: Kind, options: Mapping[str, object]) -> int:
    """The mean step of one run without diagnose."""
    found = STEP_NS.search(ran(command(kind, options)))
    if found is None:
        raise SystemExit(f"{kind.script} printed no time")
    return int(found[1])


def measured(kind: Kind, repeats: int) -> Outcome:
    """The advice, and what it buys: slow and followed form in turns."""
    told = diagnosed(kind)
    if not kind.followed:
        return Outcome(kind, told)
    options = followed_options(kind, told)
    return Outcome(kind, told, tuple(step_ns(kind, kind.slow) / step_ns(kind, options) for _ in range(repeats)))


def row(outcome: Outcome) -> tuple[str, ...]:
    """The outcome as the table shows it."""
    promised, speedups = outcome.told.promised, outcome.speedups
    said = "" if promised is None else f"{promised[0]:.2f}-{'' if promised[1] is None else f'{promised[1]:.2f}'}x"
    return (
        outcome.kind.name,
        outcome.told.class_
        + ("" if outcome.class_right is not False else f", not {' or '.join(outcome.kind.classes)}"),
        outcome.told.rule or "nothing",
        "yes" if outcome.right else f"no: {' or '.join(outcome.kind.right) or 'nothing'}",
        said,
        f"{median(speedups):.2f}x" if speedups else "",
        {True: "yes", False: "no", None: ""}[outcome.inside],
        " ".join(f"{speedup:.2f}" for speedup in speedups),
    )


def show(cells: Sequence[str]) -> None:
    """Print a row of the table at once: the next one takes a minute."""
    print("  ".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip(), flush=True)


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many first pieces of advice are right, and how many gains lie inside."""
    judged = [one.inside for one in outcomes if one.inside is not None]
    right = sum(one.right for one in outcomes)
    classes = [one.class_right for one in outcomes if one.class_right is not None]
    return (
        f"class right: {sum(classes)} of {len(classes)}; first advice right: {right} of {len(outcomes)}; "
        f"gain inside the range: {sum(judged)} of {len(judged)}"
    )


def _asked(repeats: int) -> str:
    return "" if repeats == REPEATS else f" --repeats {repeats}"


def written(outcomes: Sequence[Outcome], folder: Path, repeats: int) -> Path:
    """A dated report with the command, the table and the summary."""
    lines = [
        "# First advice", "", f"`python benchmarks/first_advice.py{_asked(repeats)} --write benchmarks/reports`", "",
        summary(outcomes), "",
        f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}", *(f"| {' | '.join(row(one))} |" for one in outcomes), "",
        f"Ratios of mean steps on {where()}; inside allows {NOISE:.0%} for noise, and the spread of the"
        " repeats where that is more (1.48 times their median deviation).", "",
    ]  # fmt: skip
    path = folder / f"first-advice-{datetime.datetime.now(datetime.UTC).date()}.md"
    path.write_text("\n".join(lines))
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the kinds that are asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kinds whose name holds this text")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write a dated report there")
    asked = parser.parse_args(arguments)
    outcomes = []
    show(HEADS)
    for kind in (kind for kind in KINDS if asked.only in kind.name):
        outcomes.append(measured(kind, asked.repeats))
        show(row(outcomes[-1]))
    print(summary(outcomes))
    if asked.write is not None:
        print(written(outcomes, asked.write, asked.repeats))


if __name__ == "__main__":
    main()
