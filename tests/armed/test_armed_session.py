"""When windows of an armed run open: steps of made-up length in, folders and the step log out."""

import os
import signal
from pathlib import Path

import pytest
from armed_runs import STEP_NS, NoProfiler, NoThread, Run

from diagnose.commands.armed.answer import armed_run
from diagnose.commands.armed.arming import _last_line
from diagnose.probes.protocol import SCRATCH, TRIGGER
from diagnose.probes.recording import nsight_window
from diagnose.probes.timing import session as armed_session
from diagnose.probes.timing.agreement import Agreement
from diagnose.series import read_series
from diagnose.series.timing_log import read_timing_log

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def nothing_of_its_own_accord(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsight_window, "Recorder", NoProfiler)
    monkeypatch.setattr(armed_session, "Background", NoThread)
    monkeypatch.setattr("diagnose.probes.session.PATIENCE_S", 300)


def told(run: Run) -> list[tuple[object, ...]]:
    """What the log of the rank says happened, without times."""
    log = read_timing_log(run.folder / f"rank{run.rank}.steps")
    return [(one["what"], one.get("first"), one.get("slow")) for one in log.told]


def every_50th_slow(step: int) -> int:
    return STEP_NS * (2 if step % 50 == 0 else 1)


def test_a_stall_every_50_steps_is_recorded_when_it_recurs_and_once(tmp_path: Path) -> None:
    run = Run(tmp_path, when_slow=1.3).begin().steps(range(1, 501), every_50th_slow)
    run.end()

    assert run.windows() == ["step-198"]
    assert told(run) == [("window", 198, None), ("closed", 198, 200)]
    assert (tmp_path / "step-198" / "rank0.json.gz").exists()


def test_steps_that_stay_slower_are_recorded_at_once(tmp_path: Path) -> None:
    run = Run(tmp_path, when_slow=1.3).begin()
    run.steps(range(1, 301), lambda step: STEP_NS * (2 if step > 100 else 1)).end()

    assert run.windows() == ["step-105"]


def test_windows_by_count_open_at_their_steps(tmp_path: Path) -> None:
    run = Run(tmp_path, every=40, at_steps=(30, 100), windows=2).begin().steps(range(1, 201))
    run.end()

    assert run.windows() == ["step-30", "step-40", "step-80", "step-100"]
    log = read_timing_log(tmp_path / "rank0.steps")
    assert [one["why"] for one in log.told if one["what"] == "window"] == [
        "asked for by --at-step 30",
        "every 40 steps",
        "every 40 steps",
        "asked for by --at-step 100",
    ]


def test_a_window_that_comes_while_the_stack_is_sampled_after_another_is_told_apart_from_it(tmp_path: Path) -> None:
    run = Run(tmp_path, sample_steps=1000, every=40, windows=3).begin()
    run.steps(range(1, 201), lambda step: STEP_NS * (3 if step == 82 else 1)).end()

    closed = [
        (one["first"], one["folder"]) for one in read_timing_log(tmp_path / "rank0.steps").told if "folder" in one
    ]
    assert closed == [(40, "step-40"), (80, "step-80"), (120, "step-120")]
    assert ("closed", 80, 82) in told(run)


def test_the_last_line_says_why_nothing_is_known_of_the_step_times(tmp_path: Path) -> None:
    Run(tmp_path, when_slow=1.3).begin().steps(range(1, 8)).end()
    run = armed_run(tmp_path)

    assert run is not None
    assert _last_line(run, "RUN") == (
        "whether steps change is unknown: 7 samples are too few to tell a change from noise; 0 windows; "
        "again: diagnose analyze RUN"
    )


def test_no_storm_of_windows_comes_of_an_unruly_job(tmp_path: Path) -> None:
    run = Run(tmp_path, when_slow=1.3, windows=3).begin()
    run.steps(range(1, 3001), lambda step: STEP_NS * (3 if step % 300 < 20 else 1)).end()

    assert len(run.windows()) == 3


@pytest.mark.parametrize("numbers", [range(101, 301), range(1, 2)])
def test_a_resumed_run_goes_on_with_its_numbers_in_the_same_files(tmp_path: Path, numbers: range) -> None:
    Run(tmp_path, at_steps=(50,)).begin().steps(range(1, 121)).end()
    again = Run(tmp_path, at_steps=(50, 200)).begin(done=100).steps(range(101, 301))
    again.end()

    series = read_series(tmp_path)

    assert again.windows() == ["step-50", "step-200"]
    assert series.restarts == (101,)
    assert int(series.tracks[0].step[-1]) == 300


def test_who_asks_by_a_file_gets_a_window(tmp_path: Path) -> None:
    run = Run(tmp_path).begin().steps(range(1, 31))
    (tmp_path / SCRATCH / TRIGGER).touch()
    run.look()
    run.steps(range(31, 101)).end()

    assert run.windows() == ["step-33"]
    assert not (tmp_path / SCRATCH / TRIGGER).exists()


def test_a_signal_of_which_the_job_left_the_handling_asks_for_a_window(tmp_path: Path) -> None:
    run = Run(tmp_path, signal="SIGUSR2").begin().steps(range(1, 31))
    os.kill(os.getpid(), signal.SIGUSR2)
    run.look()
    run.steps(range(31, 101)).end()

    assert run.windows() == ["step-33"]
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


def test_a_signal_of_the_job_stays_the_jobs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    came = []
    with pytest.MonkeyPatch.context() as patch:
        before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
        patch.setattr(signal, "signal", signal.signal)
        own = signal.getsignal(signal.SIGUSR1)
        run = Run(tmp_path, signal="SIGUSR1").begin().steps(range(1, 31))
        os.kill(os.getpid(), signal.SIGUSR1)
        run.look()
        run.steps(range(31, 61)).end()
        kept = signal.getsignal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, before)

    assert (kept, came, run.windows()) == (own, [signal.SIGUSR1], [])
    assert "no signal asks for windows: SIGUSR1 is the job's own" in capfd.readouterr().err


