"""Where the window lies, and what a session leaves behind; no training, a clock that the test moves."""

import gc
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnose.probes.bundle.rank_files import RankFiles
from diagnose.probes.config import Config, from_environment
from diagnose.probes.protocol import SAMPLE_STEPS_TOGETHER
from diagnose.probes.recording.range_times import times
from diagnose.probes.session import Session
from diagnose.probes.window import PHASES, UNLIMITED, Plan, Window, planned, settled

torch = pytest.importorskip("torch")


class Clock:
    """Nanoseconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def phases(window: Window, steps: int, ns: int = 100) -> list[str]:
    """The phase each of `steps` equal steps belongs to."""
    ran = []
    for _ in range(steps):
        ran.append(window.phase)
        window.step_ended(ns)
    return ran


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([100, 101, 99], True),
        ([100, 101], False),
        ([100, 150, 99], False),
        ([100, 97, 90], False),  # still falling
        ([900, 500, 400, 100, 100, 101], True),
    ],
)
def test_steady_state_is_three_steps_near_their_median_and_not_falling(times: list[int], expected: bool) -> None:
    assert settled(times) is expected


def test_a_settled_loop_goes_through_every_phase_in_order() -> None:
    ran = phases(Window(planned(Config("out"))), 20)

    counts = [ran.count(phase) for phase in PHASES]
    assert counts == [4, 3, 2, 4, 1, 3, 3, 0]
    assert ran == sorted(ran, key=PHASES.index)


def test_step_times_that_never_settle_open_the_window_after_skip() -> None:
    window = Window(planned(Config("out", skip=7)))
    for number in range(7):
        assert window.phase == "waiting"
        window.step_ended(10 ** (number % 3))

    assert window.phase == "control"


def test_ranks_count_instead_of_judging_times() -> None:
    assert phases(Window(planned(Config("out", skip=6), world_size=2)), 20).count("waiting") == 6


@pytest.mark.parametrize("at_step", [2, 3, 4, 6, 30])
def test_at_step_is_the_first_recorded_step(at_step: int) -> None:
    ran = phases(Window(planned(Config("out", at_step=at_step))), 50)

    assert ran.index("active") + 1 == at_step


@pytest.mark.parametrize("total", range(2, 30))
def test_a_short_loop_still_records(total: int) -> None:
    ran = phases(Window(planned(Config("out"), total=total)), total)

    assert "active" in ran
    if total >= 6:
        assert ran.count("active") == 4
    assert len(ran) == total


def test_a_loop_of_one_step_records_it() -> None:
    assert planned(Config("out"), total=1) == Plan(0, 0, 0, 1, 0, 0, True, True, UNLIMITED)


def test_stacks_are_sampled_last_until_there_are_enough_or_their_steps_are_over() -> None:
    enough, bounded = (
        Window(planned(Config("out", at_step=2))),
        Window(planned(Config("out", at_step=2, sample_steps=3))),
    )
    for window in (enough, bounded):
        while window.phase != "sampling":
            window.step_ended(100)

    assert phases(bounded, 5) == ["sampling"] * 3 + ["done"] * 2
    assert phases(enough, 50) == ["sampling"] * 50
    enough.sampled = True
    assert phases(enough, 2) == ["sampling", "done"]


def test_ranks_that_end_the_job_sample_equally_many_steps() -> None:
    window = Window(planned(Config("out", at_step=2, stop=True), world_size=2))
    window.sampled = True

    assert phases(window, 60).count("sampling") == SAMPLE_STEPS_TOGETHER


def test_without_sampling_the_window_is_done_after_the_control_steps() -> None:
    assert "sampling" not in phases(Window(planned(Config("out", sample_steps=0))), 40)


def test_the_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_DIAGNOSE", '{"out": "here", "steps": 5, "at_step": null, "later": 1}')

    assert from_environment() == Config("here", steps=5)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Session, Clock]]:
    monkeypatch.setattr("diagnose.probes.session.PATIENCE_S", 300)
    clock = Clock()
    made = Session(Config(str(tmp_path / "out"), skip=2, warmup=1, steps=2, control=2, sample_steps=0), clock)
    yield made, clock
    made.loop_ended()


def drive(session: Session, clock: Clock, steps: int, ns: int = 1000) -> None:
    for _ in range(steps):
        torch.ones(4) @ torch.ones(4)
        clock.now += ns * (3 if session.phase == "active" else 1)
        session.step_ended()


def test_the_bundle_holds_trace_facts_and_marker(session: tuple[Session, Clock], tmp_path: Path) -> None:
    session[0].loop_begins("code")
    drive(*session, 12)

    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["capture-rank0.json", "rank0.done", "rank0.json.gz"]
    marker = json.loads((out / "rank0.done").read_text())
    assert marker == {
        "rank": 0,
        "world_size": 1,
        "trace": "rank0.json.gz",
        "capture": "capture-rank0.json",
        "error": None,
    }
    events = json.loads(gzip.decompress((out / "rank0.json.gz").read_bytes()))["traceEvents"]
    assert sum(event["name"].startswith("ProfilerStep#") for event in events) == 2
    facts = json.loads((out / "capture-rank0.json").read_text())
    assert facts["overhead_factor"] == 3
    assert facts["steps"]["control_before_ns"] == facts["steps"]["control_after_ns"] == [1000, 1000]
    assert facts["steps"]["unprofiled_host_ns"] == [1000] * 4
    assert facts["steps"]["first_active_step"] == 6


def test_a_second_loop_goes_beside_the_first(session: tuple[Session, Clock], tmp_path: Path) -> None:
    for _ in range(2):
        session[0].loop_begins("code")
        drive(*session, 12)

    assert (tmp_path / "out" / "rank0.json.gz").exists()
    assert (tmp_path / "out-2" / "rank0.json.gz").exists()


def test_two_processes_of_one_rank_never_share_a_folder(tmp_path: Path) -> None:
    first, second = (RankFiles(str(tmp_path / "out"), 0, 1) for _ in range(2))

    assert first.folder != second.folder
    assert RankFiles(str(tmp_path / "out"), 1, 2).folder == first.folder


def test_a_loop_that_ends_in_the_window_leaves_what_was_recorded(
    session: tuple[Session, Clock], tmp_path: Path
) -> None:
    session[0].loop_begins("code")
    drive(*session, 6)
    assert session[0].phase == "active"
    session[0].loop_ended()

    assert json.loads((tmp_path / "out" / "rank0.done").read_text())["trace"] == "rank0.json.gz"


def test_a_loop_that_ends_before_the_window_says_so(
    session: tuple[Session, Clock], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    session[0].loop_begins("code")
    drive(*session, 3)
    session[0].loop_ended()

    marker = json.loads((tmp_path / "out" / "rank0.done").read_text())
    assert marker["trace"] is None
    assert "3 steps" in marker["error"]
    assert capfd.readouterr().err.count("\n") == 1


def test_stop_is_asked_for_once_the_window_is_written(tmp_path: Path) -> None:
    clock = Clock()
    session = Session(Config(str(tmp_path), skip=1, control=0, stop=True, sample_steps=0), clock)
    session.loop_begins("code")
    drive(session, clock, 6)
    assert not session.stop_asked
    drive(session, clock, 1)

    assert session.stop_asked


def test_a_loop_that_breaks_leaves_nothing_that_watches_the_job(session: tuple[Session, Clock]) -> None:
    before = list(gc.callbacks)
    session[0].loop_begins("code")
    drive(*session, 3)
    watched = list(gc.callbacks)
    session[0].loop_ended("it broke", broke=True)

    assert len(watched) == len(before) + 1
    assert (gc.callbacks, times.on) == (before, False)
