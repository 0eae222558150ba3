"""Mutates everything that comes from outside, and says what each try ends in.

    python benchmarks/fuzz.py --tries 10000 --jobs 2
    python benchmarks/fuzz.py --tries 500 --only rule --keep found/
    python benchmarks/fuzz.py --seeds my/traces
    python benchmarks/fuzz.py --replay tests/fuzzed

Traces, jobs of ranks with one of them mutated, capture records, rules, patches, settings, logs, dumps, exports, cache
entries, what diagnose wrote itself, what agents ask, names of files and environments: fields are dropped, types
swapped, magnitudes made absurd, events repeated and exchanged, bytes damaged. A try must be read or refused with a
message, its JSON valid, its ledger add up, every number finite, within 10 s of processor time, and without a part that
the report says has failed; memory must not grow. Otherwise the exit code is 1. The same seed makes the same tries. With
--keep what fails is made small and kept as a folder, which --replay and a test run.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from reporting import command_line, parser, table, today
from robustness.fuzzing import KINDS, kept_cases, loaded, outcome_of
from robustness.fuzzing.running import Tally, bounded_room, fuzz, fuzz_by_processes
from robustness.fuzzing.seeds import begin_with

HEAD = """<!-- Written by `python benchmarks/fuzz.py --write benchmarks/reports`. -->
# Fuzzing, {today}

Mutations of what comes from outside, each through the command that reads it, without the net under metrics, rules and
sections. A try is a defect when it ends with another exit code than 0 or 3 (2 where the input can be wrong usage),
without a message, with a traceback, an escape character or the name of a failed part in what it prints, with JSON that
does not fit the types of the answer, with a number that is not finite, with a ledger or waterfall that does not add up,
with numpy's warnings, after 10 s of processor time or 60 s, or out of 6 GiB of memory. What tries have found is in
`tests/fuzzed/`, made small, and in the tests of what failed.
"""


def page(tally: Tally) -> str:
    """The tally as a table of kinds and outcomes, and what failed."""
    ends = ("read", "refused", "DEFECT")
    tried = {kind for kind, _ in tally.outcomes}
    rows = [[kind, *(f"{tally.outcomes[kind, end]:,}" for end in ends)] for kind in KINDS if kind in tried]
    rows.append(["all", *(f"{sum(n for (_, e), n in tally.outcomes.items() if e == end):,}" for end in ends)])
    lines = [table(("kind", "read", "refused", "defects"), rows), ""]
    lines += [f"longest try {tally.longest_s:.1f} s of processor time; memory grew by {tally.growth_mib} MiB"]
    return "\n".join([*lines, *(f"try {number}: {name}" for number, name in sorted(tally.defects))])


def replayed(folder: Path) -> Tally:
    """The kept cases, run again."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        for number, kept in enumerate(kept_cases(folder)):
            case = loaded(kept)
            end = outcome_of(case, Path(place))
            tally.add(number, case, end)
            sys.stderr.write(f"{kept.name}: {end.name}\n")
    return tally


def main() -> int:
    """The exit code: 1 when a try failed."""
    given = _parser().parse_args()
    if given.seeds:
        begin_with(given.seeds)
    if given.replay:
        tally = replayed(given.replay)
    elif given.share:
        share, jobs = map(int, given.share.split("/"))
        with bounded_room():
            tally = fuzz(range(share, given.tries, jobs), given.seed, given.only, given.keep, given.log)
        sys.stdout.write(json.dumps(tally.to_json()))
        return 0
    else:
        stated = {"--only": given.only, "--keep": [given.keep], "--seeds": [given.seeds]}
        options = [str(word) for name, value in stated.items() if any(value) for word in (name, *value)]
        tally = fuzz_by_processes(Path(__file__), given.tries, given.seed, given.jobs, options)
    text = page(tally) + "\n"
    sys.stdout.write(text)
    if given.write:
        _report(given.write, text)
    return int(tally.failed)


def _report(folder: Path, text: str) -> None:
    """The dated report with a section more: the command, and what came of it."""
    to = folder / f"fuzz-{today()}.md"
    before = to.read_text(encoding="utf-8") if to.exists() else HEAD.format(today=today())
    to.write_text(f"{before}\n## `{command_line()}`\n\n{text}", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    options = parser(__doc__, writes=False)
    options.add_argument("--tries", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=1, help="processes that share the tries")
    options.add_argument(
        "--only", nargs="+", choices=list(KINDS), default=[], help="mutate inputs of these kinds alone"
    )
    options.add_argument("--keep", type=Path, help="folder for what ends in a defect")
    options.add_argument("--seeds", type=Path, help="folder of sound traces to begin with, beside those made here")
    options.add_argument("--replay", type=Path, help="run the kept cases of this folder, and nothing else")
    options.add_argument("--write", type=Path, help="folder of the dated report, which gets a section more")
    options.add_argument("--share", help=argparse.SUPPRESS)
    options.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    return options


if __name__ == "__main__":
    sys.exit(main())