def test_a_long_step_is_looked_at_once_while_it_runs(tmp_path: Path) -> None:
    run = Run(tmp_path).begin().steps(range(1, 51))
    run.clock.now += 3 * 10**9
    run.look()
    run.look()
    run.steps(range(51, 61)).end()

    (seen,) = (one for one in read_timing_log(tmp_path / "rank0.steps").told if one["what"] == "long")
    assert (seen["step"], seen["after_ms"]) == (51, 3000)
    assert "test_a_long_step_is_looked_at_once_while_it_runs" in str(seen["at"])


def test_two_ranks_open_together_at_the_announced_step(tmp_path: Path) -> None:
    ranks = [Run(tmp_path, rank, 2, when_slow=1.3).begin() for rank in (0, 1)]
    for first in range(1, 501, 10):
        for rank in ranks:
            rank.steps(range(first, first + 10), every_50th_slow)
            rank.look()
    for rank in ranks:
        rank.end()

    assert [told(rank)[-1] for rank in ranks] == [("closed", 198, 200)] * 2
    assert {path.name for path in (tmp_path / "step-198").glob("rank*.json.gz")} == {"rank0.json.gz", "rank1.json.gz"}


def test_what_only_another_rank_sees_opens_a_window_on_all(tmp_path: Path) -> None:
    ranks = [Run(tmp_path, rank, 2, when_slow=1.3).begin() for rank in (0, 1)]
    for first in range(1, 601, 10):
        for rank in ranks:
            rank.steps(range(first, first + 10), every_50th_slow if rank.rank else lambda step: STEP_NS)
            rank.look()
    for rank in ranks:
        rank.end()

    assert ranks[0].windows() != []
    assert told(ranks[0])[0][:2] == told(ranks[1])[0][:2]
    assert told(ranks[1])[1][2] is not None
    assert read_timing_log(tmp_path / "rank0.steps").told[0]["why"].endswith("on rank 1")


def test_an_announcement_that_comes_too_late_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    late = Run(tmp_path, 1, 2, when_slow=1.3).begin().steps(range(1, 101))
    Agreement(tmp_path / SCRATCH, 0).announce(90, "slow")
    late.look()
    late.steps(range(101, 111)).end()

    assert told(late) == [("missed", 90, None)]
    assert "announced too late for this rank, which is at step 101" in capfd.readouterr().err


def test_a_window_that_cannot_be_announced_opens_on_no_rank(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space")

    lead = Run(tmp_path, world=2).begin().steps(range(1, 11))
    assert lead.session._arming is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lead.session._arming._log, "write", full)
        patch.setattr(Agreement, "_tell", full)
        for step in (11, 12):
            (tmp_path / SCRATCH / TRIGGER).touch()
            with pytest.raises(OSError, match="no space"):
                lead.look()  # it hears of what is asked for all the same
            lead.steps(range(step, step + 1))
        with pytest.raises(OSError, match="no space"):
            lead.look()
    lead.steps(range(13, 213))

    assert lead.windows() == []
    assert capfd.readouterr().err.count("which cannot be announced to other ranks: OSError: no space") == 2


def test_two_processes_of_one_rank_do_not_write_one_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = Run(tmp_path).begin().steps(range(1, 11))
    child = os.fork()
    if not child:  # a process of its own: locks are not inherited
        second = Run(tmp_path).begin()
        os._exit(7 if second.session.phase == "done" else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    first.end()

    assert code == 7
    assert "another process of this run writes the step times" in capfd.readouterr().err


def test_a_window_that_cannot_be_written_ends_no_step_times(tmp_path: Path) -> None:
    run = Run(tmp_path, at_steps=(20,))
    (tmp_path / "step-20").write_text("in the way")
    run.begin().steps(range(1, 61)).end()

    assert int(read_series(tmp_path).tracks[0].step[-1]) == 60
    assert read_timing_log(tmp_path / "rank0.steps").told[-1]["what"] == "closed"


def short(step: int) -> int:
    """Forty of these are judged together."""
    return (21 if step == 97 else 6) * 1_000_000 + step * 1000


def test_short_steps_are_judged_together_and_each_keeps_its_time(tmp_path: Path) -> None:
    run = Run(tmp_path).begin().steps(range(1, 201), short)
    noted = len(run.session._arming.noted_ns)  # type: ignore[union-attr]
    run.end()

    (track,) = read_series(tmp_path).tracks

    assert noted > 10
    assert track.step.tolist() == list(range(1, 201))
    assert (track.seconds * 1e9).round().tolist() == [short(step) for step in range(1, 201)]


def test_among_short_steps_windows_open_at_their_steps_and_where_they_become_slow(tmp_path: Path) -> None:
    run = Run(tmp_path, when_slow=1.3, at_steps=(103,)).begin()
    run.steps(range(1, 501), lambda step: 5_000_000 * (2 if step > 400 else 1)).end()

    assert run.windows() == ["step-103", "step-405"]


def test_a_profiler_of_the_job_is_heard_of_between_short_steps(tmp_path: Path) -> None:
    run = Run(tmp_path).begin().steps(range(1, 51), short)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        run.steps(range(51, 61), short)
    run.steps(range(61, 101), short).end()

    (track,) = read_series(tmp_path).tracks

    assert sorted(set(range(1, 101)) - set(track.step.tolist())) == list(range(51, 62))
