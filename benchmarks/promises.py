"""How well promises held: real pairs of runs, their predicted and measured gain, and where in its range a gain lies.

    python benchmarks/promises.py              # what the pairs at hand say
    python benchmarks/promises.py --positions  # writes diagnose/data/positions.toml, which predictions read

The pairs are those of `python -m benchmarks.pairs` (pairs-cpu-DATE.csv, the newest), of the tune and the known faults
on a GPU (their reports), and a job with and without loader workers among the real traces that DIAGNOSE_REAL_TRACES
names. Reports are of the rules of their day. The position is 0 where the measured gain is that of the worst case and 1
where it is that of the best, on the logarithm. The likely value lies at the median position of the gains inside their
ranges, since one outside says that its range is wrong. Its error is that of each pair, by the median of the others.
The usual range goes from a position to a factor on the best case, the two that hold eight in ten gains with the least
median width; it is scored as fitted without all pairs of the same rule. Only the pairs of today's rules show it.
"""

from __future__ import annotations

import csv
import math
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from statistics import median

import msgspec
from pairs.score import NOISE
from reporting import REPORTS, parser, table, today

from diagnose.predict.real_gains import usual_by

POSITIONS = Path(__file__).parent.parent / "diagnose" / "data" / "positions.toml"
SAME = 1.005  # a range narrower than that has no positions
FITTED = "inside the usual range, fitted without the pairs of its rule"
FEWEST = 10  # rules, by whose pairs the usual range is fitted
HELD = 0.8  # of real gains
_RANGE = re.compile(r"(\d+\.\d+)-(\d+\.\d+)x")
_GAIN = re.compile(r"(\d+\.\d+)x")
_TUNED = ("tune-gpu", "change", "promised", "achieved (99 %)")
_FAULTS = ("faults-gpu", "fault", "promised", "achieved")


@dataclass(frozen=True)
class Usual:
    """The usual range: its low end by position, its high end as a factor on the best case."""

    low: float = 0.0
    beyond: float = 1.0


@dataclass(frozen=True)
class Pair:
    """A job with and without a change: the predicted range and the measured gain.

    Attributes:
        job: its name.
        rule: "" if it is not stated.
        low: end, that of the worst case.
        high: end, that of the best case.
        measured: gain.
        machine: it ran on.
        noise: share by which the gain may be off.
    """

    job: str
    rule: str
    low: float
    high: float
    measured: float
    machine: str
    noise: float = NOISE

    @property
    def inside(self) -> bool:
        """Whether the gain lies in the range, but for the noise."""
        return self.low * (1 - self.noise) <= self.measured <= self.high * (1 + self.noise)

    @property
    def width(self) -> float:
        """The high end over the low one."""
        return self.high / self.low

    @property
    def position(self) -> float | None:
        """Where between worst and best case the gain lies."""
        return math.log(self.measured / self.low) / math.log(self.width) if self.width > SAME else None

    def at(self, position: float) -> float:
        """The gain at this position."""
        return float(self.low * self.width**position)

    def usual(self, ends: Usual) -> Pair:
        """The same with the usual range; as it is where the worst case gains nothing."""
        low, high = usual_by((self.low, self.high), ends.low, ends.beyond) or (self.low, self.high)
        return replace(self, low=low, high=high)


def middle(pairs: Iterable[Pair]) -> float:
    """The median position of the gains inside, no lower than the low end and no higher than the high one."""
    known = [pair.position for pair in pairs if pair.position is not None and pair.inside]
    return min(max(median(known), 0.0), 1.0) if known else 0.5


def usual(pairs: Sequence[Pair]) -> Usual:
    """The ends that hold enough of these pairs with the least median width: those of the cases if the rules are few.

    Enough is so much above `HELD` as to hold that of a new rule, if rules are alike: (rules + 1) / rules times, rounded
    up to whole rules.
    """
    rules = len({pair.rule for pair in pairs})
    if rules < FEWEST:
        return Usual()
    enough = math.ceil(HELD * (rules + 1)) / rules
    factors = sorted({1.0, *(max(pair.measured / pair.high, 1.0) for pair in pairs)})
    each = (Usual(low / 50, _least_factor(pairs, low / 50, factors, enough)) for low in range(50))
    return min(each, key=lambda ends: (median(pair.usual(ends).width for pair in pairs), ends.beyond))


def _least_factor(pairs: Sequence[Pair], low: float, factors: Sequence[float], enough: float) -> float:
    """The least factor on the best case with which so many pairs are held; infinite if none does."""
    at = bisect_left(
        factors, enough * len(pairs), key=lambda factor: sum(pair.usual(Usual(low, factor)).inside for pair in pairs)
    )
    return factors[at] if at < len(factors) else math.inf


