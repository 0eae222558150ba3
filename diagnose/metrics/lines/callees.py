"""The function of a library that most of a line's time is in: a processor's or a model's, not the loop's around it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

from diagnose.probes.frameworks import ACCELERATE, LOOPS

Function = tuple[str, str]
Part = tuple[tuple[Function, ...] | None, str, float]
"""What ran below the line, what the line was calling, and for how long."""
_AROUND = (
    *(path.removesuffix(".py") for path in LOOPS),
    *(f"{package}/" for package in ACCELERATE.packages),
)  # training loops, and what wraps their calls


class Called(msgspec.Struct, frozen=True):
    """A function, as `modeling_llama.py: forward` or `save`, and its time."""

    name: str
    weight: float


def deepest_call(parts: Sequence[Part]) -> Called | None:
    """The deepest function with half of the time: of what training loops run if they run anything, else of all; None
    if there is none.
    """
    chains = [(tuple(dict.fromkeys(below or ())), weight) for below, _, weight in parts]
    inside = [(tuple(_without_loops(chain)), weight) for chain, weight in chains]
    whole = sum(weight for *_, weight in parts)
    told = _deepest(inside, sum(weight for chain, weight in inside if chain)) or _deepest(chains, whole)
    if told is not None and told.weight >= _WORTH_TELLING * whole:
        return told
    named: dict[str, float] = defaultdict(float)
    for _, calls, weight in parts:
        named[calls] += weight if calls else 0.0
    name = max(named, key=lambda each: named[each], default="")
    return Called(name, named[name]) if name and named[name] >= whole / 2 else None


_WORTH_TELLING = 0.1  # of the line's time


def _without_loops(chain: Sequence[Function]) -> Iterator[Function]:
    return (function for function in chain if not function[0].startswith(_AROUND))


def _deepest(chains: Sequence[tuple[Sequence[Function], float]], whole: float) -> Called | None:
    inside: dict[Function, float] = defaultdict(float)
    depth: dict[Function, int] = {}
    for chain, weight in chains:
        for at, function in enumerate(chain):
            inside[function] += weight
            depth[function] = max(depth.get(function, 0), at)
    most = [function for function, weight in inside.items() if 2 * weight >= whole]
    if not most:
        return None
    file, name = found = max(most, key=lambda function: depth[function])
    return Called(f"{PurePosixPath(file).name}: {name}", inside[found])
