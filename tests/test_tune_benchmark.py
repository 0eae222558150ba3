"""The figures of `benchmarks/tune.py`: regret, ranges, equal ends, and tunes that end slower."""

import dataclasses
from pathlib import Path

import pytest
from made_up_jobs import diagnosed
from msgspec.structs import replace
from tune_pairs import further, told_apart
from tune_report import Alone, Tuned, figures

from diagnose.commands.tune.answer import Rung, Settings, Tuning
from diagnose.commands.tune.running import EndedRun, Run
from diagnose.commands.tune.state import TuneFolder
from diagnose.diagnosis.terms import Estimate

FIRST = Rung(number=0, change="the job as it is", outcome="ok", decision="first", total=(1.0, 1.0, 1.0))


def tuning(achieved: Estimate, workers: int = 4) -> Tuning:
    """A tune that keeps workers, of which 1.5-2.0x were promised."""
    settings = {"dataloader": {"num_workers": workers}}
    kept = Rung(
        number=1, rule="data-wait", change="workers", outcome="ok", decision="kept", settings=settings,
        predicted=(1.5, 2.0), achieved=achieved, total=achieved,
    )  # fmt: skip
    return Tuning(command=("train.py",), rungs=(FIRST, kept))


def tuned(*tunings: Tuning, advice: str = "data-wait", by_hand: Estimate = (1.8, 1.9, 2.0)) -> Tuned:
    alone = (
        Alone("data-wait", "workers", (1.5, 2.0), (1.5, 1.6, 1.7)),
        Alone("half", "bf16", (1.1, 1.2), (1.9, 2.0, 2.1)),
    )
    return Tuned(
        "a job", tunings or (tuning((1.5, 1.6, 1.7)),), advice, False, alone, Alone("by hand", "", None, by_hand)
    )


@pytest.mark.parametrize(
    ("advice", "regret"), [("data-wait", 2.0 / 1.6 - 1), ("half", 0.0), ("", 1.0), ("another", 1.0)]
)
def test_the_regret_is_what_the_best_single_change_buys_beyond_the_advice(advice: str, regret: float) -> None:
    assert tuned(advice=advice).regret == pytest.approx(regret)


def test_what_no_run_can_make_is_measured_by_the_cure_by_hand() -> None:
    one = tuned(advice="storage", by_hand=(3.9, 4.0, 4.1))
    by_hand = Tuned(one.job, one.tunings, one.first_advice, True, one.alone, one.by_hand)

    assert (by_hand.of_first_advice, by_hand.regret) == (4.0, 0.0)


@pytest.mark.parametrize(("second", "same"), [(4, "yes"), (6, "other numbers")])
def test_tunes_end_alike_or_with_other_numbers(second: int, same: str) -> None:
    assert tuned(tuning((1.5, 1.6, 1.7)), tuning((1.5, 1.6, 1.7), second)).same_end == same


def test_the_figures_count_ranges_and_tunes_that_end_slower() -> None:
    told = "\n".join(
        figures([tuned(tuning((1.5, 1.6, 1.7))), tuned(tuning((0.8, 0.9, 0.95))), tuned(tuning((1.2, 1.4, 1.6)))])
    )

    assert "predicted range: 1 of 3; the 99 % interval reaches the range of 2" in told
    assert "a tune ends slower than it began: 1 of 3" in told


def test_runs_at_the_end_are_pairs_of_the_one_change_that_is_kept() -> None:
    one = tuning((1.4, 2.1, 3.15))
    again = Rung(number=2, change="run 0 again", outcome="ok", decision="again", repeats=0)
    held = Rung(number=3, change="run 1 again", outcome="ok", decision="held", repeats=1, achieved=(1.2, 1.8, 2.7))
    ((_, rung, pairs),) = tuned(replace(one, rungs=(*one.rungs, again, held))).promises

    assert rung.achieved is not None
    assert rung.achieved[1] == pytest.approx((2.1 * 1.8) ** 0.5, rel=0.01)
    assert pairs == 2


class Runs:
    """Runs of a job that is twice as fast with what is asked of it, in the folder where they are made."""

    def __init__(self) -> None:
        self.made: list[tuple[int, Settings]] = []

    def __call__(self, into: Path) -> Run:
        def run(number: int, settings: Settings, expected: object, most_s: float | None) -> EndedRun:
            self.made.append((number, settings))
            return EndedRun("ok", diagnosis=diagnosed(40.0 if settings else 80.0))

        return run


def test_a_promise_is_held_against_pairs_beyond_those_of_the_tune_which_are_made_once(tmp_path: Path) -> None:
    runs, one = Runs(), tuning((1.4, 1.9, 2.6))

    found = further(tmp_path, one, runs, 60.0, 3)
    again = further(tmp_path, one, runs, 60.0, 3)

    workers = {"dataloader": {"num_workers": 4}}
    assert runs.made == [(0, {}), (1, workers), (2, {}), (3, workers)]
    assert [each[1] for each in found[1]] == pytest.approx([2.0, 2.0])
    assert {key: tuple(map(tuple, each)) for key, each in found.items()} == again
    ((_, rung, pairs),) = dataclasses.replace(tuned(one), further=(found,)).promises
    assert rung.achieved is not None
    assert pairs == 3
    assert 1.9 < rung.achieved[1] < 2.0


@pytest.mark.parametrize(("again_ms", "apart"), [(81.0, False), (120.0, True)])
def test_equal_runs_are_counted_of_which_one_is_called_better(again_ms: float, apart: bool, tmp_path: Path) -> None:
    folder = TuneFolder(tmp_path)
    first = replace(FIRST, diagnosis=folder.keep(0, diagnosed(80.0)))
    file = folder.keep(1, diagnosed(again_ms))
    again = Rung(number=1, change="run 0 again", outcome="ok", decision="again", repeats=0, diagnosis=file)

    assert list(told_apart(tmp_path, Tuning(command=("train.py",), rungs=(first, again)))) == [apart]


def test_no_run_is_made_where_predictions_alone_are_made_anew(tmp_path: Path) -> None:
    runs = Runs()

    assert not further(tmp_path, tuning((1.4, 1.9, 2.6)), runs, 60.0, 0)
    assert not runs.made
    assert not list(tmp_path.iterdir())
