"""Items at random, usual and odd, and what both loops over them come to.

    python tests/passed_items.py 10000 --seed 1 --module build/_loop.so

tries as many, and ends with 1 where the loops differ, or where the compiled one takes what refers to nothing.
`--module` is another build of it, for a sanitizer.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from compiled_builds import module_at

from diagnose.arrays import Array, Floats
from diagnose.predict.replay import passes
from diagnose.predict.replay.costs import ReplayCosts
from diagnose.predict.replay.device import NONE
from diagnose.predict.replay.links import Links
from diagnose.predict.replay.waits import ALL_STREAMS, ONE_STREAM

LINKS = ("launches", "owner", "stream", "edge", "wait")
TIMES = ("before", "own", "latency", "gap", "duration")
STREAMS = 3
NANOSECONDS = [0.0, 1.0, 2.0, 7.0, 20.0, 50.0]
CODES = [ONE_STREAM, ONE_STREAM - 1]
AMISS = [-(2**63), 2**63 - 1, 2**31, 1000, STREAMS, ONE_STREAM - STREAMS, ALL_STREAMS]


def job(seed: int) -> ReplayCosts:
    """Items of four kinds: calls that launch, calls alone, later activities of an earlier call, and unlinked ones."""
    pick = Random(seed).choice
    host = pick([NANOSECONDS, [0.0] * 20 + [400.0]])  # steady, or far ahead until it stalls
    columns: dict[str, list[Any]] = {name: [] for name in (*LINKS, *TIMES)}
    calls: list[int] = []
    held: list[int] = []
    for at in range(Random(seed).randint(1, 60)):
        kind = pick(["launch"] * 8 + ["host", "later" if calls else "launch", "unlinked"])
        called, on_device = kind in ("launch", "host"), kind != "host"
        calls += [at] if called else []
        item = {
            "before": pick(host) if called else 0.0,
            "own": pick(host) if called else 0.0,
            "launches": kind == "launch",
            "owner": {"launch": at, "later": calls[-1] if calls else NONE}.get(kind, NONE),
            "stream": pick([0] * 6 + [1, 2]) if on_device else NONE,
            "latency": pick([5.0, 9.0, -np.inf]) if on_device else 0.0,
            "gap": pick([0.0, 2.0]) if on_device else 0.0,
            "duration": pick(NANOSECONDS) if on_device else 0.0,
            "edge": pick([NONE] * 9 + CODES + held[-4:]) if on_device else NONE,
            "wait": pick([NONE] * 9 + [ALL_STREAMS, *CODES, *held[-4:], *[at] * on_device]) if called else NONE,
        }
        held += [at] if on_device else []
        for name, value in item.items():
            columns[name].append(value)
    arrays = {name: np.array(values) for name, values in columns.items()}
    edge_ns, queue = pick([0.0, 3.0]), pick([1, 3, 8, 9, 20, 40, 1021])
    links = Links(**{name: arrays[name] for name in LINKS}, queue=queue, streams=STREAMS)
    return ReplayCosts(links, **{name: arrays[name] for name in TIMES}, edge_ns=edge_ns)


def relinked(costs: ReplayCosts, **columns: Any) -> ReplayCosts:
    """The same items with other links."""
    return replace(costs, links=replace(costs.links, **columns))


def odd_job(seed: int) -> ReplayCosts:
    """Of a few items or none, each linked with any, earlier and later; times of which no sum is exact."""
    draw = Random(seed)
    items = draw.choice([0, 1, 2, 5, 30, 60])
    there = [*range(items), NONE, *(ONE_STREAM - stream for stream in range(STREAMS))]

    def column(value: Callable[[], float]) -> Array:
        return np.array([value() for _ in range(items)], np.float64)

    def links(of: list[int]) -> Array:
        return np.array(draw.choices(of, k=items), np.int64)

    rare = [NONE] * draw.choice([0, 200])
    launches = np.array(draw.choices([False, True], k=items), bool)
    owner, stream = links([*range(items), NONE]), links([NONE, *range(STREAMS)])
    edge, wait = links(there + rare), links([*there, ALL_STREAMS, *rare])
    queue = draw.choice([1, 2, 7, 1021, 10**12, sys.maxsize])
    return ReplayCosts(
        Links(launches, owner, stream, edge, wait, queue, STREAMS),
        before=column(lambda: draw.expovariate(0.1)),
        own=column(lambda: draw.uniform(-1, 9)),
        latency=column(lambda: draw.choice([-np.inf, draw.uniform(0, 9)])),
        gap=column(lambda: draw.uniform(-1, 1)),
        duration=column(lambda: draw.expovariate(0.1)),
        edge_ns=draw.uniform(0, 3),
    )


def amiss(seed: int) -> ReplayCosts:
    """The same with links to what is not there."""
    draw, costs = Random(seed), odd_job(seed)
    name = draw.choice(["owner", "stream", "edge", "wait"])
    column = getattr(costs.links, name).copy()
    for _ in range(draw.choice([1, 5])):
        if len(column):
            column[draw.randrange(len(column))] = draw.choice(AMISS)
    return relinked(costs, **{name: column})


def refers_to_nothing(costs: ReplayCosts) -> bool:
    """Whether a link that is followed leads nowhere."""
    links = costs.links

    def nowhere(awaited: Array, *others: int) -> Array:
        known = (awaited > ONE_STREAM - links.streams) & (awaited < len(links)) & (awaited != ALL_STREAMS)
        return ~known & ~np.isin(awaited, others)

    bad = (links.stream >= links.streams) | (links.owner >= len(links)) | nowhere(links.edge)
    return bool(((links.on_device & bad) | nowhere(links.wait, ALL_STREAMS)).any())


def bits(clocks: Iterator[Floats], count: int = 6) -> list[bytes]:
    """The clocks of the first passes."""
    return [each.tobytes() for each in islice(clocks, count)]


def agree(costs: ReplayCosts) -> bool:
    """Whether both loops give the same, bit for bit."""
    return bits(passes.compiled_passes(costs)) == bits(passes.reference_passes(costs))


def is_refused(costs: ReplayCosts) -> bool:
    """Whether the compiled loop finds what refers to nothing."""
    try:
        bits(passes.compiled_passes(costs))
    except ValueError:
        return True
    return False


def damaged(seed: int) -> None:
    """The compiled loop over arrays of which one is cut, of another type, or filled with anything."""
    draw = Random(seed)
    costs = draw.choice([job, odd_job])(seed)
    arrays = passes.arrays_of(costs)
    name = draw.choice([*arrays])
    kept = arrays[name][: draw.randrange(len(arrays[name]) + 1)].copy()
    other = arrays[name].astype(draw.choice([np.int64, np.float64, np.float32, bool]))
    anything = np.frombuffer(draw.randbytes(arrays[name].nbytes), arrays[name].dtype).copy()
    small = np.array(draw.choices(range(-2, 9), k=len(arrays[name]))).astype(arrays[name].dtype)
    arrays[name] = draw.choice([kept, other, anything, small])
    try:
        for _ in range(3):
            passes._loop.passed(*arrays.values(), costs.edge_ns)
    except ValueError:
        pass


def main() -> int:
    """The exit code: 1 where the loops differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tries", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", type=Path)
    given = parser.parse_args()
    np.seterr(all="ignore")
    if given.module:
        passes._loop = module_at(given.module)
    refused = 0
    for seed in range(given.seed, given.seed + given.tries):
        damaged(seed)
        wrong = amiss(seed)
        refused += is_refused(wrong)
        if not agree(job(seed)) or not agree(odd_job(seed)) or is_refused(wrong) != refers_to_nothing(wrong):
            print(f"seed {seed}: the loops differ")
            return 1
    print(f"{given.tries} tries, {refused} with links to nothing refused: both loops agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
