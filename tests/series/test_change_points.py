"""From a list of step times to the changes that are named."""

import numpy as np
import pytest

from diagnose.commands.series.judge import judged
from diagnose.series import Series, Track, changes

pytestmark = pytest.mark.long

SEEDS = 200


def series(*tracks: Track, restarts: tuple[int, ...] = ()) -> Series:
    return Series("csv", ("steps.csv",), "step_time_s: seconds", tracks, restarts)


def track(seconds: np.ndarray, rank: int | None = 0, host: str = "", **parts: np.ndarray) -> Track:
    return Track(rank, host, np.arange(1, len(seconds) + 1), seconds, parts=parts)


def steps(n: int, seed: int = 0, deviation: float = 0.04, typical: float = 0.3) -> np.ndarray:
    return typical * np.exp(deviation * np.random.default_rng(seed).standard_normal(n))


def autoregressive(seed: int, n: int, correlation: float) -> np.ndarray:
    seeded, values = np.random.default_rng(seed), np.zeros(n)
    for i in range(1, n):
        values[i] = correlation * values[i - 1] + 0.08 * np.sqrt(1 - correlation**2) * seeded.standard_normal()
    return 0.3 * np.exp(values)


def test_a_slower_level_is_named_with_its_step_size_and_window_to_profile() -> None:
    seconds = steps(1000)
    seconds[700:] *= 1.14

    report = judged(series(track(seconds)))

    (change,) = report.changes
    assert abs(change.since_step - 701) <= 3
    assert change.since_between[0] <= 701 <= change.since_between[1]
    assert change.change_share == pytest.approx(0.14, abs=0.01)
    assert change.lost_s == pytest.approx(300 * 0.042, rel=0.1)
    assert (change.kind, change.scope, change.confidence) == ("level", "unknown", "high")
    assert change.says.startswith("since step 701: 13 % slower")
    assert 701 < report.look[0].first_step <= 750
    assert f"--at-step {report.look[0].first_step} " in report.look[0].command
    assert report.look[1].last_step < 701


def test_a_slow_stretch_is_two_changes() -> None:
    seconds = steps(1000)
    seconds[400:600] *= 1.2

    slower, faster = changes(series(track(seconds)))

    assert abs(slower.since_step - 401) <= 3
    assert slower.change_share > 0
    assert abs(faster.since_step - 601) <= 3
    assert faster.change_share < 0


@pytest.mark.parametrize(
    ("noise", "most"),
    [
        (lambda seed: steps(150, seed, 0.15), 0.02),
        (lambda seed: 0.3 * np.exp(0.05 * np.random.default_rng(seed).standard_t(2, 150)), 0.02),
        (lambda seed: autoregressive(seed, 150, 0.8), 0.03),
    ],
    ids=["log-normal", "heavy tails", "autocorrelated"],
)
def test_stationary_noise_is_rarely_called_a_change(noise, most: float) -> None:  # type: ignore[no-untyped-def]
    alarms = sum(bool(changes(series(track(noise(seed))))) for seed in range(SEEDS))

    assert alarms <= most * SEEDS


def test_a_shift_of_a_tenth_in_five_percent_noise_is_found() -> None:
    found = 0
    for seed in range(40):
        seconds = steps(300, seed, 0.05)
        seconds[180:] *= 1.1
        found += any(abs(c.since_step - 181) <= 10 for c in changes(series(track(seconds))))

    assert found >= 38


def test_checkpoints_are_periodic_and_no_change() -> None:
    seconds = steps(1200)
    seconds[99::100] += 2.0

    report = judged(series(track(seconds)))

    assert report.changes == ()
    (beat,) = report.periodic
    assert (beat.every_steps, beat.count, beat.first_step) == (100, 12, 100)
    assert beat.extra_s == pytest.approx(2.0, rel=0.05)
    assert beat.time_share == pytest.approx(24 / (1200 * 0.3 + 24), rel=0.05)


def busy_machine(seed: int) -> np.ndarray:
    """Steps of 12 ms, of which one in six takes a fifth to many times longer, for no cause of the job."""
    seeded, seconds = np.random.default_rng(seed), steps(220, seed, typical=0.012)
    late = seeded.random(220) < 1 / 6
    return np.where(late, seconds * (1.2 + 0.5 * seeded.pareto(1.5, 220)), seconds)


def test_a_period_shows_through_the_noise_of_a_busy_machine_and_noise_keeps_none() -> None:
    stalled, quiet = [], []
    for seed in range(40):
        seconds = busy_machine(seed)
        quiet += judged(series(track(seconds.copy()))).periodic
        seconds[24::25] += 0.4
        stalled += [beat.every_steps for beat in judged(series(track(seconds))).periodic]

    assert stalled == [25] * 40
    assert quiet == []


