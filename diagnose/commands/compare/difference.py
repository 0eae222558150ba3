"""Sources of the difference of two steps: causes, kernels and ranks, each adding up."""

from collections.abc import Mapping, Sequence

import numpy as np

from diagnose.arrays import Mask
from diagnose.commands.compare.answer import CauseDifference, KernelChange, KernelDifference, RankDifference
from diagnose.commands.compare.side import Side, SideKernel
from diagnose.diagnosis.terms import CauseClass

KERNELS_SHOWN = 20
_SAME_COUNT = 0.005


def breakdown_step(side: Side, kept: Mask, ratio: float = 1.0) -> dict[str, int]:
    """Nanoseconds of each cause in the mean of the kept steps, for the work of `1 / ratio` steps; whole numbers.

    They add up to the rounded mean step: what rounding leaves goes to the causes that it took most from.
    """
    steps = max(side.counted, 1) * ratio
    by_step = not kept.all() and all(len(cause.by_step_ns) == len(kept) for cause in side.causes)
    if by_step:
        steps *= float(kept.mean())
        parts = {c.cause: float(np.asarray(c.by_step_ns, np.float64)[kept].sum()) / steps for c in side.causes}
    else:
        parts = {cause.cause: cause.ns / steps for cause in side.causes}
    return apportioned(parts)


def apportioned(parts: Mapping[str, float]) -> dict[str, int]:
    """The parts as whole numbers that add up to their rounded sum (largest remainders)."""
    whole = {name: int(value) for name, value in parts.items()}
    missing = round(sum(parts.values())) - sum(whole.values())
    order = sorted(parts, key=lambda name: (whole[name] - parts[name], name))
    for name in order[: max(missing, 0)]:
        whole[name] += 1
    return whole


def cause_differences(
    before: Mapping[str, int], after: Mapping[str, int], class_of: Mapping[str, CauseClass]
) -> tuple[CauseDifference, ...]:
    """Each cause of either side, the largest difference first; they add up to the difference of the steps."""
    rows = [
        CauseDifference(
            cause=cause,
            class_=class_of[cause],
            before_ns=before.get(cause, 0),
            after_ns=after.get(cause, 0),
            ns=after.get(cause, 0) - before.get(cause, 0),
        )
        for cause in dict.fromkeys((*before, *after))
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.ns), row.cause)))


def classes_of(*sides: Side) -> dict[str, CauseClass]:
    """The class of each cause of the sides."""
    return {cause.cause: cause.class_ for side in sides for cause in side.causes}


def kernel_differences(before: Side, after: Side) -> tuple[KernelDifference, ...]:
    """The largest differences by name and the rest; they add up to that of the time of all kernels.

    A name that one side lists and the other has among its unlisted ones may be either: it counts in the rest.
    """
    if not before.kernels or not after.kernels:
        return ()
    one, other = _named(before.kernels), _named(after.kernels)
    told = [name for name in dict.fromkeys((*one, *other)) if name and _is_listed(name, before.kernels, after.kernels)]
    rows = [_kernel(name, one.get(name), other.get(name)) for name in told]
    rows.sort(key=lambda row: (-abs(row.ns), row.name))
    shown = [row for row in rows[:KERNELS_SHOWN] if row.ns or row.before_count != row.after_count]
    sums = [[sum(k.ns for k in s.kernels), sum(k.count for k in s.kernels)] for s in (before, after)]
    rest = KernelDifference(
        name="",
        change="rest",
        before_count=max(sums[0][1] - sum(row.before_count for row in shown), 0.0),
        after_count=max(sums[1][1] - sum(row.after_count for row in shown), 0.0),
        before_ns=int(sums[0][0]) - sum(row.before_ns for row in shown),
        after_ns=int(sums[1][0]) - sum(row.after_ns for row in shown),
        ns=int(sums[1][0] - sums[0][0]) - sum(row.ns for row in shown),
    )
    return (*shown, rest)


def _named(kernels: Sequence[SideKernel]) -> dict[str, SideKernel]:
    """Kernels by name; those whose names were cut to the same text are added up."""
    found: dict[str, SideKernel] = {}
    for kernel in kernels:
        known = found.get(kernel.name)
        both = (kernel.count, kernel.ns) if known is None else (known.count + kernel.count, known.ns + kernel.ns)
        found[kernel.name] = SideKernel(name=kernel.name, count=both[0], ns=both[1])
    return found


def _is_listed(name: str, *sides: Sequence[SideKernel]) -> bool:
    """Whether both sides list the kernel, or a side lists all kernels that take as long as it does on the other."""
    of_name = [next((k.ns for k in kernels if k.name == name), None) for kernels in sides]
    longest = max(ns for ns in of_name if ns is not None)
    return all(
        ns is not None or all(k.name for k in kernels) or longest > min((k.ns for k in kernels if k.name), default=0)
        for ns, kernels in zip(of_name, sides, strict=True)
    )


def _kernel(name: str, before: SideKernel | None, after: SideKernel | None) -> KernelDifference:
    nothing = SideKernel(name=name, count=0.0, ns=0)
    one, other = before or nothing, after or nothing
    return KernelDifference(
        name=name,
        change="added" if before is None else "gone" if after is None else _change(one, other),
        before_count=one.count,
        after_count=other.count,
        before_ns=one.ns,
        after_ns=other.ns,
        ns=other.ns - one.ns,
    )


def _change(before: SideKernel, after: SideKernel) -> KernelChange:
    """The larger part of the difference: how often the kernel runs, or how long each one takes."""
    if abs(after.count - before.count) <= _SAME_COUNT * max(before.count, after.count):
        return "time"
    each = before.ns / before.count if before.count else 0.0
    by_count = (after.count - before.count) * each
    return "count" if abs(by_count) >= abs(after.ns - before.ns - by_count) else "time"


def rank_differences(before: Side, after: Side) -> tuple[RankDifference, ...]:
    """Differences of the ranks of a job with several; empty unless both sides have the same ranks."""
    one, other = ({rank.rank: rank for rank in side.each_rank} for side in (before, after))
    if len(one) < 2 or set(one) != set(other):
        return ()
    return tuple(
        RankDifference(
            rank=number,
            before_ns=one[number].step_ns,
            after_ns=other[number].step_ns,
            before_own_ns=one[number].own_ns,
            after_own_ns=other[number].own_ns,
            late_before=one[number].late,
            late_after=other[number].late,
        )
        for number in sorted(one)
    )
