"""Runs of items give the period that a loop over the items one by one gives."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.predict.replay.costs import Costs
from diagnose.predict.replay.device import NONE
from diagnose.predict.replay.engine import _queues, by_items_ns, period_ns
from diagnose.predict.replay.runs import runs_of
from diagnose.predict.replay.waits import ALL_STREAMS, ONE_STREAM

STREAMS = 3
NANOSECONDS = [0.0, 1.0, 2.0, 7.0, 20.0, 50.0]
SEEDS = st.integers(0, 2**32)
CODES = [ONE_STREAM, ONE_STREAM - 1]


def job(seed: int) -> Costs:
    """Items of four kinds: calls that launch, calls alone, later activities of an earlier call, and unlinked ones."""
    pick = Random(seed).choice
    host = pick([NANOSECONDS, [0.0] * 20 + [400.0]])  # steady, or far ahead until it stalls
    columns: dict[str, list[Any]] = {name: [] for name in Costs.__dataclass_fields__}
    calls: list[int] = []
    held: list[int] = []
    for at in range(Random(seed).randint(1, 60)):
        kind = pick(["launch"] * 8 + ["host", "later" if calls else "launch", "unlinked"])
        called, on_device = kind in ("launch", "host"), kind != "host"
        calls += [at] if called else []
        item = {
            "before": pick(host) if called else 0.0,
            "own": pick(host) if called else 0.0,
            "launches": kind == "launch",
            "owner": {"launch": at, "later": calls[-1] if calls else NONE}.get(kind, NONE),
            "stream": pick([0] * 6 + [1, 2]) if on_device else NONE,
            "latency": pick([5.0, 9.0, -np.inf]) if on_device else 0.0,
            "gap": pick([0.0, 2.0]) if on_device else 0.0,
            "duration": pick(NANOSECONDS) if on_device else 0.0,
            "edge": pick([NONE] * 9 + CODES + held[-4:]) if on_device else NONE,
            "wait": pick([NONE] * 9 + [ALL_STREAMS, *CODES, *held[-4:], *[at] * on_device]) if called else NONE,
        }
        held += [at] if on_device else []
        for name, value in item.items():
            columns[name].append(value)
    arrays = {name: np.array(values) for name, values in columns.items() if values}
    return Costs(**arrays, edge_ns=pick([0.0, 3.0]), queue=pick([1, 3, 8, 9, 20, 40, 1021]), streams=STREAMS)


@settings(max_examples=300, deadline=None, database=None)
@given(SEEDS)
def test_the_period_is_that_of_the_items(seed: int) -> None:
    costs = job(seed)
    assert period_ns(costs) == pytest.approx(by_items_ns(costs), rel=1e-5)


@settings(max_examples=300, deadline=None, database=None)
@given(SEEDS)
def test_without_a_limit_to_the_queue_runs_are_exact_and_with_one_never_faster(seed: int) -> None:
    costs = job(seed)
    endless = replace(costs, queue=10_000)
    runs = runs_of(endless)
    assert runs is not None
    assert by_items_ns(replace(runs, queue=10_000)) == pytest.approx(by_items_ns(endless), rel=1e-5)
    if (limited := runs_of(costs)) is not None:
        assert by_items_ns(limited) >= by_items_ns(costs) * (1 - 1e-5)


def test_a_thousand_launches_on_one_stream_are_a_handful_of_items() -> None:
    items = 1000
    own = np.arange(items)
    costs = Costs(
        before=np.ones(items),
        own=np.full(items, 2.0),
        launches=np.ones(items, bool),
        owner=own,
        stream=np.zeros(items, np.int64),
        latency=np.full(items, 5.0),
        gap=np.ones(items),
        duration=np.full(items, 4.0),
        edge=np.full(items, NONE),
        wait=np.full(items, NONE),
        edge_ns=0.0,
        queue=1021,
        streams=2,
    )
    runs = runs_of(costs)
    assert runs is not None
    assert len(runs.stream) == 16
    assert period_ns(costs) == by_items_ns(costs) == 5 * items


def test_queues_take_the_memory_of_launches_and_not_of_places() -> None:
    """A damaged record may tell of a queue as deep as it likes."""
    queues = _queues(np.arange(1000), 1_000_000)
    assert {(len(each), each.maxlen) for each in queues.values()} == {(1, 1_000_000)}
