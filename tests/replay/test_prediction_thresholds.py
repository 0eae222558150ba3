"""Both sides of each threshold of the replay and of what is predicted with it, in numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from diagnose.facts import Fact
from diagnose.predict.plan import Weight, pays
from diagnose.predict.replay import device, waits
from diagnose.predict.replay.host_speeds import RecordedCause, speeds_that_fit
from diagnose.predict.replay.replay import NOT_SHOWN, Replay, _standing_for_all, _what_kernels_wait_for, host_speeds_for
from diagnose.predict.whatif import Predictor

US, MS = 1_000, 1_000_000


@pytest.mark.parametrize(("gain", "worth"), [(1.022, True), (1.018, False)])
def test_a_change_pays_that_surely_makes_the_step_two_per_cent_faster(gain: float, worth: bool) -> None:
    assert pays((gain, gain)) is worth
    assert Weight("critical").leads((gain, gain)) is worth


@pytest.mark.parametrize(("gain", "worth"), [(1.055, True), (1.045, False)])
def test_a_change_pays_that_may_make_it_five_per_cent_faster(gain: float, worth: bool) -> None:
    assert pays((1.0, gain)) is worth


@pytest.mark.parametrize(("wait", "waits_for"), [(0.11, True), (0.09, False)])
def test_a_step_waits_for_workers_from_a_tenth_of_it_on(wait: float, waits_for: bool) -> None:
    facts = {"loader_workers": Fact("loader_workers", "some", "text"), "data_wait_share": Fact("d", wait, "share")}
    given: Any = SimpleNamespace(facts=facts)

    assert Predictor._waits_for_workers.func(given) is waits_for


@pytest.mark.parametrize(("error", "valid"), [(0.048, True), (0.052, False)])
def test_a_replay_is_believed_that_misses_the_step_by_a_twentieth_at_most(error: float, valid: bool) -> None:
    replay: Any = SimpleNamespace(_obstacle="", strict_error=error, _unchanged_ns=1.0, measured_ns=2.0, _unseen="x")

    assert (Replay.because.fget(replay) == "") is valid  # type: ignore[attr-defined]


def test_three_steps_are_replayed_and_fewer_of_many_activities() -> None:
    few, many = (SimpleNamespace(gpu=range(count)) for count in (9_000, 9 * 40_000))
    lengths = np.array([96, 97, 98, 99, 100, 101, 102, 103, 104])

    assert _standing_for_all(few, lengths) == (3, 4, 5)  # type: ignore[arg-type]
    assert _standing_for_all(many, lengths) == (3, 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(("longest", "steps"), [(259, (0, 1, 2)), (265, tuple(range(6)))])
def test_all_steps_are_replayed_where_the_usual_ones_miss_the_mean_by_more_than_a_twentieth(
    longest: int, steps: tuple[int, ...]
) -> None:
    few: Any = SimpleNamespace(gpu=range(100))
    lengths = np.array([200, 200, 200, 200, 200, longest])

    assert _standing_for_all(few, lengths) == steps


@pytest.mark.parametrize(("lengths", "steps"), [([10, 10, 10, 40, 10, 10, 10, 40], (1, 3, 4, 6)), ([10, 10, 90], (1,))])
def test_of_many_activities_steps_from_the_shortest_to_the_longest_are_replayed(
    lengths: list[int], steps: tuple[int, ...]
) -> None:
    each = 25_000 if len(lengths) > 3 else 80_000
    many: Any = SimpleNamespace(gpu=range(each * len(lengths)))

    found = _standing_for_all(many, np.array(lengths))

    assert len(found) == len(steps)
    assert sorted(np.array(lengths)[list(found)]) == sorted(np.array(lengths)[list(steps)])


def recorded(ns: float = 1e6, events: float = 100.0) -> dict[str, RecordedCause]:
    return {"python": RecordedCause(ns, events)}


def test_the_profiler_makes_the_host_no_more_than_three_times_as_slow() -> None:
    assert recorded()["python"].speed(1e6) == pytest.approx(0.3)


def test_an_event_takes_ten_microseconds_at_most_and_the_rest_slows_the_host_evenly() -> None:
    """Of a host of 10 ms with 100 events: these take a tenth of it at most."""
    found = speeds_that_fit(recorded(1e7), {}, lambda speeds: speeds.of("python") <= 0.8)

    assert found.of("python") == pytest.approx(0.8, rel=0.01)
    assert found.others == pytest.approx(0.8 / 0.9, rel=0.01)


@pytest.mark.parametrize(("unprofiled", "evenly"), [(1.03, True), (1.005, False)])
def test_the_host_s_speed_is_not_read_from_two_per_cent_of_the_step(unprofiled: float, evenly: bool) -> None:
    """The device bounds the step at 1 ms, and the host's part above it is a tenth as profiled."""

    def step_ns(change: Any) -> float:
        return 1e6 * max(1.0, 1.0 + 0.1 * (change.host_speeds.of("python") - 0.5))

    replay: Any = SimpleNamespace(step_ns=step_ns, recorded=recorded(1e6, 10.0))
    speeds = host_speeds_for(replay, unprofiled * 1e6)
    least = step_ns(SimpleNamespace(host_speeds=speeds))

    assert least <= (unprofiled if evenly else 1.0204) * 1e6
    assert evenly or least > 1.0185e6


