"""Loops in Python that call the same few operators again and again, found by the operators' names.

A stack of layers calls the same operators again as well, once for each layer. Its backward pass accumulates a gradient
in each round, for the layer's own weights, where a loop over time steps or samples does so once, behind all rounds.
So they differ where all weights train; frozen layers accumulate nothing.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints, Mask, counted
from diagnose.attribution.causes import MATRIX_OPERATORS, OPERATORS, OTHER_THAN_MATRIX, PER_LAUNCH
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.roofline import nests
from diagnose.timeline import thread_turns
from diagnose.trace.vocabulary import ACCUMULATES, BACKWARD_CALL, OPS

FEWEST_ROUNDS = 16  # fewer may be layers that share their weights, of which there are 12
MOST_LAYERS = 128
NEARLY_ALL = 0.99  # of a model's parameters
SHORT_ROUND, LONGEST_ROUND = 16, 4096  # operators, without those inside another one
MOST_LENGTHS = 64  # of long rounds, those at which most operators come again
NAMED = 3
LONGEST_GAP_NS = 100_000  # between operators, under the profiler; Python that takes longer does work of its own
NO_LOOP = Unknown("no operators are called again and again in a row", nothing_helps("there is no such loop"))

_PRODUCT = re.compile(r"mm\b|mmbackward|gemm|matmul|linear|conv|attention|_cell\b|compiled|triton")  # in lower case


class Loop(NamedTuple):
    """Rounds of the same operators: the instants of operators and calls, how many rounds, and the names of one; the
    names of all that they call, and how many gradients they accumulate.
    """

    instants: iv.Intervals
    rounds: int
    names: tuple[str, ...]
    called: frozenset[str]
    gradients: int

    @property
    def has_products(self) -> bool:
        """Whether a round multiplies, as each layer of a model does."""
        return any(_PRODUCT.search(name.lower()) for name in self.called)

    @property
    def is_of_layers(self) -> bool:
        """Whether a round accumulates the gradients of weights of its own."""
        return 2 * self.gradients >= self.rounds

    @property
    def is_backward(self) -> bool:
        """Whether the rounds are of the backward pass."""
        return self.names[0].startswith(BACKWARD_CALL)


class Loops(NamedTuple):
    """The loops of the counted steps, their instants, and the mean of the operators in them that call no others."""

    each: tuple[Loop, ...]
    instants: iv.Intervals
    operator_ns: float

    @property
    def longest(self) -> Loop | None:
        """The loop that takes most time."""
        return max(self.each, key=lambda loop: iv.total(loop.instants), default=None)


@metric("share", STEP, needs_gpu=False)
def operator_loop_share(m: Measured) -> Value:
    """Operators, and Python and launches around them, in loops of at least 16 rounds that are no layers with weights
    of their own, outside of loading and of the optimizer.
    """
    return m.device_unseen or _part(m, *PER_LAUNCH, *OPERATORS) * m.share(*PER_LAUNCH, *OPERATORS)


@metric("share", "the products' time", needs_gpu=False)
def looped_product_share(m: Measured) -> Value:
    """The part of the time of matrix operators on a CPU that lies in such loops."""
    return _part(m, MATRIX_OPERATORS)


@metric("share", "the other operators' time", needs_gpu=False)
def looped_operator_share(m: Measured) -> Value:
    """The part of the time of other CPU operators that lies in such loops."""
    return _part(m, *OTHER_THAN_MATRIX)


@metric("share", "Python, dispatch and launches", needs_gpu=False)
def looped_python_share(m: Measured) -> Value:
    """The part of Python, dispatch and launches that lies in such loops."""
    return _part(m, *PER_LAUNCH)


@metric("ns", needs_gpu=False)
def mean_looped_operator_ns(m: Measured) -> Value:
    """Mean duration of the operators in such loops that call no others."""
    found = m.once(operator_loops)
    return found.operator_ns if found.each else NO_LOOP


@metric("count", needs_gpu=False)
def operator_loop_rounds(m: Measured) -> Value:
    """Rounds of the loop of operators that takes most time."""
    longest = m.once(operator_loops).longest
    return longest.rounds if longest else NO_LOOP


@metric("text", needs_gpu=False)
def looped_operators(m: Measured) -> Value:
    """The operators in a round of the loop that takes most time, three at most."""
    longest = m.once(operator_loops).longest
    if longest is None:
        return NO_LOOP
    names = [name.removeprefix(BACKWARD_CALL) for name in dict.fromkeys(longest.names)]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def operator_loops(m: Measured) -> Loops:
    """The loops of operators in the counted steps, on all threads."""
    rows = _in_steps(m)
    around = nests.parents(m.timeline.trace, rows)
    found = [loop for loop in _loops(m, rows, np.flatnonzero(around == nests.NONE)) if not loop.is_of_layers]
    shares_weights = any(loop.is_backward and loop.has_products for loop in found)
    layers = MOST_LAYERS if shares_weights and not _all_train(m) else 0
    each = tuple(loop for loop in found if not loop.has_products or (shares_weights and loop.rounds > layers))
    instants = iv.union(*(loop.instants for loop in each))
    trace, inner = m.timeline.trace, rows[nests.without_inner(around)]
    inside = inner[iv.holds(instants, trace.ts[inner])]
    return Loops(each, instants, float(trace.dur[inside].mean()) if len(inside) else 0.0)


def _all_train(m: Measured) -> bool:
    """Whether nearly all of the model's parameters are known to train."""
    trained, parameters = (m.record.number(f"model.{name}") for name in ("trainable", "parameters"))
    return trained is not None and parameters is not None and 0 < NEARLY_ALL * parameters <= trained


