"""Causes, kernels and ranks: what differs, and that it adds up."""

import numpy as np
import pytest
from compared_runs import MS, kernel, run, side, traces
from hypothesis import given
from hypothesis import strategies as st

from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.difference import apportioned, breakdown_step, kernel_differences, rank_differences
from diagnose.commands.compare.side import Side, SideCause, SideRank

CAUSES = ("gemm", "data-wait", "sync", "optimizer")


@st.composite
def sides(draw: st.DrawFn) -> Side:
    """A run of one to twelve steps with any times of up to four causes."""
    steps = draw(st.integers(1, 12))
    causes = tuple(
        SideCause(cause=cause, class_="host", ns=sum(each), by_step_ns=tuple(each))
        for cause in CAUSES
        if (each := draw(st.lists(st.integers(0, 10**10), min_size=steps, max_size=steps)))
    )
    each_ns = tuple(sum(cause.by_step_ns[at] for cause in causes) for at in range(steps))
    return run(causes=causes, each_ns=each_ns, counted=steps)


@given(sides(), sides())
def test_the_causes_of_any_two_runs_add_up_to_the_difference_of_their_steps(one: Side, other: Side) -> None:
    found = compare(one, other)

    if any(one.each_ns) and any(other.each_ns):
        assert found.difference_ns == sum(row.ns for row in found.difference)
        assert found.before_ns == sum(row.before_ns for row in found.difference)
        assert found.after_ns == sum(row.after_ns for row in found.difference)
        assert all(row.ns == row.after_ns - row.before_ns for row in found.difference)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e12)))
def test_whole_parts_add_up_to_the_rounded_sum(parts: dict[str, float]) -> None:
    found = apportioned(parts)

    assert sum(found.values()) == round(sum(parts.values()))
    assert all(abs(found[name] - parts[name]) < 1.001 for name in parts)


@pytest.mark.long
@pytest.mark.parametrize("path", traces(), ids=lambda path: path.name[:40])
def test_the_differences_add_up_on_every_pair_of_traces(path: object) -> None:
    before = side(path)  # type: ignore[arg-type]
    for other in traces():
        after = side(other)
        found = compare(before, after)

        if before.step == after.step:
            assert found.before_ns is not None
            assert found.after_ns is not None
            assert found.difference_ns == found.after_ns - found.before_ns == sum(row.ns for row in found.difference)
        else:
            assert "causes" in [part.what for part in found.not_compared]
        if found.kernels:
            total = sum(k.ns for k in after.kernels) - sum(k.ns for k in before.kernels)
            assert sum(row.ns for row in found.kernels) == total


def test_the_step_that_is_left_out_is_left_out_of_the_causes_too() -> None:
    usual, one_slow = run(100, 100, 100, 100), run(100, 100, 190, 100)
    kept = np.array([True, True, False, True])

    assert breakdown_step(one_slow, kept) == {"gemm": 50 * MS, "data-wait": 50 * MS}
    assert compare(usual, one_slow).difference_ns == 0


def test_kernels_are_added_gone_more_often_or_longer() -> None:
    before = run(100, kernels=(kernel("gone", 3), kernel("often", 4, 4), kernel("longer", 5, 2), kernel("same", 1)))
    after = run(100, kernels=(kernel("new", 2), kernel("often", 8, 8), kernel("longer", 9, 2), kernel("same", 1)))

    found = kernel_differences(before, after)

    told = {row.name: (row.change, row.ns // MS) for row in found}
    changed = {"gone": ("gone", -3), "often": ("count", 4), "longer": ("time", 4), "new": ("added", 2)}
    assert told == changed | {"": ("rest", 0)}
    assert sum(row.ns for row in found) == 7 * MS


def test_a_kernel_that_the_other_side_may_have_among_its_unlisted_ones_is_not_called_new() -> None:
    before = run(100, kernels=(kernel("long", 9), kernel("", 5, 40)))
    after = run(100, kernels=(kernel("long", 9), kernel("short", 2), kernel("very long", 12)))

    found = {row.name: row.change for row in kernel_differences(before, after)}

    assert found == {"very long": "added", "": "rest"}


def test_ranks_are_compared_where_both_have_the_same_ones() -> None:
    two = (SideRank(rank=0, step_ns=10, own_ns=6), SideRank(rank=1, step_ns=10, own_ns=10, late=True))
    cured = (SideRank(rank=0, step_ns=7, own_ns=6), SideRank(rank=1, step_ns=7, own_ns=7))

    found = rank_differences(run(10, each_rank=two), run(7, each_rank=cured))

    assert [(r.rank, r.after_own_ns - r.before_own_ns, r.late_before, r.late_after) for r in found] == [
        (0, 0, False, False),
        (1, -3, True, False),
    ]
    assert rank_differences(run(10, each_rank=two), run(7, each_rank=cured[:1])) == ()