def gpu(start: list[float], end: list[float], launched: list[float], returned: list[float]) -> Any:
    """Activities of one stream, in microseconds, with their launches."""
    columns = [np.array([round(US * each) for each in values]) for values in (start, end, launched, returned)]
    names = dict(zip(("start", "end", "launch_start", "launch_end"), columns, strict=True))
    count = len(start)

    class Gpu(SimpleNamespace):
        def __len__(self) -> int:
            return count

    zero = np.zeros(count, np.int64)
    return Gpu(**names, launch=np.arange(count), stream=zero, kind=zero, kinds=(None,), row=np.arange(count))


@pytest.mark.parametrize(("late_us", "counts"), [(95, True), (105, False)])
def test_a_latency_is_a_tenth_of_a_millisecond_at_most(late_us: float, counts: bool) -> None:
    found = device._latencies(gpu([10 + late_us], [200], [0], [10]), np.zeros(1, np.int64), np.ones(1, bool))

    assert found[0] == ((10 + late_us) * US if counts else 5000)


@pytest.mark.parametrize(("gap_us", "counts"), [(19, True), (21, False)])
def test_a_gap_between_kernels_is_twenty_microseconds_at_most(gap_us: float, counts: bool) -> None:
    activities = gpu([0, 10 + gap_us], [10, 50], [0, 1], [1, 2])
    previous, free = np.array([-1, 0]), np.array([0, 10 * US])
    found = device._gaps(activities, previous, free, np.ones(2, bool))

    assert found[1] == (gap_us * US if counts else 1000)


@pytest.mark.parametrize(("count", "own"), [(5, 10.0), (4, 30.0)])
def test_five_of_a_kind_have_a_median_of_their_own(count: int, own: float) -> None:
    values = np.array([10] * count + [30] * 50)
    kind = np.array([0] * count + [1] * 50)

    assert device.medians(values, np.ones(len(values), bool), [kind, 0 * kind], 0.0)[0] == own


def queued(depth: int, blocked: int, took_us: float, usual_us: float = 5.0, launches: int = 400) -> Any:
    """Launches every 10 us, of which each starts so many launches later; the last calls take so long."""
    launched = np.arange(launches) * 10.0
    took = np.full(launches, usual_us)
    took[-blocked:] = took_us
    start = launched + 10 * depth + 1
    return gpu(start.tolist(), (start + 1).tolist(), launched.tolist(), (launched + took).tolist())


def full_queue(activities: Any, names: Any = 0) -> tuple[int, Any, Any]:
    trace = SimpleNamespace(name=np.zeros(len(activities), np.int64) + names)
    return waits._full_queue(SimpleNamespace(gpu=activities, trace=trace), activities.stream)  # type: ignore[arg-type]


@pytest.mark.parametrize(("took_us", "blocks"), [(16, True), (14, False)])
def test_a_call_meets_a_full_queue_that_takes_three_times_as_long(took_us: float, blocks: bool) -> None:
    queue, full, _ = full_queue(queued(200, 6, took_us))

    assert bool(full.any()) is blocks
    assert blocks or queue == 1021


@pytest.mark.parametrize(("depth", "blocks"), [(110, True), (90, False)])
def test_a_queue_is_deep_from_a_hundred_launches_on(depth: int, blocks: bool) -> None:
    assert bool(full_queue(queued(depth, 6, 60))[1].any()) is blocks


def test_a_queue_is_nearly_full_from_nine_tenths_of_it_on() -> None:
    queue, full, _ = full_queue(queued(200, 6, 60))

    assert int(full.argmax()) == pytest.approx(0.9 * queue, abs=2)


@pytest.mark.parametrize(
    ("took_us", "usual_us", "left_us"),
    [
        (19, 5, 19),  # below twenty microseconds it may be the call itself
        (21, 5, 5),  # above it waits, and takes what other calls do
        (130, 30, 5),  # where none is that short, five microseconds
    ],
)
def test_a_call_that_only_met_a_full_queue_takes_what_short_ones_do(
    took_us: float, usual_us: float, left_us: float
) -> None:
    activities = queued(200, 100, took_us, usual_us)
    _, full, left = full_queue(activities, np.arange(400) >= 300)

    assert full[300:].all()
    assert left[-1] == left_us * US


@pytest.mark.parametrize(("longest", "alike"), [(195, True), (205, False)])
def test_a_step_of_twice_the_median_is_what_the_others_are_not(longest: int, alike: bool) -> None:
    timeline: Any = SimpleNamespace(other_gpus=SimpleNamespace(count=0))
    found = _what_kernels_wait_for(timeline, np.array([100, 100, 100, longest]))

    assert (found == NOT_SHOWN) is alike