def by_others(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs with their usual ranges, each fitted without all pairs of its rule."""
    without = {rule: usual([pair for pair in pairs if pair.rule != rule]) for rule in {pair.rule for pair in pairs}}
    return [pair.usual(without[pair.rule]) for pair in pairs]


def held(pairs: Sequence[Pair]) -> str:
    """How many gains lie inside their ranges, and how wide those are: "46 of 55, median width 1.50x"."""
    return f"{sum(pair.inside for pair in pairs)} of {len(pairs)}, median width {median(p.width for p in pairs):.2f}x"


def errors(pairs: Sequence[Pair]) -> list[float]:
    """How far the likely value of each pair, by the positions of the others, lies from what was measured."""
    others = ([other for other in pairs if other is not pair] for pair in pairs)
    return [abs(pair.at(middle(rest)) / pair.measured - 1) for pair, rest in zip(pairs, others, strict=True)]


def kept_pairs(folder: Path = REPORTS) -> list[Pair]:
    """The rows of the newest table of pairs without a GPU."""
    files = sorted(folder.glob("pairs-cpu-*.csv"))
    if not files:
        return []
    with files[-1].open(newline="", encoding="utf-8") as file:
        return [msgspec.convert(row, Pair, strict=False) for row in csv.DictReader(file)]


def written(pairs: Sequence[Pair], folder: Path = REPORTS) -> Path:
    """The pairs as the table of today."""
    path = folder / f"pairs-cpu-{today()}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Pair))
        writer.writerows(astuple(pair) for pair in pairs)
    return path


def reported(folder: Path = REPORTS) -> list[Pair]:
    """The pairs in the newest reports of a tune and of known faults on a GPU."""
    return [
        pair for stem, *heads in (_TUNED, _FAULTS) for pair in _in_report(sorted(folder.glob(f"{stem}-*.md")), heads)
    ]


def _in_report(files: Sequence[Path], heads: Sequence[str]) -> Iterator[Pair]:
    lines = files[-1].read_text(encoding="utf-8").splitlines() if files else []
    on = next((line.partition(" (")[0] for line in lines if line.startswith("One ")), "a GPU")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head: dict[str, int] = {}
    for cells in rows:
        if set(heads) <= set(cells):
            head = {name: cells.index(name) for name in heads}
        elif head and len(cells) > max(head.values()):
            job, promised, gain = (cells[head[name]] for name in heads)
            span, achieved = _RANGE.match(promised), _GAIN.match(gain)
            if span and achieved:
                yield Pair(job.strip("`"), "", float(span[1]), float(span[2]), float(achieved[1]), on)


def traced() -> list[Pair]:
    """The job with and without loader workers among the real traces; none where they are not here."""
    folder = Path(os.environ.get("DIAGNOSE_REAL_TRACES", ""))
    both = [folder / f"resnet50-v100-workers{count}" for count in (0, 4)]
    if not all(map(Path.is_dir, both)):
        return []
    from diagnose.analysis import analyze
    from diagnose.commands.compare.comparing import compare

    one, other = map(analyze, both)
    promised = next((f.predicted_speedup for f in one.findings if f.rule == "data-wait"), None)
    speedup = compare(one, other).speedup
    if promised is None or promised[1] is None or speedup is None:
        return []
    return [Pair("ResNet-50 with 4 loader workers", "data-wait", *promised, speedup[1], "NVIDIA V100")]  # type: ignore[arg-type]


def summary(kind: str, pairs: Sequence[Pair], ends: Usual) -> str:
    """How many gains lie inside, how wide the ranges are, and how far the likely value is off."""
    if not pairs:
        return f"{kind}: no pairs"
    return (
        f"{kind}: inside from worst to best case: {held(pairs)}; inside the usual range, from {ends.low:.2f} to"
        f" {ends.beyond:.2f} times the best case: {held([pair.usual(ends) for pair in pairs])}; {FITTED}:"
        f" {held(by_others(pairs))}; likely value at {middle(pairs):.2f}, off by {median(errors(pairs)):.0%} in the"
        " median"
    )


def rows(pairs: Sequence[Pair]) -> str:
    """The pairs as a table."""
    at = middle(pairs)
    heads = ("job", "rule", "promised", "likely", "measured", "inside", "width")
    return table(heads, ([p.job, p.rule, f"{p.low:.2f}-{p.high:.2f}x", f"{p.at(at):.2f}x", f"{p.measured:.2f}x",
                          "yes" if p.inside else "**no**", f"{p.width:.2f}x"] for p in pairs))  # fmt: skip


def positions_table(kinds: Mapping[str, Sequence[Pair]], ends: Mapping[str, Usual]) -> str:
    """The positions as predictions read them."""
    parts = [
        "# Where gains lie between worst and best case, on the logarithm: `python benchmarks/promises.py --positions`"
    ]
    for kind, pairs in kinds.items():
        on = "; ".join(dict.fromkeys(pair.machine.partition(";")[0] for pair in pairs))
        parts += ["", f"[{kind}]", f"low = {ends[kind].low:.2f}", f"likely = {middle(pairs):.2f}"]
        parts += [f"beyond = {ends[kind].beyond:.2f}"]
        parts += [f"pairs = {len(pairs)}", f'where = "{on}"']
    return "\n".join(parts) + "\n"


def main() -> None:
    """Print the pairs and what they say, or write the positions."""
    options = parser(__doc__, writes=False)
    options.add_argument("--positions", action="store_true", help=f"write {POSITIONS.name}")
    asked = options.parse_args()
    on_cpu = kept_pairs()
    kinds: dict[str, Sequence[Pair]] = {"cpu": on_cpu, "gpu": [*reported(), *traced()]}
    ends = {"cpu": usual(on_cpu), "gpu": Usual()}  # reports of GPUs are of the rules of their day
    for pairs in kinds.values():
        print(rows(pairs), end="\n\n")
    print("\n".join(summary(kind, pairs, ends[kind]) for kind, pairs in kinds.items()))
    if asked.positions:
        POSITIONS.write_text(positions_table(kinds, ends), encoding="utf-8")
        print(POSITIONS)


if __name__ == "__main__":
    main()
