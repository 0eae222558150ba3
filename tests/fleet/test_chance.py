"""The two tests of chance, against counting every outcome and against sequences with a known shift."""

from itertools import combinations, product
from math import comb, prod

import numpy as np
import pytest

from diagnose.commands.fleet.chance import at_least, drawn_at_least, least_p, shift_in


@pytest.mark.parametrize("times", [0, 1, 2, 3, 4, 5])
def test_so_many_events_are_as_likely_as_all_outcomes_say(times: int) -> None:
    chances = [0.1, 0.5, 0.25, 0.9]
    outcomes = (
        prod(chance if happens else 1 - chance for chance, happens in zip(chances, found, strict=True))
        for found in product((True, False), repeat=4)
        if sum(found) >= times
    )

    assert at_least(times, chances) == pytest.approx(sum(outcomes))


def test_equal_chances_are_the_binomial_and_small_ones_are_not_lost() -> None:
    assert at_least(7, [0.3] * 12) == pytest.approx(sum(comb(12, k) * 0.3**k * 0.7 ** (12 - k) for k in range(7, 13)))
    assert at_least(10, [0.01] * 10) == pytest.approx(1e-20)


@pytest.mark.parametrize("times", [0, 1, 2, 3, 4])
def test_so_many_are_drawn_marked_as_all_draws_say(times: int) -> None:
    draws = [sum(one < 4 for one in drawn) for drawn in combinations(range(9), 4)]

    assert drawn_at_least(times, 4, 4, 9) == pytest.approx(sum(marked >= times for marked in draws) / len(draws))


def test_a_shift_is_found_where_it_is() -> None:
    values = np.concatenate([np.tile([0.1, 0.12], 15), np.tile([0.3, 0.33], 15)])
    at, p_value = shift_in(values)

    assert at == 30
    assert p_value == pytest.approx(least_p(60))
    assert p_value < 1e-8


def test_what_alternates_or_stands_still_has_no_shift() -> None:
    assert shift_in(np.tile([0.1, 0.3], 30))[1] > 0.5
    assert shift_in(np.full(60, 0.2))[1] == 1.0
    assert shift_in(np.zeros(1)) == (1, 1.0)


def test_a_level_is_rarely_taken_for_a_shift() -> None:
    draws = np.random.default_rng(7).lognormal(-2, 0.6, (1000, 40))

    assert sum(shift_in(row)[1] < 0.01 for row in draws) <= 20
