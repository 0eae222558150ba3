"""What the changes that a tune tried bought, by more pairs of runs than the tune needed to decide.

A tune stops measuring as soon as it knows what to do. Whether its promise was right is another question, and equal runs
of a small machine lie too far apart for one pair to answer it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from diagnose.commands.compare.comparing import compare
from diagnose.commands.tune.answer import Rung, Settings, Tuning
from diagnose.commands.tune.evidence import held_against, pooled
from diagnose.commands.tune.running import Run
from diagnose.commands.tune.state import TuneFolder
from diagnose.diagnosis.terms import Estimate

Further = Mapping[int, Sequence[Estimate]]
"""Speed-ups of further pairs, by the number of the run that decided."""


def decided(tuning: Tuning) -> Iterator[tuple[Rung, int]]:
    """Of each change with a prediction the run that decides, and how many pairs of runs its `achieved` is of.

    The runs at the end, of the first and the best, are such pairs of a change that is kept alone.
    """
    tried = [rung for rung in tuning.rungs if rung.predicted and rung.achieved and rung.decision != "refused"]
    last = {_first_of(rung): rung for rung in tried}
    kept = [rung for rung in tuning.rungs if rung.decision == "kept"]
    for first, rung in last.items():
        pairs = sum(_first_of(each) == first for each in tried)
        ends = [each.achieved for each in tuning.rungs if each.repeats == rung.number and not each.rule]
        ends = ends if kept == [rung] else []
        yield with_further(rung, [each for each in ends if each is not None]), pairs + len(ends)


def _first_of(rung: Rung) -> int:
    """The number of the run that made its change first."""
    return rung.number if rung.repeats is None else rung.repeats


def with_further(rung: Rung, pairs: Sequence[Estimate]) -> Rung:
    """The run with an `achieved` of these pairs as well."""
    return replace(rung, achieved=pooled([*([rung.achieved] if rung.achieved else []), *pairs])) if pairs else rung


def further(folder: Path, tuning: Tuning, runs: Callable[[Path], Run], most_s: float, pairs: int) -> Further:
    """Further pairs of each change, until there are so many with those of the tune; what stands in the folder is read.

    Args:
        folder: of the tune.
        tuning: what it made.
        runs: makes runs of the job in a folder.
        most_s: seconds that one may take.
        pairs: of each change, those of the tune among them.
    """
    found: dict[int, Sequence[Estimate]] = {}
    for rung, own in decided(tuning):
        into = folder / f"pairs-{rung.number}"
        if (known := into / "speedups.json").is_file():
            found[rung.number] = msgspec.json.decode(known.read_bytes(), type=tuple[Estimate, ...])
            continue
        if pairs <= own:
            continue
        into.mkdir(exist_ok=True)
        asked = _before(tuning, rung), rung.settings
        made = (_pair(runs(into), number, asked, most_s) for number in range(pairs - own))
        found[rung.number] = [speedup for speedup in made if speedup is not None]
        known.write_bytes(msgspec.json.encode(found[rung.number]))
    return found


def told_apart(folder: Path, tuning: Tuning) -> Iterator[bool]:
    """Of each run that was made again whether `compare` calls one of the two equal runs better than the other."""
    kept, rungs = TuneFolder(folder), tuning.rungs
    for rung in rungs:
        if rung.repeats is not None and rung.diagnosis and rungs[rung.repeats].diagnosis:
            both = kept.diagnosis(rungs[rung.repeats].diagnosis), kept.diagnosis(rung.diagnosis)
            yield compare(*both).verdict in ("better", "worse")


def _before(tuning: Tuning, rung: Rung) -> Settings:
    """What was set in the run that the change was first held against."""
    earlier = reversed(tuning.rungs[: _first_of(rung)])
    return next((each.settings for each in earlier if each.stands), {})


def _pair(run: Run, number: int, asked: tuple[Settings, Settings], most_s: float) -> Estimate | None:
    """The speed-up of a run with the change over one just before it; None where either failed."""
    before, after = (run(2 * number + side, settings, None, most_s).diagnosis for side, settings in enumerate(asked))
    return held_against(before, after, None).speedup if before is not None and after is not None else None
