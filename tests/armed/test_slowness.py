"""Which steps make a window wanted: step times in, windows out."""

import random

import pytest

from diagnose.probes.timing.slowness import Slowness
from diagnose.probes.timing.triggers import Triggers, Wanted


def wanted(times: list[int]) -> list[tuple[int, Wanted]]:
    """The windows that steps of these milliseconds make wanted, each with the step at which it is."""
    judge = Slowness(1.3)
    found = [(step, judge.step_ended(step, ns * 1_000_000)) for step, ns in enumerate(times, 1)]
    return [(step, one) for step, one in found if one is not None]


def steady(steps: int, noise: int = 5, seed: int = 1) -> list[int]:
    chance = random.Random(seed)
    return [100 + chance.randint(-noise, noise) for _ in range(steps)]


def test_a_slow_step_every_50_is_expected_again_after_the_third() -> None:
    times = steady(400)
    for step in range(50, 401, 50):
        times[step - 1] = 180

    step, first = wanted(times)[0]

    assert step == 150
    assert (first.step, first.period) == (200, 50)
    assert first.why == "a slow step comes every 50 steps"


@pytest.mark.parametrize("jitter", [0, 1])
def test_a_period_is_seen_among_other_slow_steps(jitter: int) -> None:
    times = steady(1000)
    for step in range(100, 1000, 100):
        times[step - 1 + (jitter if step % 200 else 0)] = 300
    for step in (137, 251, 333):
        times[step - 1] = 250

    found = [one.period for _, one in wanted(times)]

    assert len(found) >= 3
    assert all(98 <= period <= 102 for period in found)


def test_steps_that_stay_slower_want_a_window_at_once() -> None:
    times = steady(200) + [160] * 30

    step, first = wanted(times)[0]

    assert step == 203
    assert first.step is None
    assert first.why == "since step 201 steps take 1.6x the usual time"


@pytest.mark.parametrize(
    ("what", "times"),
    [
        ("noise of a third", [100 + random.Random(step).randint(-29, 29) for step in range(3000)]),
        ("two lengths of batches", [100 if random.Random(step).random() < 0.7 else 200 for step in range(3000)]),
        ("a busy machine", [random.Random(step).randint(12, 90) for step in range(3000)]),
        ("one stall", [*steady(300), 900, *steady(300)]),
        ("slow until it is warm", [900, 500, 300, 200, *steady(300)]),
        ("faster from one step on", [*steady(300), *[50] * 300]),
    ],
)
def test_what_comes_once_or_always_wants_no_window(what: str, times: list[int]) -> None:
    assert wanted(times) == [], what


def test_a_step_that_was_recorded_slow_wants_no_further_window() -> None:
    judge, asked = Slowness(1.3), []
    for step in range(1, 1000):
        if 198 <= step <= 201:  # a window
            slow = judge.recorded({199: 100, 200: 250, 201: 101, 198: 99}) if step == 201 else None
            assert slow in (None, 200)
            continue
        asked.append(judge.step_ended(step, 180 if step % 50 == 0 else 100))

    assert [one.step for one in asked if one is not None] == [200]


def test_a_period_that_no_window_confirms_is_tried_three_times() -> None:
    judge, opened = Slowness(1.3), 0
    for step in range(1, 3000):
        one = judge.step_ended(step, 180 if step % 50 == 0 else 100)
        if one is not None:
            judge.answered(one)
            opened += 1

    assert opened == 3


@pytest.mark.parametrize(
    ("wanted", "earliest", "first"),
    [
        (Wanted("any"), 10, 10),
        (Wanted("due", 200, 50), 155, 198),  # the wanted one is the third of four, of which the first is not counted
        (Wanted("due", 200, 50), 199, 248),
        (Wanted("due", 200, 50), 700, 748),
        (Wanted("once", 200), 155, 198),
        (Wanted("over", 200), 300, None),
    ],
)
def test_a_window_of_four_holds_the_wanted_step(wanted: Wanted, earliest: int, first: int | None) -> None:
    assert wanted.first_step(earliest, 4) == first


def test_windows_by_count() -> None:
    asked = Triggers(every=100, at_steps=(50, 230), windows=2)

    assert [asked.counted(after, 0) for after in (0, 50, 100, 210)] == [50, 100, 200, 230]
    assert [asked.counted(after, 2) for after in (0, 60, 230)] == [50, 230, None]
    assert Triggers.of(asked.to_json()) == asked
