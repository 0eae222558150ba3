"""Events at random, and what compiled code and the reference find around each.

    python tests/nested_events.py 10000 --seed 1 --module build/_nests.so

tries as many, and ends with 1 where they differ. `--module` is another build of it, for a sanitizer.
"""

import argparse
import contextlib
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from compiled_builds import module_at

from diagnose.arrays import Array, Ints, Mask
from diagnose.roofline import nests

MOST = 60


def events(seed: int, count: int) -> tuple[Ints, Mask]:
    """Ends of events that begin one after the other on three threads, some inside others, some across their ends."""
    drawn = np.random.default_rng(seed)
    begin = np.sort(drawn.integers(0, 2 * count + 1, count))
    is_first = np.isin(np.arange(count), [0, count // 3, count // 2])
    return begin + drawn.integers(0, drawn.choice([3, 30, 300]), count), is_first


def before_each(count: int) -> Any:
    """The event before each."""
    return np.arange(-1, count - 1, dtype=np.int32)


def agree(seed: int, count: int) -> bool:
    """Whether the compiled code finds the same around each event, and the same marked one, as the code without it."""
    end, is_first = events(seed, count)
    up = before_each(count)
    nests._nests.enclosing(end, is_first, up)
    marked = np.random.default_rng(seed).random(count) < 0.1
    by_stack, by_rounds = nests._by_stack(end, is_first), nests._by_rounds(end, is_first, before_each(count))
    nearest = nests._nearest_by_rounds(marked, up)
    return up.tolist() == by_stack.tolist() == by_rounds.tolist() and (
        nests.nearest(marked, up).tolist() == nearest.tolist()
    )


def damaged(seed: int) -> None:
    """The compiled code over arrays of which one is cut or filled with anything; to refuse them is as good."""
    draw, count = Random(seed), Random(seed).randrange(MOST)

    def odd(array: Array) -> Array:
        anything = np.frombuffer(draw.randbytes(array.nbytes), np.uint8).view(array.dtype).copy()
        small = np.array(draw.choices(range(-3, count + 3), k=len(array)), np.int64).astype(array.dtype)
        return draw.choice([array, array[: draw.randrange(len(array) + 1)].copy(), anything, small])

    marks, up = np.zeros(count, np.uint8), before_each(count)
    with contextlib.suppress(ValueError):
        nests._nests.enclosing(odd(np.zeros(count, np.int64)), odd(marks), odd(up))
    with contextlib.suppress(ValueError):
        nests._nests.nearest(odd(marks), odd(up), odd(up))


def main() -> int:
    """The exit code: 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tries", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", type=Path)
    given = parser.parse_args()
    if given.module:
        nests._nests = module_at(given.module)
    for seed in range(given.seed, given.seed + given.tries):
        damaged(seed)
        if not agree(seed, seed % MOST):
            print(f"seed {seed}: another event is around one")
            return 1
    print(f"{given.tries} tries: both find the same around each event")
    return 0


if __name__ == "__main__":
    sys.exit(main())
