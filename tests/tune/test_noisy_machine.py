"""What a tune makes of runs that noise lies over: pairs of runs with and without a change decide together."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from made_up_jobs import MadeUpRuns, climbed, diagnosed, planned
from msgspec.structs import replace

from diagnose.commands.tune.answer import Settings
from diagnose.commands.tune.evidence import is_unclear, pooled
from diagnose.commands.tune.state import TuneFolder
from diagnose.commands.tune.views import outcome, result
from diagnose.diagnosis import Diagnosis

BF16 = planned("half", (1.3, 2.0), bf16=True)
NOISY = 1.0  # each other step takes twice as long


class Machine:
    """bf16 makes the steps `gain` times as fast; runs of which `busy` holds the number have noisy steps."""

    def __init__(self, gain: float, *busy: int) -> None:
        self.gain, self.busy = gain, busy
        self.runs = MadeUpRuns(self.job)

    def job(self, settings: Settings) -> Diagnosis:
        spread = NOISY if len(self.runs.asked) - 1 in self.busy else 0.001
        step_ms = 100.0 / (self.gain if settings else 1.0) / (1 + spread / 2)
        return diagnosed(step_ms, [] if settings else [BF16], settings, spread=spread)


def test_a_gain_that_noise_hides_is_measured_once_more(tmp_path: Path) -> None:
    machine = Machine(1.4, 1)
    tuning = climbed(tmp_path, machine.runs)

    assert [(rung.decision, rung.repeats) for rung in tuning.rungs[1:]] == [
        ("unclear", None),
        ("again", 0),
        ("kept", 1),
    ]
    assert machine.runs.asked[2:] == [{}, {"training_arguments": {"bf16": True}}]
    assert tuning.rungs[3].achieved is not None
    assert tuning.rungs[3].achieved[0] > 1
    assert tuning.patch == ("TrainingArguments(..., bf16=True)",)
    assert climbed(tmp_path, MadeUpRuns(machine.job)) == tuning  # once


def test_two_noisy_runs_are_followed_by_a_third_pair(tmp_path: Path) -> None:
    tuning = climbed(tmp_path, Machine(1.2, 1, 3).runs)

    assert [rung.decision for rung in tuning.rungs[1:]] == ["unclear", "again", "unclear", "again", "kept"]
    assert [rung.repeats for rung in tuning.rungs[1:]] == [None, 0, 1, 0, 1]


def test_a_gain_that_was_measured_is_worth_five_pairs(tmp_path: Path) -> None:
    tuning = climbed(tmp_path, Machine(1.2, 1, 3, 5, 7).runs, runs=20)

    assert [rung.decision for rung in tuning.rungs if rung.rule] == ["unclear"] * 4 + ["kept"]


def test_a_change_that_buys_nothing_is_not_measured_again_on_a_quiet_machine(tmp_path: Path) -> None:
    tuning = climbed(tmp_path, Machine(1.0).runs)

    assert [rung.decision for rung in tuning.rungs] == ["first", "rolled back"]


def test_a_gain_within_the_noise_is_not_shown_and_the_tune_says_what_would_show_it(tmp_path: Path) -> None:
    tuning = climbed(tmp_path, Machine(1.4, 1).runs, runs=3)  # no room for a second pair
    rung = tuning.rungs[1]

    assert (rung.decision, outcome(rung)) == ("rolled back", "not shown")
    assert re.fullmatch(
        r"1\.\d+x is within the noise: these runs can show (\d+\.\d) % and more; --control \d+ could show (\d+\.\d) %",
        rung.because,
    )
    seen, could_be = map(float, re.findall(r"show (\S+) %", rung.because))
    assert could_be < 0.8 * seen
    assert result(tuning).startswith("no gain is shown, and the noise of these runs may hide one of bf16=True (2 runs)")


def test_a_change_without_gain_on_a_quiet_machine_is_called_that(tmp_path: Path) -> None:
    tuning = climbed(tmp_path, Machine(1.0).runs)

    assert outcome(tuning.rungs[1]) == "no gain"
    assert result(tuning).startswith("nothing helped: ")


def test_a_promise_that_noise_hides_and_a_second_pair_does_not_show_is_rolled_back(tmp_path: Path) -> None:
    tuning = climbed(tmp_path, Machine(1.0, 1).runs)

    assert [rung.decision for rung in tuning.rungs] == ["first", "unclear", "again", "rolled back"]
    assert (tuning.patch, len(tuning.rungs)) == ((), 4)


def test_what_was_unclear_when_the_tune_stopped_is_settled_first(tmp_path: Path) -> None:
    machine = Machine(1.4, 1)
    stopped = climbed(tmp_path, machine.runs, runs=20)
    later = Machine(1.4)
    half = tmp_path / "half"
    half.mkdir()
    for name in ("run-0.json", "run-1.json"):
        (half / name).write_bytes((tmp_path / name).read_bytes())
    TuneFolder(half).write(replace(stopped, rungs=stopped.rungs[:2], patch=(), left=(), why_ended=""))
    assert [rung.decision for rung in climbed(half, later.runs).rungs] == ["first", "unclear", "again", "kept"]


def test_one_noisy_run_at_the_end_does_not_undo_a_large_gain(tmp_path: Path) -> None:
    tuning = climbed(tmp_path, Machine(12.0, 3).runs, repeats=True)

    assert [rung.decision for rung in tuning.rungs] == ["first", "kept", "again", "held"]
    assert tuning.rungs[3].total is not None
    assert tuning.rungs[3].total[1] == pytest.approx(12.0, rel=0.05)


def test_there_is_no_second_pair_without_room_for_it(tmp_path: Path) -> None:
    assert [rung.decision for rung in climbed(tmp_path, Machine(1.4, 1).runs, runs=3).rungs] == ["first", "rolled back"]


def small(steps_ms: Sequence[float], settings: Settings, runs: MadeUpRuns) -> Diagnosis:
    """A run of a job for which 1.00-1.04x is planned, and of which each run has steps of its own length."""
    return diagnosed(steps_ms[len(runs.asked) - 1], [planned("half", (1.0, 1.04), bf16=True)], settings)


@pytest.mark.parametrize(
    ("steps_ms", "decisions", "because"),
    [
        ((100.0, 106.0), ["first", "again"], "even its best case saves 3.8 %, and equal runs here lie 6.0 % apart"),
        ((100.0, 100.1, 97.0), ["first", "again", "kept"], ""),
    ],
)
def test_a_small_gain_is_tried_where_equal_runs_lie_closer(
    steps_ms: tuple[float, ...], decisions: list[str], because: str, tmp_path: Path
) -> None:
    runs = MadeUpRuns(lambda settings: small(steps_ms, settings, runs))
    tuning = climbed(tmp_path, runs)

    assert [rung.decision for rung in tuning.rungs] == decisions
    assert [left.because for left in tuning.left] == ([because] if because else [])


def test_what_was_tried_is_not_left_for_noise_that_later_runs_show(tmp_path: Path) -> None:
    """The last two runs were to show 1.2x again, and lie as far from the first two as that."""
    wide = planned("half", (1.0, 1.2), bf16=True)
    steps_ms = (100.0, 80.0, 60.0, 100.0, 60.0, 100.0, 60.0, 100.0, 60.0, 100.0, 60.0, 100.0)
    runs = MadeUpRuns(lambda settings: diagnosed(steps_ms[len(runs.asked) - 1], [wide], settings))
    tuning = climbed(tmp_path, runs, repeats=True)

    assert tuning.rungs[-1].decision == "not held"
    assert tuning.left == ()


def test_where_the_noise_is_stated_no_run_is_made_for_it(tmp_path: Path) -> None:
    runs = MadeUpRuns(lambda settings: small((100.0, 97.0), settings, runs))

    assert [rung.decision for rung in climbed(tmp_path, runs, noise_share=0.01).rungs] == ["first", "kept"]


def test_pairs_weigh_by_their_noise_and_widen_where_they_contradict_each_other() -> None:
    sure, vague = (1.9, 2.0, 2.1), (0.5, 1.5, 4.5)

    assert pooled([sure]) == sure
    assert pooled([sure, vague])[1] == pytest.approx(2.0, rel=0.01)
    low, mid, high = pooled([sure, (0.95, 1.0, 1.05)])
    assert mid == pytest.approx(2**0.5, rel=0.01)
    assert (low < 1, high > 2) == (True, True)


@pytest.mark.parametrize(
    ("speedup", "predicted", "unclear"),
    [
        ((0.9, 1.2, 1.6), None, True),
        ((0.9, 0.95, 1.4), (1.3, 2.0), True),
        ((0.96, 1.01, 1.06), (1.02, 1.1), False),
        ((0.96, 1.01, 1.06), (1.3, 2.0), False),
        ((0.6, 0.8, 0.95), (1.3, 2.0), False),
    ],
)
def test_noise_hides_a_gain_that_was_measured_or_promised(
    speedup: tuple[float, float, float], predicted: tuple[float, float] | None, unclear: bool
) -> None:
    assert is_unclear(speedup, predicted) == unclear
