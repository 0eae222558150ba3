"""Whether the advice is right, and its promised gain true, on small jobs that are slow for one reason each.

    python -m benchmarks.pairs                                  # all kinds, an hour on two idle cores
    python -m benchmarks.pairs --minutes 20                     # for so long; the next run goes on
    python -m benchmarks.pairs --only loader --repeats 1
    python -m benchmarks.pairs --subset ci                      # two minutes; ends with 1 if advice is wrong
    python -m benchmarks.pairs --write benchmarks/reports       # with the dated report

Each job is run under `diagnose run`; then with its first advice made by `diagnose run --apply`, where that can make it;
then it and the form in which the advice is followed take turns without diagnose. Followed is the value of the advice's
patch where it has one, else what `advice_jobs/kinds.py` says. The first advice is right where it is what that file
says, no form crashes, and all forms see the same samples. Of times only the ratio of mean steps counts, the median over
the repeats. Where other processes took the cores, the kind is tried again, and then withheld: it does not count as
right. What was measured is kept in a file, and is not run again while the project is the same. Jobs of one process run
on a GPU where torch sees one; which advice is right is stated for a CPU.

Needs torch and transformers. Kinds that need datasets, trl, accelerate, gymnasium, pillow, lightning, hydra-core or
deepspeed are left out where those are not installed, and do not count as right either.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from advice_jobs.kinds import KINDS, Kind
from reporting import parser

from .following import measured
from .kept import ROOT, keep, kept, state_of
from .page import HEADS, WIDTHS, line, row, summary, written
from .score import OTHERS, Outcome

REPEATS = 3
CI = ("Python in a callback", "checks each gradient for NaN", "small buckets")
_KEPT = ROOT / "build" / "pairs.jsonl"


def asked_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    options = parser(__doc__)
    options.prog = "python -m benchmarks.pairs"
    options.add_argument("--only", default="", metavar="NAME", help="kinds whose name holds this text")
    options.add_argument("--subset", choices=("full", "ci"), default="full", help="ci: three kinds, one pair of each")
    options.add_argument("--list", action="store_true", help="name the kinds and what is right of each; run none")
    options.add_argument("--repeats", type=int, default=REPEATS, help=f"pairs of runs of each kind ({REPEATS})")
    options.add_argument("--minutes", type=float, metavar="N", help="begin no other kind after so many")
    options.add_argument("--kept", type=Path, default=_KEPT, metavar="FILE", help="of what was measured")
    options.add_argument(
        "--others", type=float, default=OTHERS, metavar="SHARE",
        help=f"of the cores that other processes may take before a run is withheld ({OTHERS}); with 1 none is",
    )  # fmt: skip
    return options.parse_args(arguments)


def outcomes_of(kinds: Sequence[Kind], asked: argparse.Namespace, state: str) -> list[Outcome]:
    """What is kept of the kinds, and what is measured of the others until the time is over; each is shown at once."""
    known = {one.kind.name: one for one in kept(asked.kept, {k.name: k for k in kinds}, state, asked.repeats)}
    until = time.monotonic() + 60 * asked.minutes if asked.minutes is not None else float("inf")
    outcomes = []
    print(line(HEADS), flush=True)
    for kind in kinds:
        outcome = known.get(kind.name)
        if outcome is None and time.monotonic() < until:
            outcome = measured(kind, asked.repeats, asked.others)
            keep(asked.kept, outcome, state, asked.repeats)
        if outcome is not None:
            outcomes.append(outcome)
            print(line(row(outcome)), flush=True)
    return outcomes


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the kinds that are asked for, one after the other."""
    asked = asked_of(arguments)
    if asked.subset == "ci":
        asked.repeats = 1
    kinds = [kind for kind in KINDS if asked.only in kind.name and (asked.subset == "full" or kind.name in CI)]
    if asked.list:
        print("\n".join(f"{kind.name:{WIDTHS[0]}}  {kind.truth}" for kind in kinds))
        return
    state = state_of()
    outcomes = outcomes_of(kinds, asked, state)
    print(summary(outcomes))
    if len(outcomes) < len(kinds):
        print(f"{len(kinds) - len(outcomes)} of {len(kinds)} kinds are not measured yet: the same command goes on")
    if asked.write is not None:
        print(*written(outcomes, asked.write, state), sep="\n")
    if asked.subset == "ci" and not all(one.right or one.withheld for one in outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
