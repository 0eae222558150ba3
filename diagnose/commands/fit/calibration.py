"""How far measured runs support a predicted step: its range, and what of the job was never measured."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from diagnose.commands.fit.boards import family
from diagnose.commands.fit.feature_doubts import feature_doubts
from diagnose.commands.fit.stacks import StackRates, kinds_of
from diagnose.predict.memory.job import JobPlan

NEAR = 1.1  # a size so much beyond the measured ones counts as measured
_TELLING = 0.02  # of the logarithm of the step: an assumption that moves it by less is not named
_OWN = "stack"  # the factor of a stack of which no run is known


@dataclass(frozen=True)
class Calibration:
    """The range of a predicted step and where it is from.

    Four in five measured runs lay within such a range: one in ten was faster, and one in ten slower.

    Attributes:
        low_s: seconds of the step when it goes well.
        likely_s: seconds to expect.
        high_s: seconds when it goes badly.
        rows: measured runs of the same stack that were like this one: same board, kind of sharding, and sizes between
            the smallest and the largest measured.
        factors: those that widen the range for what was never measured; empty if everything was.
        because: a clause for each of `factors`, and for what was never measured together.
    """

    low_s: float
    likely_s: float
    high_s: float
    rows: int
    factors: Mapping[str, float]
    because: tuple[str, ...]

    @property
    def says(self) -> str:
        """Text of what the range rests on."""
        if self.because:
            return f"not calibrated: {'; '.join(self.because)}"
        return f"calibrated on {self.rows} {'row' if self.rows == 1 else 'rows'} like this"

    @property
    def width(self) -> float:
        """The slow end over the fast one."""
        return self.high_s / self.low_s


@dataclass(frozen=True)
class Steps:
    """The material of a range: seconds of a steady step with any rates, and of the likely and both end cases."""

    steady_with: Callable[[StackRates], float]
    steady_s: float
    likely_s: float
    best_s: float
    worst_s: float


def calibration_of(plan: JobPlan, stack: StackRates, regime: str, steps: Steps) -> Calibration:
    """The range of a plan's step.

    What was measured of such jobs leaves a spread, and so does each thing that was never measured. They are
    independent, so the squares of their logarithms add up.
    """
    slower_host = stack.with_rates({"host_layer_s": 2 * stack.host_layer_s})
    host_share = steps.steady_with(slower_host) / steps.steady_s - 1
    doubts = (*_unmeasured(plan, stack), *feature_doubts(plan, stack, host_share))
    unmeasured = {axis: (clause, by) for axis, clause, by in doubts}
    logs = {axis: by * math.log(stack.uncertainty[axis]) for axis, (_, by) in unmeasured.items()}
    assumed = dict(_assumed(plan, stack, steps))
    slower = math.hypot(*(max(low, high, 0.0) for low, high in assumed.values()))
    faster = math.hypot(*(max(-low, -high, 0.0) for low, high in assumed.values()))
    slow, fast = (math.hypot(*logs.values(), each) for each in (slower, faster))
    least, most = stack.span[regime]
    rows = sum(kind.rows for kind in stack.measured if kind.holds(plan))
    because = [clause for clause, _ in unmeasured.values() if clause]
    because += [_assumption(name, stack) for name in assumed]
    if not because and not rows:
        because = [f"{stack.name} was run on such a board, division and size, but not together"]
    factors = {axis: math.exp(value) for axis, value in logs.items()}
    if assumed:
        factors["assumptions"] = math.exp(max(slower, faster))
    return Calibration(
        low_s=steps.best_s / math.exp(math.hypot(math.log(max(most, 1.0)), fast)),
        likely_s=steps.likely_s,
        high_s=steps.worst_s * math.exp(math.hypot(math.log(min(least, 1.0)), slow)),
        rows=rows,
        factors=factors,
        because=tuple(because),
    )


def _unmeasured(plan: JobPlan, stack: StackRates) -> Iterator[tuple[str, str, float]]:
    """Traits that no run of the stack had: the factor's name, a clause, and how often the factor counts."""
    if not stack.measured:
        yield _OWN, "no run of this training stack is known", 1.0
        return
    yield from _unmeasured_board(plan, stack)
    measured = {kind for row in stack.measured for kind in row.kinds}
    if never := [kind for kind in kinds_of(plan) if kind not in measured]:
        yield "sharding", f"{stack.name} was never run {' and '.join(never)}", 1.0
    sizes = (
        ("seq_len", plan.seq_len, "no row with sequences of {} tokens"),
        ("parameters", plan.model.parameters, "no row of a model of {} parameters"),
        ("nodes", plan.nodes, "no row on {} nodes"),
    )
    for axis, size, clause in sizes:
        low = min(getattr(row, axis)[0] for row in stack.measured)
        high = max(getattr(row, axis)[1] for row in stack.measured)
        beyond = max(low / size, size / high)
        if beyond > NEAR:
            measured_sizes = f"{_count(low)} to {_count(high)}" if low < high else f"only {_count(low)}"
            yield axis, f"{clause.format(_count(size))} ({measured_sizes})", 1.0


def _unmeasured_board(plan: JobPlan, stack: StackRates) -> Iterator[tuple[str, str, float]]:
    boards = {row.board for row in stack.measured}
    if plan.gpu.key in boards:
        return
    if alike := sorted(board for board in boards if family(board) == family(plan.gpu.key)):
        yield "variant", f"no row on {plan.gpu.key}, only on {' and '.join(alike)}", 1.0
    else:
        yield "board", f"no row on {plan.gpu.key}", 1.0


def _assumed(plan: JobPlan, stack: StackRates, steps: Steps) -> Iterator[tuple[str, tuple[float, float]]]:
    """Logarithms by which the step changes at both ends of each rate that no run of the stack depends on."""
    for name, ends in stack.assumed.items():
        low, high = (math.log(steps.steady_with(stack.with_rates({name: end})) / steps.steady_s) for end in ends)
        if max(abs(low), abs(high)) > _TELLING:
            yield name, (low, high)


def _assumption(name: str, stack: StackRates) -> str:
    low, high = stack.assumed[name]
    return f"{name.removesuffix('_s').replace('_', ' ')} is assumed ({low:.2g} to {high:.2g})"


def _count(number: float) -> str:
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:,.0f}"
