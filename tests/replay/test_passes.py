"""The compiled loop over the items: its clocks are those of the loop in Python bit for bit. It need not be there."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passed_items import agree, amiss, bits, damaged, is_refused, job, odd_job, refers_to_nothing, relinked

from diagnose.predict.replay import passes
from diagnose.predict.replay.costs import ReplayCosts
from diagnose.predict.replay.links import Links
from diagnose.predict.replay.replay import period_ns

SEEDS = st.integers(0, 2**32)
compiled = pytest.mark.skipif(passes._loop is None, reason="the compiled loop is not installed")
tried = settings(max_examples=300, deadline=None, database=None)


def job_of(items: int) -> ReplayCosts:
    """A steady job of at least as many items."""
    return next(costs for costs in map(job, range(1000)) if len(costs.links) >= items)


# -- the same clocks ---------------------------------------------------------------------------------------------------


@compiled
@tried
@given(SEEDS)
def test_the_clocks_of_usual_items_are_the_same(seed: int) -> None:
    assert agree(job(seed))


@compiled
@tried
@given(SEEDS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_clocks_of_items_linked_with_any_are_the_same(seed: int) -> None:
    assert agree(odd_job(seed))


@compiled
@pytest.mark.parametrize("queue", [1, 2, 59, 60, 61, 119, 121, 2400, 2500, 10**12])
def test_a_queue_of_any_depth_gives_the_same_clocks(queue: int) -> None:
    """As many places as launches of a pass, of all passes, or of none: they fill in different passes."""
    each, none, ones = np.arange(60), np.full(60, -1), np.ones(60)
    links = Links(ones > 0, each, np.zeros(60, np.int64), none, none, queue, 1)
    costs = ReplayCosts(links, ones / 7, ones / 7, ones / 7, ones / 7, ones, 0.0)
    of_all = passes.PASSES
    assert bits(passes.compiled_passes(costs), of_all) == bits(passes.reference_passes(costs), of_all)


@compiled
def test_no_items_take_no_time() -> None:
    none = next(costs for costs in map(odd_job, range(100)) if not len(costs.links))
    assert [*map(bytes, bits(passes.compiled_passes(none)))] == 6 * [bytes(8 * (1 + none.links.streams))]
    assert agree(none)


@compiled
def test_columns_of_any_width_give_the_same_clocks() -> None:
    costs = job_of(30)
    stream, wait = costs.links.stream.astype(np.int8), costs.links.wait.astype(np.int32)[::-1][::-1]
    narrow = relinked(costs, stream=stream, wait=wait)
    assert bits(passes.compiled_passes(narrow)) == bits(passes.compiled_passes(costs))


def test_queues_take_the_memory_of_launches_and_not_of_places() -> None:
    """A damaged record may tell of a queue as deep as it likes."""
    queues = passes._queues(np.arange(1000), 1_000_000)
    assert {(len(each), each.maxlen) for each in queues.values()} == {(1, 1_000_000)}
    costs = relinked(job_of(30), queue=10**12)
    assert len(passes.arrays_of(costs)["begun"]) <= passes.PASSES * len(costs.links)


# -- what is refused ---------------------------------------------------------------------------------------------------


@compiled
@tried
@given(SEEDS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_link_to_what_is_not_there_is_refused(seed: int) -> None:
    costs = amiss(seed)
    assert is_refused(costs) == refers_to_nothing(costs)


@compiled
@tried
@given(SEEDS)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_arrays_of_any_content_are_refused_or_gone_over(seed: int) -> None:
    damaged(seed)


@compiled
@pytest.mark.parametrize("name", [*passes.arrays_of(job(1))])
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    costs = job_of(30)
    arrays = passes.arrays_of(costs)
    of_another_type: Any = arrays[name].astype(np.float32)
    wrong = [of_another_type, arrays[name].repeat(2)[::2], np.array([1, 2], np.int8).view(np.dtype("V1"))]
    for array in [*wrong, *([arrays[name][:-1].copy()] if name != "begun" else [])]:
        with pytest.raises(ValueError, match=r"arrays of different length|not C-contiguous"):
            passes._loop.passed(*(arrays | {name: array}).values(), 0.0)


@compiled
def test_arguments_that_are_no_arrays_are_refused() -> None:
    arrays = passes.arrays_of(job_of(30))
    for wrong in ((), (*arrays.values(),), (*arrays.values(), "1"), (*arrays.values(), 1.0, 2.0)):
        with pytest.raises(TypeError):
            passes._loop.passed(*wrong)
    with pytest.raises(TypeError, match="bytes-like"):
        passes._loop.passed(*(arrays | {"wait": [1]}).values(), 0.0)
    arrays["clocks"].flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        passes._loop.passed(*arrays.values(), 0.0)


# -- without it --------------------------------------------------------------------------------------------------------


def test_it_is_not_used_where_the_variable_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAGNOSE_REPLAY", "reference")
    monkeypatch.setattr(passes, "_loop", SimpleNamespace())
    assert passes.loop_in_use() == "reference"
    assert period_ns(job(1)) > 0


def test_it_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = [period_ns(job(seed)) for seed in range(50)]
    monkeypatch.setattr(passes, "_loop", None)
    assert passes.loop_in_use() == "reference"
    assert [period_ns(job(seed)) for seed in range(50)] == with_it
