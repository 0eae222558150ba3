"""A large trace is compressed while the job trains; the steps that are timed afterwards wait for its end."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from diagnose.probes import session as of_session
from diagnose.probes.config import Config
from diagnose.probes.session import Session
from diagnose.probes.threaded import InTurn
from diagnose.probes.window import Window, planned

torch = pytest.importorskip("torch")
NONE_FAILED = pytest.fail


def test_what_takes_longer_than_the_patience_goes_on_beside() -> None:
    told, release = [], threading.Event()
    turns = InTurn()

    turns.run(lambda: release.wait(60), told.append, patience_s=0.01)
    assert turns.busy
    release.set()
    turns.run(lambda: None, told.append)
    assert (turns.busy, told) == (False, [])


def test_the_error_of_what_went_on_beside_is_told_at_the_next_turn() -> None:
    told: list[str] = []
    release, turns = threading.Event(), InTurn()

    def fails() -> None:
        release.wait(60)
        raise OSError(28, "No space left on device")

    turns.run(fails, told.append, patience_s=0.01)
    release.set()
    turns.run(lambda: None, told.append)
    assert told == ["not written: OSError: [Errno 28] No space left on device"]


def test_an_error_within_the_patience_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        InTurn().run(lambda: 1 / 0, NONE_FAILED, patience_s=60)


def test_steps_are_timed_again_when_the_trace_is_written() -> None:
    window = Window(planned(Config("out", at_step=12)))
    while window.phase != "cooldown":
        window.step_ended(100)
    window.writing = True
    for _ in range(40):
        window.step_ended(100)
        assert window.phase == "cooldown"
    window.writing = False
    window.step_ended(100)

    assert window.phase == "control_after"


@pytest.mark.parametrize("stop", [False, True])
def test_the_job_trains_while_a_trace_is_written(stop: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that `--stop` ends together wait: their steps are counted alike."""
    monkeypatch.setattr(of_session, "PATIENCE_S", 0.01)
    monkeypatch.setattr(of_session, "rank_and_world_size", lambda: (0, 2))
    session = Session(Config(str(tmp_path / "out"), at_step=12, steps=1, sample_steps=0, stop=stop))
    session.loop_begins("code")
    release, trained = threading.Event(), 0
    if stop:
        release.set()
    while session.phase != "active":
        session.step_ended()
    assert session.recorder is not None
    write, written_by = session.recorder.write, []

    def slow() -> None:
        written_by.append(threading.get_ident())
        release.wait(60)
        write()

    session.recorder.write = slow  # type: ignore[method-assign]
    for _ in range(30):
        session.step_ended()
        trained += session.phase == "cooldown"
    release.set()
    session.loop_ended()

    assert trained == (1 if stop else 30)
    assert threading.get_ident() not in written_by
    assert (tmp_path / "out" / "rank0.json.gz").exists()
