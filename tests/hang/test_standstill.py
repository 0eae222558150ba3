"""When a job stands still: told from the steps that ranks say they have behind them, on a clock that the test moves."""

import json
from pathlib import Path

import pytest

from diagnose.capture.standstill import RankPulse, Watch, pulses

USUAL_S = 0.5


def ranks(*steps: int | None, usual_s: float = USUAL_S) -> list[RankPulse]:
    return [RankPulse(rank, 100 + rank, step, usual_s) for rank, step in enumerate(steps)]


def found_at(watch: Watch, seen: list[RankPulse], seconds: range, dumps: int = 0) -> list[int]:
    """The seconds at which the watch finds another standstill."""
    found, before = [], watch.stands
    for second in seconds:
        watch.look(float(second), seen, dumps)
        if watch.stands is not None and watch.stands is not before:
            found.append(second)
        before = watch.stands
    return found


def test_a_job_whose_ranks_end_no_step_is_found_once() -> None:
    watch = Watch(60)
    watch.look(0.0, ranks(7, 7), 0)

    assert found_at(watch, ranks(7, 7), range(1, 1000)) == [60]
    assert watch.stands is not None
    assert (watch.stands.step, watch.stands.for_s) == (7, 60.0)


def test_a_job_that_moves_on_one_rank_does_not_stand_still() -> None:
    watch = Watch(60)
    for second in range(600):
        watch.look(float(second), ranks(7, 7 + second // 50), 0)

        assert watch.stands is None


@pytest.mark.parametrize(("usual_s", "at"), [(0.0, 300), (2.0, 60), (30.0, 300)])
def test_steps_that_take_long_are_given_ten_times_as_long(usual_s: float, at: int) -> None:
    watch = Watch(60)
    watch.look(0.0, ranks(7, usual_s=usual_s), 0)

    assert found_at(watch, ranks(7, usual_s=usual_s), range(1, 400)) == [at]


def test_after_a_standstill_that_ended_by_itself_the_next_has_to_be_twice_as_long() -> None:
    """An evaluation of 100 seconds between steps is looked at once, and not each time."""
    watch, found = Watch(60), list[int]()
    for step in range(8):
        found += found_at(watch, ranks(step), range(100 * step, 100 * step + 100))

    assert found == [60]
    assert found_at(watch, ranks(8), range(800, 1100)) == [1000]


def test_before_the_first_step_only_a_call_that_timed_out_tells() -> None:
    watch = Watch(60)

    assert found_at(watch, ranks(None, None), range(1000)) == []
    assert found_at(watch, ranks(None, None), range(1000, 1100), dumps=1) == [1000]
    assert watch.stands is not None
    assert watch.stands.timed_out


def test_dumps_of_the_other_ranks_are_of_the_same_standstill() -> None:
    watch = Watch(60)
    watch.look(0.0, ranks(7, 7), 0)

    assert found_at(watch, ranks(7, 7), range(1, 100)) == [60]
    assert found_at(watch, ranks(7, 7), range(100, 200), dumps=2) == []


def test_a_rank_that_has_left_its_loop_is_no_step_of_the_others() -> None:
    watch = Watch(60)
    watch.look(0.0, ranks(7, 7), 0)
    watch.look(30.0, ranks(7, None), 0)

    assert found_at(watch, ranks(7, None), range(31, 100)) == [60]


ABOVE = 50
OF_RANK_0 = {"pid": 70, "started": 9, "host": "node-a", "step": 3, "usual_us": 500_000}


def stat(folder: Path, pid: int, parent: int, started: int) -> None:
    (folder / str(pid)).mkdir(parents=True)
    fields = ["S", str(parent), *["0"] * 17, str(started), "0"]
    (folder / str(pid) / "stat").write_text(f"{pid} (a (b) c) {' '.join(fields)}\n")


@pytest.mark.parametrize(
    ("change", "lives"),
    [
        ({}, True),
        ({"host": "node-b"}, False),
        ({"started": 8}, False),  # another process has the number by now
        ({"pid": 71}, False),  # that of another job
        ({"pid": 72}, False),  # ended
        ({"pid": "70"}, False),
        ({"pid": -1}, False),
    ],
)
def test_only_processes_of_this_command_that_live_are_looked_at(
    tmp_path: Path, change: dict[str, object], lives: bool
) -> None:
    proc = tmp_path / "proc"
    for pid, parent in ((ABOVE, 1), (60, ABOVE), (70, 60), (71, 1)):
        stat(proc, pid, parent, 9)
    (tmp_path / "rank0.pulse").write_text(json.dumps(OF_RANK_0 | change))

    found = pulses(tmp_path, "node-a", ABOVE, proc)

    assert found == ([RankPulse(0, 70, 3, 0.5)] if lives else [])
