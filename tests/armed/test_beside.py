"""The thread beside the training one: what it does until it is stopped."""

import threading
import time

import pytest

from diagnose.probes.armed.beside import Beside


def test_all_that_was_noted_before_the_stop_is_in_the_last_turn() -> None:
    noted, written = [1], list[int]()
    beside = Beside(lambda: written.extend(noted), lambda: written.append(-1))
    beside.start()
    noted.append(2)

    assert beside.stop(60.0)
    assert written[-3:] == [1, 2, -1]


def test_a_turn_that_hangs_holds_up_nobody() -> None:
    hangs = threading.Event()
    beside = Beside(lambda: hangs.wait(30), lambda: None)
    beside.start()

    assert not beside.stop(0.1)
    hangs.set()


def test_what_fails_three_times_ends(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.probes.armed.beside.EVERY_S", 0.01)
    closed = threading.Event()

    def fails() -> None:
        raise OSError("no space")

    beside = Beside(fails, closed.set)
    beside.start()

    assert closed.wait(60)
    time.sleep(0.05)
    assert capfd.readouterr().err.count("step times not written: OSError: no space") == 3
