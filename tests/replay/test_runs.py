"""Runs of items give the period that a loop over the items one by one gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passed_items import job, relinked

from diagnose.predict.replay.costs import ReplayCosts
from diagnose.predict.replay.device import NONE
from diagnose.predict.replay.links import Links
from diagnose.predict.replay.replay import by_items_ns, period_ns, runs_of

SEEDS = st.integers(0, 2**32)


@settings(max_examples=300, deadline=None, database=None)
@given(SEEDS)
def test_the_period_is_that_of_the_items(seed: int) -> None:
    costs = job(seed)
    assert period_ns(costs) == pytest.approx(by_items_ns(costs), rel=1e-5)


@settings(max_examples=300, deadline=None, database=None)
@given(SEEDS)
def test_without_a_limit_to_the_queue_runs_are_exact_and_with_one_never_faster(seed: int) -> None:
    costs = job(seed)
    endless = relinked(costs, queue=10_000)
    runs = runs_of(endless)
    assert runs is not None
    assert by_items_ns(relinked(runs, queue=10_000)) == pytest.approx(by_items_ns(endless), rel=1e-5)
    if (limited := runs_of(costs)) is not None:
        assert by_items_ns(limited) >= by_items_ns(costs) * (1 - 1e-5)


def test_a_thousand_launches_on_one_stream_are_a_handful_of_items() -> None:
    items = 1000
    own = np.arange(items)
    ones, none = np.ones(items), np.full(items, NONE)
    links = Links(ones > 0, own, np.zeros(items, np.int64), none, none, queue=1021, streams=2)
    costs = ReplayCosts(links, ones, own=2 * ones, latency=5 * ones, gap=ones, duration=4 * ones, edge_ns=0.0)
    runs = runs_of(costs)
    assert runs is not None
    assert len(runs.links) == 16
    assert period_ns(costs) == by_items_ns(costs) == 5 * items