def _part(m: Measured, *causes: str) -> float:
    """The part of the causes' time that lies in loops of operators."""
    pieces, loops = m.attribution.pieces(*causes), m.once(operator_loops)
    return iv.total(iv.intersect(pieces, loops.instants)) / max(iv.total(pieces), 1)


def _in_steps(m: Measured) -> Ints:
    """The operators of the counted steps by thread, then by begin, without the optimizer's."""
    trace = m.timeline.trace
    rows = m.in_steps_of_host(np.flatnonzero(trace.rows_of(*OPS)))
    rows = rows[~iv.holds(m.timeline.optimizer_steps, trace.ts[rows])]
    return rows[nests.nested_order(trace, rows)]


def _loops(m: Measured, rows: Ints, outer: Ints) -> Iterator[Loop]:
    """Rounds of the same operators in a row; of several lengths the shortest. `outer` are the positions in `rows` of
    those that none calls.
    """
    trace, top, behind = m.timeline.trace, rows[outer], np.append(outer[1:], len(rows))
    alike = _alike(m, top)
    taken = np.zeros(len(top), bool)
    for length in (*range(1, min(SHORT_ROUND, len(top) - 1) + 1), *_lengths(alike)):
        for first, last in _rounds(alike, taken, length):
            taken[first : last + 1] = True
            names = tuple(trace.names[name] for name in trace.name[top[first : first + length]])
            called, times = counted(trace.name[rows[outer[first] : behind[last]]])
            inside = [trace.names[name] for name in called]
            gradients = sum(int(n) for name, n in zip(inside, times, strict=True) if re.search(ACCUMULATES, name))
            rounds = (last - first + 1) // length
            yield Loop(_called(m, top[first : last + 1]), rounds, names, frozenset(inside), gradients)


def _called(m: Measured, operators: Ints) -> iv.Intervals:
    """The instants of the operators and of what calls the next one."""
    begin, end = m.timeline.trace.ts[operators], m.timeline.trace.ends(operators)
    following = np.append(begin[1:], end[-1])
    return iv.intervals(begin, np.where(following - end <= LONGEST_GAP_NS, np.maximum(following, end), end))


def _alike(m: Measured, top: Ints) -> Ints:
    """A number for each operator, the same for those of one name in one step of one thread."""
    trace = m.timeline.trace
    begins = np.zeros(len(top), bool)
    begins[thread_turns(trace.pid[top], trace.tid[top])] = True
    begins[1:] |= np.diff(iv.which_holds(m.timeline.steps.host, trace.ts[top])) != 0
    return np.cumsum(begins) * len(trace.names) + trace.name[top]


def _lengths(alike: Ints) -> list[int]:
    """Lengths that long rounds may have: some operator comes again behind so many."""
    order = np.argsort(alike, kind="stable")
    apart = np.diff(order)[np.diff(alike[order]) == 0]
    times = np.bincount(apart[(apart > SHORT_ROUND) & (apart <= LONGEST_ROUND)], minlength=1)
    often = np.flatnonzero(times >= FEWEST_ROUNDS - 1)
    return sorted(often[np.argsort(-times[often], kind="stable")][:MOST_LENGTHS].tolist())


def _rounds(alike: Array, taken: Mask, length: int) -> Iterator[tuple[int, int]]:
    """First and last position of each row of rounds of that length."""
    again = np.zeros(len(alike) + 2, np.int8)
    again[1 : len(alike) - length + 1] = (alike[length:] == alike[:-length]) & ~taken[length:] & ~taken[:-length]
    turns = np.diff(again)
    begins, ends = np.flatnonzero(turns == 1), np.flatnonzero(turns == -1)
    long = ends - begins >= (FEWEST_ROUNDS - 1) * length
    yield from ((int(a), int(b) + length - 1) for a, b in zip(begins[long], ends[long], strict=True))
