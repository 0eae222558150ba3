"""A rank whose own links are slow in all of its groups: it is named, and not those that share a group with it."""

import json
from functools import cache

import numpy as np
import pytest
from analysed import MS, digest
from simulator import Fault, Job, simulate

from diagnose.attribution.causes import WAITING
from diagnose.ranks import Job as Joined
from diagnose.ranks import join
from diagnose.ranks.network.slow_links import SlowLink, _all_with_slow_ranks, passed_to_slow_ranks

NOWHERE = np.zeros(0, np.int64)


def link(*members: int, extra_ns: int = MS) -> SlowLink:
    return SlowLink(members, "slow", extra_ns, 0, NOWHERE, 0.25)


@pytest.mark.parametrize(
    ("groups", "blamed"),
    [
        ([(0, 1, 2, 3)], [(0, 1, 2, 3)]),  # one group does not tell whose link it is
        ([(4, 5, 6, 7), (2, 6, 10, 14)], [(6,), (6,)]),
        ([(4, 5, 6, 7), (4, 5, 6, 7)], [(4, 5, 6, 7), (4, 5, 6, 7)]),  # of two kinds of collectives
        ([(0, 1), (2, 3), (4, 5, 6)], [(0, 1), (2, 3), (4, 5, 6)]),
        ([(0, 1), (0, 1, 2, 3)], [(0, 1), (0, 1)]),
        ([(0, 1), (1, 5), (2, 3)], [(1,), (1,), (2, 3)]),
    ],
)
def test_a_rank_that_slow_groups_have_in_common_explains_them(
    groups: list[tuple[int, ...]], blamed: list[tuple[int, ...]]
) -> None:
    assert [found.slow_ranks for found in _all_with_slow_ranks([link(*members) for members in groups])] == blamed


def test_what_the_others_of_its_groups_are_waited_for_is_its() -> None:
    """But for a step in which one of them is later by its own doing."""
    caused, own = np.array([[10, 10], [5, 5], [1, 1]]), np.array([[0, 0], [0, 2 * MS], [0, 0]])
    links = _all_with_slow_ranks([link(0, 1), link(0, 2)])

    assert passed_to_slow_ranks(caused, own, links).tolist() == [[16, 11], [0, 5], [0, 0]]


@cache
def slow_rank() -> Joined:
    """Rank 6 of sixteen in groups of four for tensors and for data; its links are four times as slow."""
    job = Job(ranks=16, ranks_per_node=4, parallelism="tp_dp", faults=(Fault("slow_link", (6,), 4),), steps=4)
    return join([digest(json.loads(text), rank) for rank, text in simulate(job).traces()])


def test_a_rank_with_slow_links_is_named_alone() -> None:
    (late,) = slow_rank().stragglers

    assert (late.rank, late.cause) == (6, "link")
    assert "2 slow groups have it in common" in late.because


def test_ranks_that_a_slow_link_makes_late_are_late_in_communication() -> None:
    """But for the first collectives, to which they come late by what was before the capture."""
    waited = slow_rank().together(range(16))
    by_work = sum(waited[cause] for cause in WAITING if cause not in ("late-rank-communication", "late-rank-beginning"))

    assert by_work < 0.01 * waited["late-rank-communication"]
