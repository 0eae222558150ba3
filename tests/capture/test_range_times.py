"""Where the time of steps without the profiler goes: the innermost range counts, and all of them add up."""

import gc
import threading
import time

import pytest
from capture.test_session import Clock

from diagnose.probes.recording import ranges
from diagnose.probes.recording.clock import StepClock
from diagnose.probes.recording.range_times import MOST_NAMES, RangeTimes, Timed, times


@pytest.fixture
def timed() -> tuple[RangeTimes, Clock]:
    clock = Clock()
    made = RangeTimes(clock)
    made.restart(on=True)
    return made, clock


def test_a_range_within_another_is_its_own(timed: tuple[RangeTimes, Clock]) -> None:
    made, clock = timed
    made.opened("forward")
    clock.now += 10
    made.opened("data_wait")
    clock.now += 3
    made.closed("data_wait")
    clock.now += 2
    made.closed("forward")
    clock.now += 5  # in no range

    assert made.taken() == {"forward": 12, "data_wait": 3}


def test_a_range_that_cuts_across_steps_counts_in_each(timed: tuple[RangeTimes, Clock]) -> None:
    made, clock = timed
    made.opened("eval")
    clock.now += 4
    first = dict(made.taken())
    made.restart(on=True)
    clock.now += 6
    made.closed("eval")

    assert (first, made.taken()) == ({"eval": 4}, {"eval": 6})


def test_an_end_that_is_missing_ends_with_the_range_around_it(timed: tuple[RangeTimes, Clock]) -> None:
    made, clock = timed
    for name in ("forward", "lost"):
        made.opened(name)
        clock.now += 1
    made.closed("forward")
    clock.now += 7

    assert made.taken() == {"forward": 1, "lost": 1}


def test_ranges_of_another_thread_are_not_counted(timed: tuple[RangeTimes, Clock]) -> None:
    made, clock = timed
    told: list[bool] = []
    thread = threading.Thread(target=lambda: told.append(made.opened("elsewhere")))
    thread.start()
    thread.join()
    clock.now += 5

    assert told == [False]
    assert made.taken() == {}


def test_names_without_end_are_no_memory_without_end(timed: tuple[RangeTimes, Clock]) -> None:
    made, clock = timed
    for number in range(3 * MOST_NAMES):
        made.opened(f"batch {number}")
        clock.now += 1
        made.closed(f"batch {number}")

    assert len(made.taken()) == MOST_NAMES


def test_steps_without_the_profiler_are_timed_by_range_and_no_others() -> None:
    clock = Clock()
    steps = StepClock(clock)
    for phase in ("waiting", "control", "active", "control_after"):
        steps.step_begins(phase)
        ranges.within(ranges.FORWARD)(lambda: None)
        with Timed("diagnose.data_wait"):
            pass
        clock.now += 1000
        steps.step_ended(phase)
    steps.step_begins("done")

    assert steps.host_times() == [1000, 1000]
    assert {name: len(each) for name, each in steps.range_times().items()} == {
        "diagnose.forward": 2,
        "diagnose.data_wait": 2,
    }
    assert not times.on


def test_collections_of_steps_without_the_profiler_are_timed_and_nothing_stays_behind() -> None:
    before, clock = list(gc.callbacks), StepClock(time.perf_counter_ns)
    for phase, following in (("control", "control"), ("control", "active"), ("active", "control_after")):
        clock.step_begins(phase)
        gc.collect()
        clock.step_ended(phase)
        clock.step_begins(following)
    clock.step_ended("control_after")
    clock.rest()

    each = clock.collection_times()
    assert [spent > 0 for spent in each] == [True, True, False]  # the profiled step has its own record of them
    assert all(spent <= step for spent, step in zip(each, clock.host_times(), strict=True))
    assert gc.callbacks == before


def test_collections_of_steps_that_got_no_time_are_no_part_of_the_next() -> None:
    clock = StepClock(time.perf_counter_ns)
    clock.step_begins("control")
    for _ in range(3):
        gc.collect()
        clock.step_passed("control")
    clock.step_begins("control")
    clock.step_ended("control")
    clock.rest()

    assert clock.collection_times() == [0]