def test_a_period_is_found_though_one_of_its_steps_was_recorded_and_not_timed() -> None:
    """As in an armed run, whose window holds the slow step that it waited for."""
    timed, found = np.r_[0:120, 126:220], []
    for seed in range(40):
        seconds = busy_machine(seed)
        seconds[24::25] += 0.4
        found += [beat.every_steps for beat in judged(series(track(seconds).part(timed))).periodic]

    assert found == [25] * 40


def test_a_step_far_from_all_others_hides_no_period_and_takes_no_memory() -> None:
    seconds = steps(401)
    seconds[9::10] *= 5
    numbers = np.arange(1, 402)
    numbers[-1] = 10**12

    (beat,) = judged(series(Track(0, "", numbers, seconds))).periodic

    assert (beat.every_steps, beat.count) == (10, 40)


def test_single_slow_steps_at_random_are_neither() -> None:
    seconds = steps(1200)
    seconds[np.random.default_rng(5).choice(1200, 30, replace=False)] *= 5

    report = judged(series(track(seconds)))

    assert (report.changes, report.periodic) == ((), ())


def test_a_creeping_slowdown_is_a_drift() -> None:
    (change,) = changes(series(track(steps(1000) * np.linspace(1, 1.3, 1000))))

    assert change.kind == "drift"
    assert change.change_share == pytest.approx(0.3, abs=0.03)
    assert (change.since_step, change.until_step) == (1, 1000)


@pytest.mark.parametrize("samples", [40, 161, 500, 2000])
@pytest.mark.parametrize("times", [1.5, 2, 4, 7])
def test_steps_that_grow_from_the_first_to_the_last_are_one_drift(samples: int, times: float) -> None:
    (change,) = changes(series(track(steps(samples) * np.linspace(1, times, samples))))

    assert change.kind == "drift"
    assert change.change_share == pytest.approx(times - 1, rel=0.2)


def test_a_staircase_is_no_drift() -> None:
    seconds = steps(900)
    seconds[300:] *= 1.1
    seconds[600:] *= 1.1

    assert [c.kind for c in changes(series(track(seconds)))] == ["level", "level"]


def test_the_warm_up_is_left_out() -> None:
    seconds = steps(200)
    seconds[:6] *= (40, 3, 2, 1.8, 1.6, 1.4)

    report = judged(series(track(seconds)))

    assert report.changes == ()
    assert any("first 6 samples" in note for note in report.notes)


def test_ranks_of_one_host_that_slow_down_name_the_host() -> None:
    ranks = [
        track(steps(400, r) * np.where((r // 4 == 2) & (np.arange(400) >= 250), 1.14, 1), r, f"node{r // 4}")
        for r in range(16)
    ]

    (change,) = changes(series(*ranks))

    assert (change.scope, change.hosts, change.ranks) == ("hosts", ("node2",), (8, 9, 10, 11))
    assert abs(change.since_step - 251) <= 4
    assert "14 % slower on node2" in change.says


def test_one_slow_rank_of_a_job_without_hosts_is_named() -> None:
    ranks = [track(steps(400, r) * np.where((r == 5) & (np.arange(400) >= 250), 1.2, 1), r) for r in range(8)]

    (change,) = changes(series(*ranks))

    assert (change.scope, change.ranks) == ("ranks", (5,))


def test_ranks_that_slow_down_together_accuse_nobody() -> None:
    together = steps(400) * np.where(np.arange(400) >= 250, 1.2, 1)
    ranks = [
        track(together * np.exp(0.002 * np.random.default_rng(r).standard_normal(400)), r, f"n{r}") for r in range(8)
    ]

    report = judged(series(*ranks))

    (change,) = report.changes
    assert (change.scope, change.culprit_ranks, change.named_by) == ("job", (), "")
    assert any("cannot tell which rank" in note for note in report.notes)


@pytest.mark.parametrize("logged", ["compute", "wait"])
def test_logged_compute_or_wait_times_name_the_rank_that_all_wait_for(logged: str) -> None:
    late = np.where(np.arange(400) >= 250, 0.06, 0)
    ranks = []
    for rank in range(8):
        own = late if (rank == 3) == (logged == "compute") else 0 * late
        ranks.append(
            track(steps(400) + late, rank, f"n{rank // 4}", **{logged: steps(400, 90 + rank, 0.02, 0.2) + own})
        )

    (change,) = changes(series(*ranks))

    assert (change.scope, change.culprit_ranks, change.culprit_hosts, change.named_by) == ("job", (3,), ("n0",), logged)
    assert "wait for rank 3 (n0)" in change.says


def test_a_change_at_a_restart_says_so() -> None:
    seconds = steps(600) * np.where(np.arange(600) >= 300, 1.2, 1)

    (change,) = changes(series(track(seconds), restarts=(301,)))

    assert change.at_restart


def test_constant_times_and_too_few_times() -> None:
    assert changes(series(track(np.full(500, 0.3)))) == ()
    few = judged(series(track(np.full(12, 0.3))))
    assert few.changes == ()
    assert few.not_told is not None
    assert "12 samples are too few" in few.not_told.because
