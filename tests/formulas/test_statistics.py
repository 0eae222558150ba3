"""Each statistic against scipy's, or against counting every outcome where scipy has none."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from scipy import stats

from diagnose.formulas.statistics import (
    binomial_tail,
    bridge_tail,
    correlated_shift,
    dixon_critical,
    draws_of,
    hypergeometric_tail,
    independent_shift,
    least_shift_p,
    long_run_variance,
    mean_ranks,
    median_distances,
    outliers,
    poisson_binomial_tail,
    robust_deviation,
    share_error,
    t_quantile,
)

BINOMIAL = [
    (3, 10, 0.2),
    (0, 5, 0.3),
    (5, 5, 0.3),
    (6, 5, 0.3),
    (2, 9, 0.0),
    (2, 9, 1.0),
    (900, 1000, 0.5),
    (9, 5000, 1e-4),
]
LEVEL = np.random.default_rng(7).normal(0, 1, 200)


@pytest.mark.parametrize("beyond", [0.005, 0.01, 0.025, 0.25, 0.5])
@pytest.mark.parametrize("freedom", [1, 1.5, 2, 3, 7.3, 30, 500.5, 1e5])
def test_quantiles_of_students_t(beyond: float, freedom: float) -> None:
    assert t_quantile(beyond, freedom) == pytest.approx(stats.t.isf(beyond, freedom), rel=1e-8, abs=1e-12)


def test_at_endless_degrees_of_freedom_t_is_normal() -> None:
    assert t_quantile(0.005, 1e9) == pytest.approx(stats.norm.isf(0.005), rel=1e-4)


@pytest.mark.parametrize("values", [[3.0], [1.0, 2.0, 9.0, 4.0], [5, 5, 5, 1], list(range(101))])
def test_a_robust_deviation(values: list[float]) -> None:
    distance = stats.median_abs_deviation(values)

    assert robust_deviation(np.array(values)) == pytest.approx(1.4826 * distance)
    assert median_distances(np.array([values, values]).T).tolist() == [distance, distance]


def test_a_robust_deviation_is_that_of_a_normal_distribution() -> None:
    assert robust_deviation(stats.norm.ppf(np.arange(1, 10_000) / 10_000)) == pytest.approx(1, rel=1e-3)
    assert robust_deviation(np.array([1.0, 2.0, 3.0]), middle=0.0) == pytest.approx(1.4826 * 2)


def test_an_outlier_is_beyond_the_factor_and_the_deviations() -> None:
    even, uneven = np.array([10, 10, 10, 11, 13]), np.array([10, 6, 14, 11, 13])

    assert outliers(even, 1.2, 3).tolist() == [False, False, False, False, True]
    assert not outliers(even, 1.5, 3).any()
    assert not outliers(uneven, 1.2, 3).any()


@pytest.mark.parametrize(("times", "of"), [(0, 20), (9, 18), (18, 18), (300, 1000)])
def test_the_error_of_a_share_is_that_of_the_binomial_with_four_more_tries(times: int, of: int) -> None:
    assert share_error(times, of) == pytest.approx(stats.binom.std(of + 4, (times + 2) / (of + 4)) / (of + 4))


@pytest.mark.parametrize(("times", "of", "chance"), BINOMIAL)
def test_tails_of_the_binomial_distribution(times: int, of: int, chance: float) -> None:
    expected = stats.binom.sf(times - 1, of, chance)

    assert binomial_tail(times, of, chance) == pytest.approx(expected, rel=1e-9)
    if of < 1000:
        assert poisson_binomial_tail(times, [chance] * of) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("times", [0, 1, 2, 3, 4, 5])
def test_so_many_events_are_as_likely_as_all_outcomes_say(times: int) -> None:
    chances = [0.1, 0.5, 0.25, 0.9]
    outcomes = (
        prod(chance if happens else 1 - chance for chance, happens in zip(chances, found, strict=True))
        for found in product((True, False), repeat=4)
        if sum(found) >= times
    )

    assert poisson_binomial_tail(times, chances) == pytest.approx(sum(outcomes))


def test_small_chances_are_not_lost() -> None:
    assert poisson_binomial_tail(10, [0.01] * 10) == pytest.approx(1e-20)
    assert binomial_tail(10, 10, 0.01) == pytest.approx(1e-20)


@pytest.mark.parametrize("times", [0, 1, 2, 3, 4])
def test_so_many_are_drawn_marked_as_all_draws_say(times: int) -> None:
    draws = [sum(one < 4 for one in drawn) for drawn in combinations(range(9), 4)]
    share = sum(marked >= times for marked in draws) / len(draws)

    assert hypergeometric_tail(times, 4, 4, 9) == pytest.approx(share)
    assert stats.hypergeom.sf(times - 1, 9, 4, 4) == pytest.approx(share)


@pytest.mark.parametrize("height", [0.3, 0.6, 1.0, 1.63, 3.0])
def test_heights_of_a_brownian_bridge(height: float) -> None:
    expected = stats.kstwobign.sf(height)

    assert bridge_tail(height) == pytest.approx(expected, rel=1e-9, abs=0.04 if height < 0.5 else 0)


@pytest.mark.parametrize("values", [[3.0, 1.0, 2.0], [2.0, 2.0, 1.0, 5.0, 2.0], [4.0], [0.0, -0.0]])
def test_ranks_of_equal_values_are_their_mean(values: list[float]) -> None:
    assert mean_ranks(np.array(values)).tolist() == stats.rankdata(values).tolist()


@pytest.mark.parametrize(("count", "critical"), [(5, 0.642), (10, 0.412), (20, 0.3), (500, 0.3)])
def test_dixons_table(count: int, critical: float) -> None:
    assert dixon_critical(count) == critical


@pytest.mark.parametrize("count", [5, 20])
def test_one_in_twenty_even_samples_has_dixons_outlier(count: int) -> None:
    samples = np.sort(np.random.default_rng(3).normal(size=(20_000, count)), axis=1)
    ratio = (samples[:, 1] - samples[:, 0]) / (samples[:, -1] - samples[:, 0])

    assert (ratio >= dixon_critical(count)).mean() == pytest.approx(0.05, abs=0.006)


def test_a_shift_is_found_where_it_is() -> None:
    values = np.concatenate([np.tile([0.1, 0.12], 15), np.tile([0.3, 0.33], 15)])
    at, p_value = independent_shift(values)

    assert at == correlated_shift(values, 10)[0] == 30
    assert p_value == pytest.approx(least_shift_p(60))
    assert p_value < 1e-8


def test_what_alternates_or_stands_still_has_no_shift() -> None:
    assert independent_shift(np.tile([0.1, 0.3], 30))[1] > 0.5
    assert independent_shift(np.full(60, 0.2))[1] == 1.0
    assert independent_shift(np.zeros(1)) == (1, 1.0)
    assert correlated_shift(np.full(60, 0.2), 10)[1] == 1.0
    assert correlated_shift(LEVEL[:19], 10) == (0, 1.0)


def test_a_level_is_rarely_taken_for_a_shift() -> None:
    draws = np.random.default_rng(7).lognormal(-2, 0.6, (1000, 40))

    assert sum(independent_shift(row)[1] < 0.01 for row in draws) <= 20


def test_a_wander_is_a_shift_only_to_the_test_that_takes_values_as_independent() -> None:
    wander = [np.cumsum(np.random.default_rng(seed).normal(size=150)) for seed in range(40)]

    assert sum(independent_shift(row)[1] < 0.01 for row in wander) >= 35
    assert sum(correlated_shift(row, 10)[1] < 0.01 for row in wander) <= 20


def test_correlated_values_tell_less_of_their_mean() -> None:
    alike = np.repeat(LEVEL, 5) - LEVEL.mean()

    assert long_run_variance(alike) > 3 * alike.var()


def test_draws_are_the_same_each_time_and_of_all_there_are() -> None:
    drawn = draws_of(7, draws=300, size=4)

    assert drawn.shape == (300, 4)
    assert set(drawn.flat) == set(range(7))
    assert (drawn == draws_of(7, draws=300, size=4)).all()
