"""Which rank and cause the analysis names for each simulated fault, what it costs, and whom it accuses without a fault.

    python benchmarks/ranks_confusion.py --layout pp_dp
    python benchmarks/ranks_confusion.py --write

Every seed is another job of synthetic traces (simulator/): another late rank, other jitter, other clocks, each up to
5 ms off and drifting up to 50 ppm. Two nodes, the rate of whose network is stated; a slow link is that between the
ranks of one node. Where one process group holds all ranks, every rank moves at the pace of the slowest link: then the
right answer is that transfers are slow, and that the traces cannot tell which link. Pipelines are 1F1B; by the seed
their messages are batched or not, and a rank reduces four bytes that no other does.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from measuring import rules_read_once
from ranks_cases import (
    ANOTHER,
    NAMES,
    NEAR,
    NOBODY,
    OUTCOMES,
    SKEW,
    UNEVEN,
    UNTOLD,
    WORTH_NAMING,
    Case,
    Name,
    is_persistent,
    job_of,
    judged,
)
from reporting import page, parser, publish, rate, table
from simulator.faults import STAGES
from simulator.job import PARALLELISMS, Job, Parallelism

Judged = dict[Parallelism, list[Case]]


def jobs_of(layout: Parallelism, names: Sequence[Name], seeds: tuple[int, int], size: tuple[int, int]) -> (
    Iterator[tuple[Name, Job]]
):  # fmt: skip
    """The jobs of a layout: seeds of those in which somebody is to be named, and of the others; ranks and steps."""
    for name in names:
        if layout == "pp_dp" or name not in STAGES:
            for seed in range(seeds[not is_persistent(name)]):
                yield name, job_of(name, seed, layout, *size)


def confusion(cases: Sequence[Case]) -> str:
    """What was named for each fault."""
    outcomes = [o for o in OUTCOMES if any(c.outcome == o for c in cases) or o in (NOBODY, ANOTHER)]
    rows = []
    for name in dict.fromkeys(c.name for c in cases):
        of_name = [c for c in cases if c.name == name]
        counts = Counter(c.outcome for c in of_name)
        share = sum(c.slowdown for c in of_name) / len(of_name)
        right = f"{sum(c.right for c in of_name)}/{len(of_name)}"
        rows.append(
            [name, of_name[0].expected, f"{share:.0%}", *(counts[o] or "" for o in outcomes), right, *_price(of_name)]
        )
    heads = [
        "fault",
        "right answer",
        "share of the step",
        *outcomes,
        "right",
        "price right",
        "high end off",
        "high/low",
    ]
    return table(heads, rows)


def _price(cases: Sequence[Case]) -> list[str]:
    priced = [c for c in cases if c.is_priced]
    if not priced:
        return ["", "", ""]
    widths = [c.priced[1] / c.priced[0] for c in priced if c.priced]
    width = f"{median(widths):.2f}" if widths else "no price"
    return [f"{sum(c.price_right for c in priced)}/{len(priced)}", f"{median(c.best_error for c in priced):.1%}", width]


def rates(cases: Sequence[Case]) -> str:
    """The figures that count, each with its 95 % interval."""
    with_fault = [c for c in cases if c.is_persistent]
    faulty = [c for c in with_fault if c.matters]
    healthy = [c for c in cases if not c.is_persistent]
    in_turn = [c for c in healthy if c.matters]
    priced = [c for c in cases if c.is_priced]
    lines = [
        ("named right, of faults worth naming", sum(c.right for c in faulty), len(faulty)),
        ("a rank named that is not at fault, of jobs with a fault", _accused(with_fault), len(with_fault)),
        ("somebody named though nobody is persistently at fault", _accused(healthy), len(healthy)),
        ("uneven work told as that", sum(c.outcome == UNEVEN for c in in_turn), len(in_turn)),
        (f"price within {NEAR:.0%} of the truth", sum(c.price_right for c in priced), len(priced)),
        ("no price, or zero", sum(c.priced is None or c.priced[1] <= 1 for c in priced), len(priced)),
        ("a negative wait", sum(c.negative for c in cases), len(cases)),
    ]  # fmt: skip
    heads = ["of simulated jobs", "share (95 % interval)"]
    return table(heads, [[what, rate(times, of)] for what, times, of in lines])


def _accused(cases: Sequence[Case]) -> int:
    return sum(c.accuses for c in cases)


def report(found: Judged, size: tuple[int, int]) -> str:
    """The rates of all layouts together, then each layout's table, in Markdown."""
    every = [case for cases in found.values() for case in cases]
    about = (
        f"Synthetic traces of {size[0]} ranks and {size[1]} steps; a host's clock is up to {SKEW.offset_ms:g} ms off "
        f"and drifts up to {SKEW.drift_ppm:g} ppm. Columns: what was named where the fault is; nobody; another rank, "
        f'which is not at fault. "{UNTOLD}" is the right answer to a slow link where one process group holds all '
        f"ranks. Nobody is right, too, where the fault makes up less than {WORTH_NAMING:.0%} of the step. The truth of "
        f"a price is the same job, simulated with its cure: for a stage everything from equal stages to a stage like "
        f"the others. A price is right if its range holds the truth, or misses it by {NEAR:.0%} of the speed at most; "
        f"beside it stand how far the high end is from the truth and how wide the range is, medians."
    )
    parts = [rates(every)]
    for layout, cases in found.items():
        parts += [f"## {layout}", *([rates(cases)] if len(found) > 1 else []), confusion(cases)]
    return page("Ranks and causes named, simulated jobs", about, *parts)


def main() -> None:
    """Runs the cases and prints the tables; what was missed goes to the error stream."""
    options = parser(__doc__)
    options.add_argument("--layout", nargs="+", choices=PARALLELISMS, default=list(PARALLELISMS))
    options.add_argument("--seeds", type=int, default=5, help="of each fault that somebody is to be named for")
    options.add_argument("--healthy-seeds", type=int, default=10, help="of each fault that is nobody's")
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--faults", nargs="*", choices=NAMES, default=NAMES, help="all of them unless named")
    stated = options.parse_args()
    found: Judged = {layout: [] for layout in stated.layout}
    size = (stated.ranks, stated.steps)
    with rules_read_once():
        for layout, cases in found.items():
            for name, job in jobs_of(layout, stated.faults, (stated.seeds, stated.healthy_seeds), size):
                cases.append(judged(name, job))
                if not (cases[-1].right and (cases[-1].price_right or not cases[-1].is_priced)):
                    print(cases[-1].note, file=sys.stderr, flush=True)
    sizes = f"-{stated.ranks}" if stated.ranks != options.get_default("ranks") else ""
    stem = "ranks-confusion" if len(found) > 1 else f"ranks-confusion-{stated.layout[0]}"
    publish(report(found, size), stated.write, stem + sizes)


if __name__ == "__main__":
    main()
